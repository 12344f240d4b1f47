"""`untwine evaluate`: score runs, and compare them."""

from __future__ import annotations

from pathlib import Path

from untwine.cli import UsageError, asked, flags, output, tables
from untwine.errors import UntwineError

ABOUT = """Score the finished models of one or more runs, and write scores.json into each run's folder.

A metric on a sample of all states is named as it is (mig). local-mig is its mean over windows of radius --rho around
random states (rhodes2021); so are all others marked with a star below. Arguments of a metric's own go in brackets. What
was scored before, in the same way, is not computed again. --compare sets runs against each other, score by score: with
Welch's t-test, over their seeds.

Examples:
- untwine evaluate runs/jl1 --metrics mig dci local-mig "local-modularity(bins=10)" --rho 0.1 0.2
- untwine evaluate runs/beta runs/jl1 --metrics local-mig local-modularity --compare
"""
USAGE = "untwine evaluate RUN [RUN ...] [OPTIONS]"


def evaluate(args: list[str]) -> None:
    from untwine.scoring import evaluate, scorer, scores
    from untwine.train.devices import pick_device

    paths, rest = _paths(args)
    defaults = " ".join(scorer.SCORED) + "; without factors " + " ".join(scorer.UNSCORED)
    options = flags.arguments(
        evaluate.run,
        prefix=False,
        shown={"metrics": defaults, "rho": "0.1", "points": "the design's"},
        leave_out=("path", "progress"),
        switches=True,
    )
    fields = [
        ("evaluate", options),
        flags.switch("compare", "compare the runs: differences of means, Welch's t-test, effect sizes"),
        flags.switch("json", flags.JSON),
    ]
    given = flags.parse("untwine evaluate RUN [RUN ...]", f"{ABOUT}\n{_listed()}", fields, rest)
    chosen = flags.values(given.evaluate)
    if not paths:
        raise UsageError(f"evaluate needs the folder of a run, before any options: {USAGE}")
    if given.compare and len(paths) < 2:
        raise UsageError("--compare needs two runs or more: untwine evaluate runs/ONE runs/OTHER --compare")
    with asked():
        evaluate.check(chosen["metrics"], chosen["rho"], chosen["windows"], chosen["points"])
        pick_device(chosen["device"])
    found, failures = {}, []
    for path in paths:
        try:
            found[str(path)] = evaluate.run(path, **chosen)
        except evaluate.Partly as error:
            found[str(path)] = error.found
            failures.append(f"{path}: {error}")
        except UntwineError as error:
            if len(paths) == 1:
                raise
            failures.append(str(error) if str(path) in str(error) else f"{path}: {error}")
    compared = scores.comparisons(found) if given.compare else []
    if given.json:
        runs = {path: {"scores": entries, "summary": scores.summaries(entries)} for path, entries in found.items()}
        output.as_json({"runs": runs, **({"comparisons": compared} if given.compare else {})})
    else:
        for path, entries in found.items():
            if entries:
                tables.scores(path, scores.summaries(entries))
        tables.comparisons(compared)
        if stored := [str(Path(path) / scores.FILE) for path, entries in found.items() if entries]:
            print(f"Scores are in {', '.join(stored)}")
    if failures:
        raise UntwineError("\n".join(failures))


def _paths(args: list[str]) -> tuple[list[Path], list[str]]:
    """The folders, which come first, and the flags."""
    count = next((i for i, arg in enumerate(args) if arg.startswith("-")), len(args))
    return list(dict.fromkeys(map(Path, args[:count]))), args[count:]


def _listed() -> str:
    from untwine import metrics
    from untwine.scoring.requests import PAIRED

    lines = []
    for name in metrics.names():
        found = metrics.get(name)
        options = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in found.options.items() if k not in _TOLD}
        star = "*" if found.takes == PAIRED else ""
        brackets = ", ".join(f"{key}={value}" for key, value in options.items())
        lines.append(f"- {flags.hyphens(name)}{star}: {flags.summary(found)} ({brackets})")
    return "Metrics:\n" + "\n".join(lines)


_TOLD = ("kinds", "kl", "seed")  # what a run itself says
