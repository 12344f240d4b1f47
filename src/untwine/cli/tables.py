"""Tables of scores and of comparisons between runs, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from untwine.cli import output
from untwine.scoring.scores import row_name


def scores(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a row for each metric: the mean over a run's models, its standard error and intervals.

    Args:
        name: What was scored, above the table.
        rows: Those of `Scores.summary()`.
    """
    print(name)
    lines = []
    for row in rows:
        error = "" if row["standard_error"] is None else f" ± {_number(2 * row['standard_error'])}"
        intervals = [_interval(row["interval"]), _interval(row["bootstrap"])]
        lines.append([row_name(row), str(row["count"]), _number(row["mean"]) + error, *intervals])
    output.table(["metric", "models", "mean ± 2 s.e.", "95%", "bootstrap 95%"], lines, numbers=True)


def comparisons(rows: Sequence[dict[str, Any]]) -> None:
    """Print a row for each metric of every two runs, after a line for each that cannot be compared."""
    lines = []
    for row in rows:
        between = f"{row['first']} - {row['second']}"
        if "not_comparable" in row:
            print(f"{row_name(row)} of {between} cannot be compared: {'; '.join(row['not_comparable'])}")
            continue
        numbers = (row["difference"], row["t"], row["freedom"], row["p"], row["effect"])
        lines.append([row_name(row), between, *map(_number, numbers)])
    if lines:
        print("Welch's t-test between runs; the effect is Cohen's d, in standard deviations")
        output.table(["metric", "between", "difference", "t", "d.f.", "p", "effect"], lines, numbers=True)


def _interval(ends: Sequence[float] | None) -> str:
    return "-" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
