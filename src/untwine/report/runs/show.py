"""Single pictures of a run's models: `untwine show`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from untwine.checks import whole
from untwine.data.specs import slug
from untwine.errors import UntwineError, unknown
from untwine.files import refuse_place
from untwine.report import figures
from untwine.report.runs.looks import Looks
from untwine.report.runs.opened import OpenedRun, Source, opened
from untwine.report.saving import picture_format

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = 11  # images along a latent
MOST_MODELS = 4  # in one picture, unless members are named

# Pictures by the end of their file's name.
Pictures = dict[str, "Figure"]


def traversals(looks: Looks, latents: int) -> Pictures:
    """A picture of each model: its latents from the most useful on, each over its range."""
    drawn: Pictures = {}
    images = looks.traversals(0, STEPS, latents)
    for i, name in enumerate(looks.names):
        order = looks.useful[0][i, :latents]
        title = f"{name}: traversals, most useful latents first"
        end = name if len(looks.names) > 1 else ""
        drawn[end] = figures.traversals(images[i], order, looks.ranges[i, order], title=title)
    return drawn


def columns(looks: Looks, latents: int) -> Pictures:
    """The largest columns of each model's Jacobian at one image, a row for each model."""
    largest, order, norms = looks.columns(0, latents)
    image = looks.images[:1].repeat(len(looks.names), 0)
    title = "Jacobian columns, largest first"
    return {"": figures.columns(image, largest, order, norms, looks.names, across=latents, title=title)}


def reconstructions(looks: Looks, latents: int) -> Pictures:
    """Images, and what each model reconstructs."""
    return {"": figures.reconstructions(looks.images, looks.reconstructions, looks.names)}


def information(looks: Looks, latents: int) -> Pictures:
    """The share of each factor's entropy that each latent knows, a panel for each model."""
    if looks.information is None:
        raise UntwineError(f"{looks.dataset!r} has no factors that latents could know about: there is no information")
    table, names = looks.information
    count = min(latents, table.shape[1])
    title = "I(latent; factor) / H(factor), most useful latents first"
    rows, order = table[:, :count], looks.useful[0][:, :count]
    return {"": figures.information(rows, names, order, looks.names, title=title)}


INFORMATION = "information"  # also of what is no image
PICTURES: dict[str, Callable[[Looks, int], Pictures]] = {
    "traversals": traversals,
    "columns": columns,
    "reconstructions": reconstructions,
    INFORMATION: information,
}
CURVES = "curves"  # needs the log alone
WHAT = (*PICTURES, CURVES)


def show(
    run: Source,
    what: str = "traversals",
    out: str | Path | None = None,
    members: Sequence[str] = (),
    latents: int = 10,
    examples: int = 10,
    seed: int = 0,
    device: str = "auto",
) -> list[Path]:
    """Draw one kind of picture of a run's models, and return the files.

    Args:
        run: The run's folder, or an ensemble.
        what: traversals, columns, reconstructions, curves or information.
        out: The picture, a .png, .svg or .pdf file. Traversals of several members get a file each, with the member's
            name at its end.
        members: Names of members, such as seed-0; by default every member in curves, else the first four.
        latents: The most latents, or columns.
        examples: Images in reconstructions.
        seed: Seed of the choice of images.
        device: auto, cpu, cuda or mps.
    """
    check_show(what, out, latents, examples, seed)
    source = opened(run, device)
    target = Path(out) if out is not None else Path("shown") / f"{slug(source.name)}-{what}.png"
    if what == CURVES:
        drawn = _curves(source, members)
    else:
        drawn = PICTURES[what](_looks(source, members, examples, seed, images=what != INFORMATION), latents)
    files = []
    for end, figure in drawn.items():
        file = target.with_name("-".join(filter(None, (target.stem, slug(end)))) + target.suffix)
        try:
            figures.save(figure, file)
        except OSError as error:
            raise UntwineError(f"cannot write {file}: {error.strerror or error}") from None
        files.append(file)
    return files


def check_show(what: str, out: str | Path | None, latents: int, examples: int, seed: int) -> None:
    """Refuse arguments of `show` that would fail, before anything is loaded."""
    if what not in WHAT:
        raise unknown("picture", what, WHAT)
    if out is not None:
        picture_format(out)
        refuse_place(Path(out))
    whole("latents", latents, 1)
    whole("examples", examples, 1, 100)
    whole("seed", seed, 0)


def _curves(run: OpenedRun, members: Sequence[str]) -> Pictures:
    names = _named(members, [member.name for member in run.members])
    histories: Any = {name: _only(run, [name]) for name in names} if members else _only(run, names)
    return {"": figures.curves(histories, title=run.name)}


def _only(run: OpenedRun, names: Sequence[str]) -> list[dict[str, Any]]:
    lines = ({**line, "members": {k: v for k, v in line["members"].items() if k in names}} for line in run.history)
    return [line for line in lines if line["members"]]


def _looks(run: OpenedRun, members: Sequence[str], examples: int, seed: int, images: bool = True) -> Looks:
    if run.ensemble is None:
        why = run.damage[0].text if run.damage else "no model is finished"
        raise UntwineError(f"there is no model of {run.name} to show: {why}")
    if run.dataset is None:
        raise UntwineError(run.damage[-1].text)
    finished = [member.name for member in run.ensemble.members]
    names = _named(members, finished) if members else finished[:MOST_MODELS]
    looks = Looks(run.ensemble, run.dataset, [finished.index(name) for name in names], examples, seed)
    if images and not looks.has_images:
        raise UntwineError(
            f"examples of {run.dataset!r} are no images of one or three channels: there is nothing to show"
        )
    return looks


def _named(members: Sequence[str], known: Sequence[str]) -> list[str]:
    """These members, or every known one where none is named."""
    for name in members:
        if name not in known:
            raise unknown("member", name, known)
    return list(dict.fromkeys(members)) or list(known)
