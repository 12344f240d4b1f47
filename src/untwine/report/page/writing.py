"""Write a page about runs: `untwine.write_report`, and `untwine report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from untwine import files
from untwine._version import __version__
from untwine.arguments import checked
from untwine.errors import UntwineError
from untwine.locations import run_folder
from untwine.progress import track
from untwine.report.page import about, known, measured, seen
from untwine.report.page.contents import Contents
from untwine.report.page.html import Markup, joined, paragraph, tag
from untwine.report.runs.opened import OpenedRun, Source, found, opened
from untwine.train.ensemble import Ensemble


class Section(NamedTuple):
    """A section: its name in the list at the top, its title, and what makes it; None leaves it out."""

    name: str
    title: str
    make: Callable[[Contents], Markup | None]


# In the order of the page. A new section is one more line.
SECTIONS = (
    Section("care", "Take care", about.careful),
    Section("runs", "What was trained", about.trained),
    Section("curves", "Loss curves", measured.curves),
    Section("scores", "Scores", measured.scores),
    Section("traversals", "Traversals", seen.traversals),
    Section("reconstructions", "Reconstructions", seen.reconstructions),
    Section("columns", "Columns of the Jacobian", seen.columns),
    Section("latents", "Active and passive latents", measured.latents),
    Section("polarised", "Polarised regime", measured.polarised),
    Section("posterior", "Aggregate posterior", known.aggregate),
    Section("information", "What latents know about factors", known.information),
    Section("distances", "Distances along factors", known.distance),
    Section("commands", "Do it again", about.again),
)


@checked("runs", "device")
def write_report(
    runs: Source | Sequence[Source],
    out: str | Path | None = None,
    device: str = "auto",
    progress: bool | None = None,
) -> Path:
    """Write one HTML page about runs, and return its path.

    The page needs no other file and no network. It shows what was trained, curves, stored scores with intervals and
    tests between runs, traversals to scrub through, reconstructions, Jacobian columns, latents and what they know about
    factors, and the commands that do it again. Nothing is trained or scored.

    Args:
        runs: Folders of runs, folders that hold such folders (a sweep), or ensembles; one or several.
        out: The page; by default report.html, in the folder where a single one was given.
        device: auto, cpu, cuda or mps.
        progress: Whether to show a progress bar; None shows one where there is a terminal.
    """
    sources: list[Any] = list(runs) if isinstance(runs, list | tuple) else [runs]
    if not sources:
        raise UntwineError("a report needs a run: give its folder")
    sources = [source if isinstance(source, Ensemble) else run_folder(source) for source in sources]
    alone = sources[0] if len(sources) == 1 and not isinstance(sources[0], Ensemble) else None
    target = Path(out) if out is not None else Path(alone or ".") / "report.html"
    refuse_page(target)
    contents = Contents([opened(source, device) for source in found(sources)])
    sections: dict[Section, Markup] = {}
    for section in track(SECTIONS, "writing the page", len(SECTIONS), progress):
        try:
            content = section.make(contents)
        except (
            UntwineError
        ) as error:  # such as weights that are not finite; the other sections are written all the same
            content = paragraph(f"This cannot be shown: {error}")
        if content is not None:
            sections[section] = content
    try:
        files.write(target, page(contents, sections).encode())
    except OSError as error:
        raise UntwineError(f"cannot write {target}: {error.strerror or error}") from None
    return target


def refuse_page(out: str | Path | None) -> None:
    """Refuse a file that cannot be a page, before anything is opened."""
    if out is None:
        return
    if Path(out).suffix not in (".html", ".htm"):
        raise UntwineError(f"a report is a page: its file ends in .html, unlike {str(out)!r}")
    files.refuse_place(Path(out))


def page(contents: Contents, sections: Mapping[Section, Markup]) -> str:
    """The HTML of a page.

    Args:
        contents: What it is about.
        sections: The content of each section.
    """
    names = [run.name for run in contents.runs]
    title = ", ".join(names) if len(names) < 4 else f"{len(names)} runs"
    links = [tag("a", section.name, href=f"#{section.name}") for section in sections]
    parts = [
        tag("section", tag("h2", section.title), content, id=section.name) for section, content in sections.items()
    ]
    if contents.left_out:
        parts.insert(
            0, paragraph(f"{contents.left_out} further cases have no pictures here: report on fewer runs at once.")
        )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} – untwine"),
        tag("link", rel="icon", href="data:,"),
        tag("style", _file("style.css")),
    )
    body = tag(
        "body",
        tag("header", tag("h1", title), paragraph(_summary(contents.runs)), class_="top"),
        tag("nav", *links, aria_label="sections"),
        tag("main", *parts),
        tag("footer", paragraph(f"Written by untwine {__version__}. This page needs no network.")),
        tag("script", _file("script.js")),
    )
    return joined([Markup("<!doctype html>\n"), tag("html", head, body, lang="en")])


def _summary(runs: Sequence[OpenedRun]) -> str:
    """One line about all runs: methods, data and models."""
    methods = dict.fromkeys(member.method.replace("_", "-") for run in runs for member in run.members)
    data = dict.fromkeys(str(run.spec()["dataset"].get("name", "data")).replace("_", "-") for run in runs)
    done = sum(state == "done" for run in runs for state in run.states.values())
    total = sum(len(run.members) for run in runs)
    models = f"{done} model{'s' * (done != 1)}" if done == total else f"{done} of {total} models trained"
    return f"{', '.join(methods)} on {', '.join(data)}: {models}"


def _file(name: str) -> Markup:
    """A file of this package, which is HTML, CSS or JavaScript of ours."""
    return Markup(resources.files("untwine.report.page").joinpath(name).read_text(encoding="utf-8"))
