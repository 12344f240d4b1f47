"""A folder of results as one page, and the check that recomputes every verdict from the stored numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from untwine import files
from untwine.errors import UntwineError
from untwine.experiments.engine import catalogue
from untwine.experiments.engine.contract import SCALES
from untwine.experiments.engine.findings import UNTESTABLE, judge, overall
from untwine.experiments.engine.result import FILE, VERDICTS, Result

HEAD = """# Results

Every figure and table of the papers that was reproduced, each at the largest scale that was run. This page is made
from the result files by `untwine reproduce --page results`; `untwine reproduce --check results` recomputes every
verdict from the numbers in them.
"""

MARKER = "<!-- what follows is written by hand -->"


def results(folder: str | Path) -> dict[Path, Result]:
    """All results below a folder, in the order of the papers and of their figures, by their files."""
    order = list(catalogue.experiments())
    if not Path(folder).is_dir():
        raise UntwineError(f"{folder} is no folder of results")
    found = {file: Result.read(file) for file in sorted(Path(folder).rglob(FILE))}

    if not found:
        raise UntwineError(f"{folder} holds no results: there is no {FILE} below it")

    def place(item: tuple[Path, Result]) -> tuple[int, int]:
        name, scale = item[1].name, item[1].scale
        return order.index(name) if name in order else len(order), SCALES.index(scale) if scale in SCALES else 0

    return dict(sorted(found.items(), key=place))


def check(folder: str | Path) -> list[str]:
    """What is wrong with the results below a folder: verdicts that do not follow from the stored numbers."""
    wrong = []
    for file, result in results(folder).items():
        try:
            experiment = catalogue.find(result.name)
            plan = experiment.plan(experiment.settings(result.scale, **result.settings))
        except UntwineError as error:
            wrong.append(f"{file}: {error}")
            continue
        hidden = experiment.hidden.get(result.scale, "")
        findings = judge(plan.claims, result.rows, result.published, hidden)
        if list(plan.published) != list(result.published):
            wrong.append(f"{file}: the paper's numbers are not those of the experiment now")
        for now, stored in zip(findings, result.findings, strict=False):
            if (now.text, now.verdict) != (stored.text, stored.verdict):
                wrong.append(f"{file}: {stored.text!r} is {stored.verdict!r}, but the numbers say {now.verdict!r}")
        if len(findings) != len(result.findings):
            wrong.append(f"{file}: it has {len(result.findings)} claims, but the experiment {len(findings)} now")
        if overall(findings) != result.verdict:
            wrong.append(f"{file}: its verdict is {result.verdict!r}, but the numbers say {overall(findings)!r}")
    return wrong


def page(folder: str | Path, below: str = "") -> str:
    """The page of a folder: a row for each figure or table, at its largest scale.

    Args:
        folder: The folder of the results.
        below: What else the page says, at its end.
    """
    largest = {
        (result.name, json.dumps(dict(result.changes))): (file, result) for file, result in results(folder).items()
    }
    lines = [HEAD]
    for paper in catalogue.papers():
        rows = [(file, result) for file, result in largest.values() if result.name.startswith(f"{paper}/")]
        if rows:
            lines += [f"## {paper}", "", "| figure | claim | paper | ours | scale, models | verdict | |"]
            lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
            lines += [_row(Path(folder), file, result) for file, result in rows]
            lines += [""]
    return "\n".join([*lines, below])


def write_page(folder: str | Path) -> Path:
    """Write the page into the folder; whatever stands below its last generated line stays."""
    target = Path(folder) / "README.md"
    old = target.read_text() if target.exists() else ""
    below = old.partition(MARKER)[2]
    files.write(target, page(folder, f"{MARKER}{below or chr(10)}").encode())
    return target


def _row(folder: Path, file: Path, result: Result) -> str:
    place = file.parent.relative_to(folder).as_posix()
    picture = f"[picture]({place}/{result.figures[0]})" if result.figures else ""
    figure = f"[{result.name.partition('/')[2]}]({place}/result.md)"
    cells = [figure, result.claim, *_sides(result), f"{place.rpartition('/')[2]}, {result.about['members']}"]
    return "| " + " | ".join([*cells, _verdict(result), picture]) + " |"


def _verdict(result: Result) -> str:
    """The verdict, and how many of the claims it is about, where not all could be tested."""
    tested = sum(finding.verdict != UNTESTABLE for finding in result.findings)
    some = f" ({tested} of {len(result.findings)} claims tested)" if 0 < tested < len(result.findings) else ""
    return VERDICTS[result.verdict] + some


def _sides(result: Result) -> Sequence[str]:
    """The paper's numbers and ours, of the first claim that has any."""
    numbered = [finding for finding in result.findings if finding.ours]
    best = next((finding for finding in numbered if finding.paper), numbered[0] if numbered else None)
    return [best.paper, best.ours] if best else ["", ""]
