"""Sections of pictures: traversals to scrub through, reconstructions, columns of the Jacobian."""

from __future__ import annotations

import numpy as np

from untwine.report.mosaic import short
from untwine.report.page.contents import MOST_LATENTS, STEPS, Contents, Pictured
from untwine.report.page.html import Markup, joined, paragraph, tag
from untwine.report.page.pictures import sheet, signed_colours, strip, tile_class

COLUMNS = 7  # of a Jacobian: with the image, two rows of four on a phone


def reconstructions(contents: Contents) -> Markup | None:
    """Examples, and below them what each shown model makes of them."""
    pieces = []
    for i, one in enumerate(contents.pictured):
        looks = one.looks
        if not i or not _same_images(one, contents.pictured[i - 1]):
            pieces.append(_row("images", strip(looks.images, f"{looks.shown} examples")))
        for name, images in zip(looks.seeds, looks.reconstructions, strict=True):
            label = contents.label(one.case, name)
            pieces.append(_row(label, strip(images, f"reconstructions of {label}")))
    return tag("div", *pieces, class_="rows") if pieces else None


def columns(contents: Contents) -> Markup | None:
    """Columns of each shown model's Jacobian at one image, the largest first (rhodes2021, Figures 1 to 3)."""
    pieces = []
    for one in contents.pictured:
        looks = one.looks
        largest, order, norms = looks.columns(0, COLUMNS)
        image = looks.images[0] if looks.images.shape[1] == 3 else looks.images[0].repeat(3, 0)
        for i, name in enumerate(looks.seeds):
            coloured = signed_colours(largest[i : i + 1].astype(np.float64))[0]
            captions = [
                tag("span", "image"),
                *(_caption(*both) for both in zip(order[i].tolist(), norms[i].tolist(), strict=True)),
            ]
            label = contents.label(one.case, name)
            images = np.concatenate([image[None], coloured])
            pieces.append(_row(label, strip(images, f"Jacobian columns of {label}", captions)))
    if not pieces:
        return None
    note = (
        "The image at the left, then what a small step along each latent would change: red becomes brighter, blue "
        "darker (of three channels, grey stays). Below each, the latent and the norm of its column; colours are by row."
    )
    return joined([tag("div", *pieces, class_="rows"), paragraph(note, quiet=True)])


def _caption(latent: int, norm: float) -> Markup:
    return tag("span", f"z{latent}", tag("small", f"‖{short(norm)}‖"))


def _row(label: str, content: Markup) -> Markup:
    return tag("figure", tag("figcaption", label), content)


def _same_images(one: Pictured, other: Pictured) -> bool:
    return one.looks.images.shape == other.looks.images.shape and bool((one.looks.images == other.looks.images).all())


# --- traversals -----------------------------------------------------------------------------------------


def traversals(contents: Contents) -> Markup | None:
    """Latents of the shown models, each with a slider through images along it.

    All images of a model through one example are one sheet: a row for each latent, a column for each step.
    """
    if not contents.pictured:
        return None
    starts = contents.starts
    panels = []
    for one in contents.pictured:
        images = [one.looks.traversals(example, STEPS, MOST_LATENTS) for example in range(min(starts, one.looks.shown))]
        models = [
            _model(one, i, [sheet(of_example[i]) for of_example in images], hidden=i > 0)
            for i in range(len(one.looks.seeds))
        ]
        choose = _chooser("model", one.looks.seeds, f"the model of {one.case.label}") if len(models) > 1 else None
        title = tag("h3", one.case.label) if len(contents.cases) > 1 else None
        panels.append(tag("div", tag("header", title, choose), *models, class_="case"))
    names = [f"example {i + 1}" for i in range(starts)]
    start = _chooser("start", names, "the example through which all traversals go") if starts > 1 else None
    every = tag("label", "all at once ", _slider("all latents at once", class_="all"))
    note = (
        "Latents are in the order of their use, and each goes over the range that holds 95% of its codes; the others "
        "stay at the code of the example. Drag a slider, or focus it and use the arrow keys."
    )
    return joined(
        [
            tag("div", tag("div", start, every, class_="controls"), *panels, class_="traversals"),
            paragraph(note, quiet=True),
        ]
    )


def _model(one: Pictured, i: int, sheets: list[str], hidden: bool) -> Markup:
    """The latents of one model.

    Args:
        one: Its case.
        i: Its place among the models that are shown.
        sheets: The addresses of its sheets, one for each example through which traversals go.
        hidden: Whether another model is shown at first.
    """
    looks = one.looks
    order, nats = looks.useful
    latents = order[i, :MOST_LATENTS].tolist()
    _, y, x = looks.dataset.shape
    cards = []
    for row, latent in enumerate(latents):
        low, high = looks.ranges[i, latent]
        down = 100 * row / max(1, len(latents) - 1)
        shape = f"aspect-ratio: {x} / {y}; background-size: {100 * STEPS}% {100 * len(latents)}%; --down: {down:.4f}%"
        tile = tag("span", class_=tile_class(x, y), style=shape, role="img", aria_label=f"image along z{latent}")
        unit = "" if looks.deterministic else " nats"
        text = tag("span", tag("b", f"z{latent}"), f" {short(nats[i, latent])}{unit}")
        ends = tag("small", f"{short(low)} to {short(high)}")
        cards.append(tag("label", tile, _slider(f"z{latent}"), text, ends, class_="card"))
    addresses = "; ".join(f"--start-{number}: url({address})" for number, address in enumerate(sheets))
    return tag("div", *cards, class_="cards", style=f"--sheet: var(--start-0); {addresses}", hidden=hidden)


def _slider(label: str, class_: str | None = None) -> Markup:
    middle = STEPS // 2
    return tag("input", type="range", min=0, max=STEPS - 1, value=middle, aria_label=label, class_=class_)


def _chooser(kind: str, names: list[str], label: str) -> Markup:
    options = [tag("option", name, value=i) for i, name in enumerate(names)]
    return tag("select", *options, class_=kind, aria_label=label)
