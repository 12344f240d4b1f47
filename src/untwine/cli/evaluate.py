"""`untwine evaluate`: score runs, and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from untwine.cli import UsageError, flags, output
from untwine.errors import UntwineError

ABOUT = """Score the finished models of one or more runs, and write scores.json into each run's folder.

A metric on a sample of all states is named as it is (mig); local-mig is its mean over windows of radius --rho around
random states. Arguments of a metric's own go in brackets: "dci(estimator=sklearn)", "local-mig(bins=10)". What was
scored before, in the same way, is not computed again. --compare compares runs score by score (Welch's t-test).

untwine evaluate runs/jl1 --metrics mig dci local-mig local-modularity --rho 0.1
untwine evaluate runs/beta runs/jl1 --metrics local-mig local-modularity --compare
"""


def evaluate(args: list[str]) -> None:
    from untwine.experiments import evaluate, scores

    paths, rest = _paths(args)
    options = flags.arguments(evaluate.run, prefix=False, leave_out=("path", "progress"), switches=True)
    fields = [
        ("evaluate", options),
        flags.switch("compare", "compare the runs: differences of means, Welch's t-test, effect sizes"),
        flags.switch("json", flags.JSON),
    ]
    given = flags.parse("untwine evaluate RUN [RUN ...]", f"{ABOUT}\n{_listed()}", fields, rest)
    chosen = flags.values(given.evaluate)
    if not paths:
        raise UsageError("evaluate needs the folder of a run: untwine evaluate runs/NAME")
    if given.compare and len(paths) < 2:
        raise UsageError("--compare needs two runs or more: untwine evaluate runs/ONE runs/OTHER --compare")
    try:
        evaluate.requests(chosen["metrics"], chosen["rho"])
    except UntwineError as error:
        raise UsageError(str(error)) from None
    found = {str(path): evaluate.run(path, **chosen) for path in paths}
    compared = scores.comparisons(found) if given.compare else []
    if given.json:
        runs = {path: {"scores": entries, "summary": scores.summaries(entries)} for path, entries in found.items()}
        output.as_json({"runs": runs, **({"comparisons": compared} if given.compare else {})})
        return
    for path, entries in found.items():
        _table(path, scores.summaries(entries))
    if given.compare:
        _comparisons(compared)
    print(f"Written to {', '.join(str(Path(path) / scores.FILE) for path in found)}")


def _paths(args: list[str]) -> tuple[list[Path], list[str]]:
    """The folders, which come first, and the flags."""
    count = next((i for i, arg in enumerate(args) if arg.startswith("-")), len(args))
    return list(dict.fromkeys(map(Path, args[:count]))), args[count:]


def _listed() -> str:
    from untwine import metrics

    return "metrics:\n" + "\n".join(
        f"  {flags.hyphens(name):18} {flags.summary(metrics.get(name))}" for name in metrics.names()
    )


def _table(path: str, rows: list[dict[str, Any]]) -> None:
    print(f"{path}: {rows[0]['count']} model{'s' if rows[0]['count'] > 1 else ''}")
    lines = []
    for row in rows:
        spread = None if row["standard_error"] is None else 2 * row["standard_error"]
        low, high = row["interval"] or (None, None)
        numbers = (row["mean"], spread, low, high, row["lowest"], row["highest"])
        lines.append([_name(row), *map(_number, numbers)])
    heads = ["metric", "mean", "± 2 s.e.", "95% from", "to", "lowest", "highest"]
    output.table(heads, lines, numbers=True)


def _comparisons(rows: list[dict[str, Any]]) -> None:
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
