"""The result of an experiment: `result.json` with every number, and `result.md` for people."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from untwine import files
from untwine.arguments import bind, coerce
from untwine.errors import UntwineError, printable
from untwine.experiments.engine.findings import NOT, PARTLY, REPRODUCED, UNTESTABLE, Finding, Verdict
from untwine.experiments.engine.rows import Row, Rows, checked_rows
from untwine.metrics.statistics import summary

FORMAT = 1
FILE = "result.json"
PAGE = "result.md"
SHOWN = 60  # rows of the table of numbers


@dataclass(frozen=True)
class Result:
    """What came of an experiment.

    Args:
        name: The paper and the figure.
        scale: smoke, small or paper.
        claim: What the paper says, in one line.
        settings: The settings of the experiment.
        changes: Those that differ from the scale's.
        verdict: What our numbers say of the claims.
        findings: What they say of each claim.
        rows: Every number.
        published: The paper's numbers.
        figures: The files of the pictures.
        caveats: In what this differs from the paper.
        problems: What could not be done, and why.
        about: Versions, hardware, times, how many members.
    """

    name: str
    scale: str
    claim: str
    settings: Mapping[str, Any]
    changes: Mapping[str, Any]
    verdict: Verdict
    findings: tuple[Finding, ...]
    rows: Rows
    published: Rows
    figures: tuple[str, ...]
    caveats: tuple[str, ...]
    problems: tuple[str, ...]
    about: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The result as JSON, which `from_json` reads."""
        lists = {"findings": [asdict(finding) for finding in self.findings]}
        lists |= {name: list(getattr(self, name)) for name in ("rows", "published", "figures", "caveats", "problems")}
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"format": FORMAT, **fields, **lists}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Result:
        """The result that JSON describes."""
        values = {key: item for key, item in value.items() if key != "format"}
        for key in ("rows", "published"):
            values[key] = Rows(checked_rows(coerce(values[key], list[dict[str, Any]], key)))
        findings = coerce(values["findings"], list[dict[str, Any]], "findings")
        values["findings"] = tuple(Finding(**bind("a finding", Finding, kwargs=finding)) for finding in findings)
        return cls(**bind("a result", cls, kwargs=values))

    @classmethod
    def read(cls, file: Path) -> Result:
        """The result of a file; one that is no result is refused."""
        try:
            value = coerce(json.loads(file.read_text()), dict[str, Any], "it")
            if value.get("format") != FORMAT:
                raise ValueError(f"its format is {value.get('format')}, not {FORMAT}")
            return cls.from_json(value)
        except KeyError as error:
            raise UntwineError(f"{file} is not a result that this version can read: it has no {error}") from None
        except (OSError, ValueError, RecursionError, UntwineError) as error:
            raise UntwineError(f"{file} is not a result that this version can read: {error}") from None

    def write(self, folder: Path) -> None:
        """Write both files into a folder."""
        text = json.dumps(self.to_json(), indent=1, allow_nan=False, default=list) + "\n"
        files.write(folder / FILE, text.encode())
        files.write(folder / PAGE, page_of(self).encode())


def verdict(result: Result) -> str:
    """The verdict in words, and how many of the claims it is about, where not all could be tested.

    A figure is partly reproduced if some of its claims are; one whose tests decide nothing is not shown.
    """
    any_reproduced = any(finding.verdict == REPRODUCED for finding in result.findings)
    words = "partly reproduced" if result.verdict == PARTLY and any_reproduced else CLAIMS[result.verdict]
    tested = sum(finding.verdict != UNTESTABLE for finding in result.findings)
    some = f" ({tested} of {len(result.findings)} claims tested)" if 0 < tested < len(result.findings) else ""
    return words + some


def page_of(result: Result) -> str:
    """The page of a result: claim, pictures, findings, numbers beside the paper's, settings, and how it was made."""
    about = result.about
    lines = [f"# {line(result.name)}: {verdict(result)}", "", line(result.claim), ""]
    lines += [f"![{name.removesuffix('.png')}]({name})" for name in result.figures]
    lines += ["", "## What the paper says, and what we find", "", *findings_table(result.findings), ""]
    whys = dict.fromkeys(f"{finding.text}: {finding.why}" for finding in result.findings if finding.why)
    lines += [f"- {line(text)}" for text in whys]
    if result.caveats:
        lines += ["", "## In what this differs from the paper", "", *(f"- {line(text)}" for text in result.caveats)]
    if result.problems:
        lines += ["", "## What could not be done here", "", *(f"- {line(text)}" for text in result.problems)]
    lines += ["", "## Numbers", "", *numbers_table(result.rows, result.published)]
    lines += ["", "## How it was made", "", f"    {command(result)}", ""]
    lines += [f"- {key}: {line(text_of(value))}" for key, value in result.settings.items()]
    lines += [f"- {key.replace('_', ' ')}: {text_of(value)}" for key, value in about.items()]
    return "\n".join(lines) + "\n"


def command(result: Result) -> str:
    """The command that makes a result."""
    given = " ".join(shlex.quote(f"{key}={json.dumps(value)}") for key, value in result.changes.items())
    return f"untwine reproduce {result.name} --scale {result.scale}" + (f" --set {given}" if given else "")


# The verdict on a claim in words; a claim with which our numbers agree without deciding it is stored as "partly".
CLAIMS: dict[str, str] = {
    REPRODUCED: "reproduced",
    PARTLY: "not shown",
    NOT: "not reproduced",
    UNTESTABLE: "not testable here",
}


def findings_table(findings: Sequence[Finding]) -> list[str]:
    """A Markdown table with a line for each claim."""
    heads = ["claim", "paper", "ours", "test", "p, corrected", "effect", "values", "verdict"]
    rows = [
        [
            finding.text,
            finding.paper,
            finding.ours,
            finding.test,
            "" if finding.corrected is None else f"{finding.corrected:.2g}",
            "" if finding.effect is None else f"{finding.effect:+.2f}",
            str(finding.models or ""),
            CLAIMS[finding.verdict],
        ]
        for finding in findings
    ]
    return _table(heads, rows) if rows else ["The paper claims nothing that could be tested: it is a picture."]


def numbers_table(rows: Rows, published: Rows) -> list[str]:
    """A Markdown table of means over seeds beside the paper's numbers; all numbers are in `result.json`."""
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in ("seed", "value", "reason")))
    if not columns:
        return ["There are no numbers."]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in columns), []).append(row)
    lines = []
    for key, group in groups.items():
        values = Rows(group).values
        where = {name: value for name, value in zip(columns, key, strict=True) if value is not None}
        theirs = published.where(**where).values
        paper = f"{fmean(theirs):.3g}" if theirs else ""
        lines.append([*(text_of(value) for value in key), *_mean(values), paper])
    shown = _table([*columns, "mean", "95%", "values", "paper"], lines[:SHOWN])
    more = len(lines) - SHOWN
    return [*shown, "", f"And {more} more in `{FILE}`."] if more > 0 else shown


def _mean(values: Sequence[float]) -> list[str]:
    if not values:
        return ["–", "", "0"]
    known = summary(values, resamples=1)
    ends = "" if known.interval is None else f"{known.interval[0]:.3g} to {known.interval[1]:.3g}"
    return [f"{known.mean:.4g}", ends, str(known.count)]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [row(cells) for cells in lines]


def row(cells: Sequence[str]) -> str:
    r"""A row of a Markdown table.

    >>> row(["a | b", "two\nlines"])
    '| a \\| b | two lines |'
    """
    return "| " + " | ".join(line(cell).replace("|", "\\|") for cell in cells) + " |"


def line(text: str) -> str:
    """A text of an experiment in one line of Markdown, in which no HTML begins.

    >>> line("<b>a\\nb")
    '&lt;b>a b'
    """
    return printable(" ".join(text.split())).replace("<", "&lt;")


def text_of(value: Any) -> str:
    """A value of a setting in words; None is empty.

    >>> text_of(0.0001), text_of([1, 2]), text_of({"name": "dots", "size": 16})
    ('0.0001', '1, 2', 'name dots, size 16')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(text_of, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {text_of(item)}" for key, item in value.items())
    return str(value)
