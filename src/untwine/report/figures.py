"""Figures of what was found, from arrays: images, Jacobian columns, traversals, encodings, densities, scores.

Every function returns a matplotlib `Figure` that belongs to no window; `save` writes it. Colours are those that
people with any kind of colour vision can tell apart (Okabe and Ito 2008; Brewer's red to blue; viridis).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from untwine import files
from untwine.analysis import aggregate, encodings
from untwine.checks import as_array
from untwine.errors import UntwineError, unknown
from untwine.report import mosaic
from untwine.report.mosaic import SMALL, WIDEST, Limits, Names, literal, matching, short, texts, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE = "#0072B2", "#D55E00"
FORMATS = ("png", "pdf", "svg")


def save(figure: Figure, path: str | Path | BufferedIOBase, dpi: int = 160) -> None:
    """Write a figure to a `.png`, `.pdf` or `.svg` file, or as PNG to an open one. The same figure, the same bytes.

    >>> import io
    >>> file = io.BytesIO()
    >>> save(scores({"vae": [0.1, 0.2]}), file)
    >>> file.getvalue()[1:4]
    b'PNG'
    """
    import matplotlib

    kind = kind_of(path) if isinstance(path, str | Path) else "png"
    undated = {"png": None, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    drawn = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "untwine"}):
        figure.savefig(drawn, format=kind, dpi=dpi, bbox_inches="tight", pad_inches=0.05, metadata=undated)
    if isinstance(path, str | Path):
        files.write(Path(path), drawn.getvalue())
    else:
        path.write(drawn.getvalue())


def kind_of(path: str | Path) -> str:
    """What kind of picture a file's name asks for.

    >>> kind_of("columns.svg")
    'svg'
    """
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise unknown("kind of picture", kind, FORMATS)
    return kind


def images(
    grid: ArrayLike,
    row_labels: Names | None = None,
    column_labels: Names | None = None,
    symmetric: bool = False,
    scale: str = "all",
    limits: Limits = (0.0, 1.0),
    title: str = "",
) -> Figure:
    """Images `[rows, columns, *shape]` in rows and columns; a shape is `[y, x]`, `[1, y, x]` or `[3, y, x]`.

    Symmetric ones have a sign, as columns of a Jacobian do: colours are centred at 0, and reach the largest
    magnitude of all images, of each row, or of each image (`scale`). Others are grey or RGB between `limits`,
    or between their own extremes where these are None.

    >>> len(images(np.zeros((2, 3, 1, 8, 8))).axes[0].images)
    6
    """
    tiles = mosaic.tiles(grid, "images")
    styled = mosaic.signed(tiles, scale) if symmetric else mosaic.plain(tiles, limits)
    figure = mosaic.mosaic(styled, row_labels, column_labels, title=title)
    if symmetric:
        mosaic.signed_bar(figure, tiles, scale)
    return figure


def columns(
    image: ArrayLike,
    jacobian_columns: ArrayLike,
    latents: ArrayLike | None = None,
    norms: ArrayLike | None = None,
    row_labels: Names | None = None,
    scale: str = "row",
    limits: Limits = (0.0, 1.0),
    across: int = 10,
    title: str = "",
) -> Figure:
    """An image and columns of the decoder's Jacobian at its code, `[count, *shape]` (rhodes2021, Figures 1 to 3).

    They are shown in the order given; the `latents` that they belong to and their `norms`, `[count]`, are written
    below: `columns(image, *analysis.jacobian_columns(jacobian))`. All may have rows in front: several images, or
    several models of one. `scale` is that of `images`; `across` columns stand in a line.

    >>> figure = columns(np.zeros((8, 8)), np.ones((2, 8, 8)), [5, 3], [120.0, 2.0])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['', 'z5 ‖·‖ 120', 'z3 ‖·‖ 2.0']
    """
    whole, signed = as_array(image), as_array(jacobian_columns)
    if signed.shape[1:] == whole.shape:
        whole, signed = whole[None], signed[None]
    if signed.shape[:1] + signed.shape[2:] != whole.shape:
        raise UntwineError(
            f"columns have shape {list(signed.shape)} for an image {list(whole.shape)}; they must be [count, *shape] "
            "for an image [*shape], or [rows, count, *shape] for images [rows, *shape]"
        )
    tiles, first = mosaic.tiles(signed, "columns"), mosaic.tiles(whole[:, None], "images")
    rows, count = tiles.shape[:2]
    written = [[""] * count for _ in range(rows)]
    if latents is not None:
        numbers = matching(mosaic.whole(latents, "latents"), (rows, count), "latents")
        written = [[f"z{one:.0f}" for one in line] for line in numbers]
    if norms is not None:
        lengths = matching(norms, (rows, count), "norms")
        written = [
            [f"{name} ‖·‖ {short(length)}".strip() for name, length in zip(*both, strict=True)]
            for both in zip(written, lengths, strict=True)
        ]
    labels = [""] * rows if row_labels is None else texts(row_labels, rows, "row labels")
    pictures = zip(mosaic.plain(first, limits), mosaic.signed(tiles, scale), strict=True)
    styled = [line for a, b in pictures for line in mosaic.lines(a[0], b, across, None)]
    lines = [line for both in zip(labels, written, strict=True) for line in mosaic.lines(*both, across, "")]
    captions = None if norms is None and latents is None else [["", *line[1:]] for line in lines]
    figure = mosaic.mosaic(styled, [line[0] for line in lines], None, captions, title)
    mosaic.signed_bar(figure, tiles, scale)
    return figure


def traversals(
    images: ArrayLike,
    names: Names | None = None,
    ranges: ArrayLike | None = None,
    limits: Limits = (0.0, 1.0),
    title: str = "",
) -> Figure:
    """The images of traversals `[latents, steps, *shape]`, a row for each latent, with its name and its range.

    `names` are texts, or the numbers of the latents; `ranges` are `[latents, 2]`, in the order of the rows.

    >>> traversals(np.zeros((2, 5, 8, 8)), [3, 1], [[-2, 2], [-1, 1]]).axes[0].get_yticklabels()[0].get_text()
    'z3\\n−2.0 to 2.0'
    """
    tiles = mosaic.tiles(images, "traversals")
    labels = texts(range(len(tiles)) if names is None else names, len(tiles), "names", "z")
    if ranges is not None:
        ends = matching(ranges, (len(tiles), 2), "ranges")
        labels = [f"{name}\n{short(low)} to {short(high)}" for name, (low, high) in zip(labels, ends, strict=True)]
    return mosaic.mosaic(mosaic.plain(tiles, limits), labels, title=title)


def magnitudes(
    table: ArrayLike | encodings.ByClass, names: Names | None = None, threshold: float | None = None, title: str = ""
) -> Figure:
    """The mean magnitude of each latent for each class, `[classes, d]` (mathieu2019, Figure 5, top).

    Or what `analysis.magnitude_by_class` found, which has the classes' names. Latents whose magnitude is above the
    threshold, the active ones, are coloured.

    >>> found = encodings.magnitude_by_class([[1.0, 0.0], [0.0, 2.0]], ["shirt", "dress"])
    >>> [axes.get_ylabel() for axes in magnitudes(found, threshold=0.5).axes]
    ['dress', 'shirt']
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if isinstance(table, encodings.ByClass):
        names = table.classes if names is None else names
        table = table.values
    values = encodings.checked(table, "magnitudes", 2)
    if values.ndim != 2:
        raise UntwineError(f"magnitudes have shape {list(values.shape)}; they must be [classes, d], of one member")
    if threshold is not None and not threshold >= 0:
        raise UntwineError(f"threshold is a magnitude, 0 or more, not {threshold!r}")
    classes, latents = values.shape
    limits = [] if threshold is None else [-threshold, threshold] if (values < 0).any() else [threshold]
    labels = texts(range(classes) if names is None else names, classes, "names", "class ")
    width = min(WIDEST, max(4.0, 0.16 * latents + 1))
    figure = Figure(figsize=(width, 0.5 + max(0.75 * classes, 1.2)), layout="constrained")
    stacked = figure.subplots(classes, 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, row, label in zip(stacked, values, labels, strict=True):
        active = np.ones(latents, bool) if threshold is None else np.abs(row) > threshold
        axes.bar(np.arange(latents), row, width=0.8, color=[BLUE if one else "0.75" for one in active])
        axes.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=SMALL + 1)
        axes.tick_params(labelsize=SMALL)
        axes.spines[["top", "right"]].set_visible(False)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.yaxis.set_major_locator(MaxNLocator(2, steps=[1, 2, 5, 10]))
        for limit in limits:
            axes.axhline(limit, color=ORANGE, linewidth=0.8, linestyle="--")
    stacked[-1].set_xlabel("latent", fontsize=SMALL + 1)
    stacked[-1].xaxis.set_major_locator(MaxNLocator(12, steps=[1, 2, 5, 10], integer=True))
    stacked[-1].set_xlim(-0.7, latents - 0.3)
    titled(figure, title)
    return figure


def density(
    result: aggregate.Density,
    samples: ArrayLike | None = None,
    titles: Sequence[str] | None = None,
    across: int = 4,
    common: bool = True,
    title: str = "",
) -> Figure:
    """The density of the aggregate posterior in two latents, a panel for each member (mathieu2019, Figure 3).

    `samples`, `[n, 2]` or `[members, n, 2]`, are drawn as points. Colours reach from 0 to the maximum of all panels
    (`common`), or of each. `across` is the number of panels in a row. Both latents have one scale, unless the range
    of one is more than three times that of the other.

    >>> [axes.get_ylabel() for axes in density(aggregate.density(np.zeros((2, 5, 2)), np.ones((2, 5, 2)))).axes]
    ['z1', '', 'density']
    """
    from matplotlib.figure import Figure

    values = result.values.reshape(-1, *result.values.shape[-2:])
    count = len(values)
    headings = [""] * count if titles is None else texts(titles, count, "titles")
    points = None if samples is None else encodings.checked(samples, "samples", 2)
    if points is not None and (points.ndim > 3 or points.shape[-1] != 2 or points.shape[:-2] not in ((), (count,))):
        raise UntwineError(f"samples have shape {list(points.shape)}; they must be [n, 2] or [{count}, n, 2]")
    shown = min(mosaic.positive(across), count)
    rows = -(-count // shown)
    tall = float(np.ptp(result.y) / np.ptp(result.x))
    tall = tall if 1 / 3 <= tall <= 3 else 1.0
    side = min(3.2, WIDEST / shown)
    size = side * shown * min(1, 1 / tall) + 0.8, side * rows * min(1, tall) + 0.3
    figure = Figure(figsize=size, layout="compressed")
    panels = figure.subplots(rows, shown, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels[count:]:
        axes.remove()
    for i, (axes, panel) in enumerate(zip(panels, values, strict=False)):
        top = float((values if common else panel).max())
        style = dict(cmap="viridis", vmin=0, vmax=top or 1, shading="nearest", rasterized=True)
        mesh = axes.pcolormesh(result.x, result.y, panel, **style)
        if points is not None:
            x, y = (points if points.ndim == 2 else points[i]).T
            axes.scatter(x, y, s=4, color="white", edgecolors="black", linewidths=0.3, alpha=0.8)
            axes.set(xlim=(result.x[0], result.x[-1]), ylim=(result.y[0], result.y[-1]))
        axes.set_box_aspect(tall)
        axes.locator_params(nbins=5)
        axes.set_title(headings[i], fontsize=SMALL + 1.5)
        axes.tick_params(labelsize=SMALL)
        if i + shown >= count:
            axes.set_xlabel(f"z{result.latents[0]}", fontsize=SMALL + 1)
            axes.tick_params(labelbottom=True)  # also where panels below are missing
        if i % shown == 0:
            axes.set_ylabel(f"z{result.latents[1]}", fontsize=SMALL + 1)
        if not common or i == count - 1:
            bar = figure.colorbar(mesh, ax=list(panels[:count]) if common else axes, aspect=25)
            bar.set_label("density", fontsize=SMALL + 1)
            bar.ax.tick_params(labelsize=SMALL)
    titled(figure, title)
    return figure


def scores(values: Mapping[str, ArrayLike], label: str = "score", errors: float = 2.0, title: str = "") -> Figure:
    """The scores of every model by method (rhodes2021, Figure 5): the models, their quartiles, mean and interval.

    The interval is that of the mean, `errors` standard errors to both sides. Scores that are not finite, those of
    models that diverged, are left out and counted.

    >>> scores({"β-VAE": [0.05, 0.06], "JL1-VAE": [0.12, 0.13]}, "local MIG").axes[0].get_xlabel()
    'local MIG'
    """
    from matplotlib.figure import Figure

    if not values:
        raise UntwineError("there are no scores to show")
    figure = Figure(figsize=(6.0, 1.1 + 0.42 * len(values)), layout="constrained")
    axes = figure.subplots()
    boxes: dict[str, Any] = dict(orientation="horizontal", widths=0.6, showcaps=False, showfliers=False, zorder=1)
    boxes |= dict(patch_artist=True, manage_ticks=False, boxprops=dict(facecolor="0.9", edgecolor="0.6"))
    boxes |= dict(medianprops=dict(color="0.3", linewidth=1.2), whiskerprops=dict(color="0.6"))
    means: dict[str, Any] = dict(fmt="D", color=ORANGE, markersize=4, capsize=2.5, linewidth=1.3, zorder=3)
    names = []
    for place, (name, given) in enumerate(values.items()):
        every = np.atleast_1d(as_array(given)).astype(np.float64).ravel()
        finite = every[np.isfinite(every)]
        names.append(literal(name) + (f"\n({len(every) - len(finite)} left out)" if len(finite) < len(every) else ""))
        if not len(finite):
            continue
        if len(finite) > 2:
            axes.boxplot([finite], positions=[place], **boxes)
        spread = np.argsort(np.argsort(finite)) * 0.618 % 1  # neighbours lie apart
        spread = 0.4 * (spread - spread.mean())
        axes.scatter(finite, place + spread, s=13, color=BLUE, alpha=0.7, linewidths=0, zorder=2)
        error = errors * finite.std(ddof=1) / np.sqrt(len(finite)) if len(finite) > 1 else 0.0
        axes.errorbar(finite.mean(), place, xerr=error, **means)
    axes.set_yticks(range(len(names)), names, fontsize=SMALL + 1.5)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set_xlabel(literal(label), fontsize=SMALL + 1.5)
    figure.supxlabel(f"diamond: mean ± {errors:g} standard errors; box: quartiles", fontsize=SMALL - 0.5, color="0.35")
    axes.tick_params(axis="x", labelsize=SMALL + 0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    titled(figure, title)
    return figure
