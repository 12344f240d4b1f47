"""Scores for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from untwine.cli import flags, output


def scores(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """A row for each metric: the mean over a run's models, and how well it is known."""
    print(name)
    lines = []
    for row in rows:
        error = "" if row["standard_error"] is None else f" ± {_number(2 * row['standard_error'])}"
        intervals = [_interval(row["interval"]), _interval(row["bootstrap"])]
        lines.append([_name(row), str(row["count"]), _number(row["mean"]) + error, *intervals])
    output.table(["metric", "models", "mean ± 2 s.e.", "95%", "bootstrap 95%"], lines, numbers=True)


def comparisons(rows: Sequence[dict[str, Any]]) -> None:
    """A row for each metric of every two runs; those that cannot be compared are said before."""
    lines = []
    for row in rows:
        between = f"{row['first']} - {row['second']}"
        if "not_comparable" in row:
            print(f"{_name(row)} of {between} cannot be compared: {'; '.join(row['not_comparable'])}")
            continue
        numbers = (row["difference"], row["t"], row["freedom"], row["p"], row["effect"])
        lines.append([_name(row), between, *map(_number, numbers)])
    if lines:
        print("Welch's t-test between runs; the effect is Cohen's d, in standard deviations")
        output.table(["metric", "between", "difference", "t", "d.f.", "p", "effect"], lines, numbers=True)


def _name(row: dict[str, Any]) -> str:
    radius = "" if row["radius"] is None else f", radius {row['radius']:g}"
    own = "".join(f", {key.rpartition('.')[2]} {value:g}" for key, value in row.get("own", {}).items())
    return flags.hyphens(row["metric"]) + radius + own


def _interval(ends: Sequence[float] | None) -> str:
    return "-" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
