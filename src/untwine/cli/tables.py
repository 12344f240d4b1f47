"""Scores for people."""

from __future__ import annotations

from typing import Any

from untwine.cli import flags, output


def scores(name: str, rows: list[dict[str, Any]]) -> None:
    """A row for each metric: the mean over a run's models, its error, and how far they are apart."""
    print(f"{name}: {rows[0]['count']} model{'s' if rows[0]['count'] > 1 else ''}")
    lines = []
    for row in rows:
        spread = None if row["standard_error"] is None else 2 * row["standard_error"]
        low, high = row["interval"] or (None, None)
        numbers = (row["mean"], spread, low, high, row["lowest"], row["highest"])
        lines.append([_name(row), *map(_number, numbers)])
    heads = ["metric", "mean", "± 2 s.e.", "95% from", "to", "lowest", "highest"]
    output.table(heads, lines, numbers=True)


def comparisons(rows: list[dict[str, Any]]) -> None:
    """A row for each metric of every two runs; those that cannot be compared are said before."""
    lines = []
    for row in rows:
        between = f"{row['first']} - {row['second']}"
        if "not_comparable" in row:
            print(f"{row['metric']} of {between}: not comparable ({'; '.join(row['not_comparable'])})")
            continue
        numbers = (row["difference"], row["t"], row["freedom"], row["p"], row["effect"])
        lines.append([_name(row), between, *map(_number, numbers)])
    if lines:
        print("Welch's t-test; the effect is Cohen's d, in standard deviations")
        output.table(["metric", "between", "difference", "t", "d.f.", "p", "effect"], lines, numbers=True)


def _name(row: dict[str, Any]) -> str:
    radius = "" if row["radius"] is None else f", radius {row['radius']:g}"
    return flags.hyphens(row["metric"]) + radius


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}" if 0 < abs(value) < 1e-3 else f"{value:.4g}"
