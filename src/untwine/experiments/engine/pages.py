"""A folder of results as one page, and the check that recomputes every verdict from the stored numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from untwine import files
from untwine.errors import UntwineError, brief
from untwine.experiments.engine import catalogue
from untwine.experiments.engine.contract import SCALES
from untwine.experiments.engine.findings import judge, overall
from untwine.experiments.engine.result import FILE, PAGE, Result, line, page_of, row, verdict

HEAD = """# Results

Every figure and table of the papers that was reproduced, each at the largest scale that was run. This page is made
from the result files by `untwine reproduce --page results`; `untwine reproduce --check results` recomputes every
verdict from the numbers in them.
"""

# What a finding says beside its verdict.
STATED = ("ours", "paper", "test", "p", "corrected", "effect", "models")
MARKER = "<!-- what follows is written by hand -->"


def results(folder: str | Path) -> dict[Path, Result]:
    """All results below a folder, in the order of the papers and of their figures, by their files."""
    order = list(catalogue.experiments())
    found = {file: Result.read(file) for file in stored(folder)}

    def place(item: tuple[Path, Result]) -> tuple[int, int]:
        name, scale = item[1].name, item[1].scale
        return order.index(name) if name in order else len(order), SCALES.index(scale) if scale in SCALES else 0

    return dict(sorted(found.items(), key=place))


def stored(folder: str | Path) -> list[Path]:
    """The files of results below a folder; one that has none is refused."""
    if not Path(folder).is_dir():
        raise UntwineError(f"{folder} is no folder of results")
    found = sorted(Path(folder).rglob(FILE))
    if not found:
        raise UntwineError(f"{folder} holds no results: there is no {FILE} below it")
    return found


def check(folder: str | Path) -> list[str]:
    """What is wrong with the results below a folder: what cannot be read, or does not follow from the numbers."""
    wrong = []
    for file in stored(folder):
        try:
            wrong += [f"{file}: {text}" for text in _wrong(Result.read(file))]
        except UntwineError as error:
            wrong.append(str(error) if str(file) in str(error) else f"{file}: {error}")
        except (TypeError, ValueError, LookupError) as error:  # columns that no measure gives
            wrong.append(f"{file}: its numbers cannot be judged: {brief(error)}")
    return wrong


def _wrong(result: Result) -> Iterator[str]:
    """Verdicts and statistics of a result that do not follow from its numbers."""
    experiment = catalogue.find(result.name)
    plan = experiment.plan(experiment.settings(result.scale, **result.settings))
    with experiment.blamed("a claim"):
        findings = judge(plan.claims, result.rows, result.published, experiment.hidden.get(result.scale, ""))
    if list(plan.published) != list(result.published):
        yield "the paper's numbers are not those of the experiment now"
    for now, stored in zip(findings, result.findings, strict=False):
        if (now.text, now.verdict) != (stored.text, stored.verdict):
            yield f"{stored.text!r} is {stored.verdict!r}, but the numbers say {now.verdict!r}"
        elif changed := [key for key in STATED if not _alike(getattr(now, key), getattr(stored, key))]:
            one = changed[0]
            yield f"{one} of {stored.text!r} is {getattr(stored, one)!r}, but the numbers say {getattr(now, one)!r}"
    if len(findings) != len(result.findings):
        yield f"it has {len(result.findings)} claims, but the experiment {len(findings)} now"
    if overall(findings) != result.verdict:
        yield f"its verdict is {result.verdict!r}, but the numbers say {overall(findings)!r}"


def _alike(now: Any, stored: Any) -> bool:
    """Whether two values of a finding are the same, up to what other versions of NumPy and SciPy compute."""
    if isinstance(now, float) and isinstance(stored, float):
        return math.isclose(now, stored, rel_tol=1e-6, abs_tol=1e-12)
    return now == stored


def page(folder: str | Path, below: str = "") -> str:
    """The page of a folder: a row for each figure or table of its papers, at its largest scale.

    Args:
        folder: The folder of the results.
        below: What else the page says, at its end.
    """
    largest = {
        (result.name, json.dumps(dict(result.changes))): (file, result) for file, result in results(folder).items()
    }
    lines = [HEAD]
    papers = dict.fromkeys(_paper(result.name) for _, result in largest.values())
    for paper in papers:
        rows = [_row(Path(folder), file, result) for file, result in largest.values() if _paper(result.name) == paper]
        known = {result.name for _, result in largest.values()}
        rows += [
            row([name.partition("/")[2], experiment.claim, "", "", "", "not run yet", ""])
            for name, experiment in catalogue.experiments().items()
            if _paper(name) == paper and name not in known
        ]
        lines += [f"## {line(paper)}", "", "| figure | claim | paper | ours | scale, models | verdict | |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
        lines += [*rows, ""]
    return "\n".join([*lines, below])


def _paper(name: str) -> str:
    return name.partition("/")[0]


def write_page(folder: str | Path) -> Path:
    """Write the page into the folder, and that of each result; what stands below the last generated line stays."""
    for file, result in results(folder).items():
        files.write(file.with_name(PAGE), page_of(result).encode())
    target = Path(folder) / "README.md"
    old = target.read_text() if target.exists() else ""
    below = old.partition(MARKER)[2]
    files.write(target, page(folder, f"{MARKER}{below or chr(10)}").encode())
    return target


def _row(folder: Path, file: Path, result: Result) -> str:
    place = file.parent.relative_to(folder).as_posix()
    picture = f"[picture]({place}/{result.figures[0]})" if result.figures else ""
    figure = f"[{result.name.partition('/')[2]}]({place}/result.md)"
    cells = [figure, result.claim, *_sides(result), f"{place.rpartition('/')[2]}, {result.about.get('members', 0)}"]
    return row([*cells, verdict(result), picture])


def _sides(result: Result) -> Sequence[str]:
    """The paper's numbers and ours, of the first claim that has any."""
    numbered = [finding for finding in result.findings if finding.ours]
    best = next((finding for finding in numbered if finding.paper), numbered[0] if numbered else None)
    return [best.paper, best.ours] if best else ["", ""]
