"""Tables of scores and of comparisons between runs, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from untwine.cli import output
from untwine.scoring import names
from untwine.scoring.scores import mean_text


def scores(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a row for each metric: the mean over a run's models, twice its standard error, and an interval.

    Args:
        name: What was scored, above the table.
        rows: Those of `Scores.summary()`.
    """
    print(name)
    lines = [[names.of_row(row), samples(row), str(row["count"]), mean_text(row), _ends(row)] for row in rows]
    output.table(["metric", "samples", "models", "mean ± 2 s.e.", "95%"], lines, numbers=True)
    by_note: dict[str, list[str]] = {}
    for row in rows:
        for note in row["notes"]:
            by_note.setdefault(note, []).append(names.of_row(row))
    for note, about in by_note.items():
        output.paragraph(f"{note}: {', '.join(about)}")
    if by_note:
        print()


def comparisons(rows: Sequence[dict[str, Any]]) -> None:
    """Print a row for each metric of every two runs, after a line for each that cannot be compared."""
    for (first, second), between in groupby(rows, lambda row: (row["first"], row["second"])):
        lines = []
        output.paragraph(f"{first} - {second}: Welch's t-test; the effect is Cohen's d, in standard deviations")
        for row in between:
            if "not_comparable" in row:
                output.paragraph(f"{names.of_row(row)} cannot be compared: {'; '.join(row['not_comparable'])}")
                continue
            numbers = (row["difference"], row["t"], row["freedom"], row["p"], row["effect"])
            lines.append([names.of_row(row), *map(_number, numbers)])
        if lines:
            output.table(["metric", "difference", "t", "d.f.", "p", "effect"], lines, numbers=True)


def samples(row: Mapping[str, Any]) -> str:
    """How many samples a score is of, those of each window with the number of windows.

    >>> samples({"samples": 10000}), samples({"samples": [25, 120, 25]}), samples({"samples": 9, "windows": 20})
    ('10,000', '3 x 25 to 120', '20 x 9')
    """
    counts = row["samples"]
    if counts is None:
        return "-"
    if isinstance(counts, int):
        windows = row.get("windows")
        return f"{counts:,}" if windows is None else f"{windows} x {counts:,}"
    return f"{len(counts)} x {min(counts):,} to {max(counts):,}"


def _ends(row: Mapping[str, Any]) -> str:
    """The interval, or what else there is to say of the spread."""
    if row["interval"] is not None:
        return _between(row["interval"])
    if row["count"] < 2:
        return "-"
    low, high = row["range"]
    return "all equal" if low == high else f"range {_between((low, high))}"


def _between(ends: Sequence[float]) -> str:
    return f"{_number(ends[0])} to {_number(ends[1])}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
