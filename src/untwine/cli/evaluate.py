"""`untwine evaluate`: score runs, and compare them."""

from __future__ import annotations

from pathlib import Path

from untwine.cli import UsageError, flags, output, tables
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
        tables.scores(path, scores.summaries(entries))
    if given.compare:
        tables.comparisons(compared)
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
