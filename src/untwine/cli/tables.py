"""Tables of scores and of comparisons between runs, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from untwine.cli import output
from untwine.scores import names


def scores(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a row for each metric: the mean over a run's models, twice its standard error, and an interval.

    Args:
        name: What was scored, above the table.
        rows: Those of `Scores.summary()`.
    """
    output.say(name)
    shown = names.short(rows)
    lines = [
        [label, samples(row), str(row["count"]), _mean(row), _ends(row)] for label, row in zip(shown, rows, strict=True)
    ]
    output.table(["metric", "samples", "models", "mean ± 2 s.e.", "95%"], lines, numbers=True)
    by_note: dict[str, list[str]] = {}
    for label, row in zip(shown, rows, strict=True):
        for note in row["notes"]:
            by_note.setdefault(note, []).append(label)
    texts = [f"{', '.join(about)}: {note}" for note, about in by_note.items()]
    if any(map(_has_range, rows)):
        texts.append("* is the range of two models, not an interval")
    for text in texts:
        output.paragraph(text)
    if texts:
        output.say()


def comparisons(rows: Sequence[dict[str, Any]]) -> None:
    """Print a row for each metric of every two runs, after a line for each that cannot be compared."""
    for (first, second), between in groupby(rows, lambda row: (row["first"], row["second"])):
        lines = []
        output.paragraph(f"{first} - {second}: Welch's t-test; the effect is Cohen's d, in standard deviations")
        of_pair = list(between)
        for label, row in zip(names.short(of_pair), of_pair, strict=True):
            if "not_comparable" in row:
                output.paragraph(f"{label} cannot be compared: {'; '.join(row['not_comparable'])}")
                continue
            numbers = (row["difference"], row["t"], row["freedom"], row["p"], row["effect"])
            lines.append([label, *map(_number, numbers)])
        if lines:
            output.table(["metric", "difference", "t", "d.f.", "p", "effect"], lines, numbers=True)


def samples(row: Mapping[str, Any]) -> str:
    """How many samples a score is of, those of each window behind the number of windows.

    >>> samples({"samples": 10000}), samples({"samples": [25, 120, 25]}), samples({"samples": 9, "windows": 20})
    ('10,000', '3x25-120', '20x9')
    """
    counts, windows = row["samples"], row.get("windows")
    if counts is None:
        return "-"
    if isinstance(counts, int):
        return f"{counts:,}" if windows is None else f"{windows}x{counts:,}"
    return f"{len(counts)}x{min(counts):,}-{max(counts):,}"


def _mean(row: Mapping[str, Any]) -> str:
    spread = "" if row["interval"] is None else f" ± {_number(2 * row['standard_error'])}"
    return _number(row["mean"]) + spread


def _has_range(row: Mapping[str, Any]) -> bool:
    return row["count"] == 2 and row["range"][0] < row["range"][1]


def _ends(row: Mapping[str, Any]) -> str:
    """The interval, or what else there is to say of the spread."""
    if row["interval"] is not None:
        return _between(row["interval"])
    if _has_range(row):
        return f"{_between(row['range'])}*"
    return "-" if row["count"] < 2 else "all equal"


def _between(ends: Sequence[float]) -> str:
    return f"{_number(ends[0])} to {_number(ends[1])}"


def _number(value: float | None) -> str:
    """Three digits, but no more than four behind the point unless that would leave none.

    >>> _number(0.1234), _number(0.001234), _number(0.00001234), _number(0.0), _number(-12.34)
    ('0.123', '0.0012', '1e-05', '0', '-12.3')
    """
    if value is None:
        return "-"
    if 0.0001 <= abs(value) < 0.01:
        return f"{value:.4f}"
    return f"{value:.1g}" if 0 < abs(value) < 0.0001 else f"{value:.3g}"
