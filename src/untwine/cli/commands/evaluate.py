"""`untwine evaluate`: score runs, and compare them."""

from __future__ import annotations

import os
from pathlib import Path

from untwine.cli import flags, output, tables
from untwine.cli.usage import UsageError, as_usage_errors
from untwine.errors import UntwineError

ABOUT = """Score the finished models of one or more runs, and write scores.json into each run's folder.

mig scores a sample of all states; local-mig is its mean over windows of radius --rho around random states
(rhodes2021). Every metric with a star below has such a local form. Arguments of a metric go in brackets, also those
below for it alone: "dci(points=1000)". What was scored before with the same settings is not computed again. --compare
compares runs score by score, with Welch's t-test over their seeds. untwine metrics mig says all about a metric, and
what is scored without having learned anything.

Examples:
- untwine evaluate runs/jl1 --metrics mig dci local-mig "local-modularity(bins=10)" --rho 0.1 0.2
- untwine evaluate runs/beta runs/jl1 --metrics local-mig local-modularity --compare
- untwine evaluate runs/beta runs/jl1 --table scores.csv scores.tex
"""
USAGE = "untwine evaluate RUN [RUN ...] [OPTIONS]"
TABLE = "Also write the scores of all runs to files: .csv (a row for each model) or .tex (LaTeX, with intervals)."


def evaluate(args: list[str]) -> None:
    from untwine.scores import storage
    from untwine.scores import tables as score_files
    from untwine.scores.scores import Scores
    from untwine.scoring import evaluation, scorer
    from untwine.scoring.compare import comparisons
    from untwine.train.devices import pick_device

    paths, rest = flags.folders_first(args)
    defaults = " ".join(scorer.SCORED) + "; without factors " + " ".join(scorer.UNSCORED)
    options = flags.arguments(
        evaluation.evaluate,
        prefix=False,
        shown={"metrics": defaults, "rho": "0.1", "points": "the design's"},
        leave_out=("run", "progress", "dataset"),
        switches=True,
    )
    fields = [
        ("evaluate", options),
        flags.switch("compare", "compare the runs: differences of means, Welch's t-test, effect sizes"),
        flags.flag("table", Path, several=True, default=(), help=TABLE),
        flags.switch("json", flags.JSON),
    ]
    parsed = flags.parse("untwine evaluate RUN [RUN ...]", f"{ABOUT}\n{_metrics()}", fields, rest)
    settings = flags.values(parsed.evaluate)
    if not paths:
        raise UsageError(f"evaluate needs the folder of a run, before any options: {USAGE}")
    if parsed.compare and len(paths) < 2:
        raise UsageError("--compare needs two runs or more: untwine evaluate runs/ONE runs/OTHER --compare")
    with as_usage_errors():
        limits = ("metrics", "rho", "windows", "points", "examples", "jacobians")
        evaluation.refuse_impossible(**{name: settings[name] for name in limits})
        pick_device(settings["device"])
        for file in parsed.table:
            score_files.check_suffix(file)
    runs: dict[str, Scores] = {}
    failures = []
    for path in paths:
        try:
            runs[str(path)] = evaluation.evaluate(path, **settings)
        except evaluation.PartlyScored as error:
            runs[str(path)] = error.scores
            failures.append(f"{path}: {error}")
        except UntwineError as error:
            if len(paths) == 1:
                raise
            failures.append(str(error) if str(path) in str(error) else f"{path}: {error}")
    scored = {path: scores for path, scores in runs.items() if scores}
    compared = comparisons(runs) if parsed.compare else []
    if parsed.json:
        content = {path: {"scores": scores.entries, "summary": scores.summary()} for path, scores in runs.items()}
        output.as_json({"runs": content, **({"comparisons": compared} if parsed.compare else {})})
    else:
        for path, scores in scored.items():
            tables.scores(path, scores.summary())
        tables.comparisons(compared)
    for file in parsed.table if scored else ():
        score_files.write(file, scored)
    if scored and not parsed.json:
        stored = [Path(path) / storage.FILE for path in scored if os.access(path, os.W_OK)]
        if written := [*stored, *parsed.table]:
            output.say(f"Scores are in {', '.join(map(str, written))}")
    if compared and all("not_comparable" in row for row in compared):
        failures.append("none of these scores can be compared; what stands above says why of each")
    if failures:
        raise UntwineError("\n".join(failures))


def _metrics() -> str:
    """A line for each metric: its name, what it is, and its options."""
    from untwine import metrics
    from untwine.metrics.sampling import PAIRED

    lines = []
    for name in metrics.names():
        metric = metrics.get(name)
        options = {key: value for key, value in metric.options.items() if key not in metric.KNOWN}
        shown = {key: f"{value:.3g}" if isinstance(value, float) else value for key, value in options.items()}
        arguments = ", ".join(f"{key}={value}" for key, value in shown.items())
        star = "*" if metric.takes == PAIRED else ""
        lines.append(f"- {flags.hyphens(name)}{star}: {flags.summary(metric)} ({arguments})")
    return "Metrics:\n" + "\n".join(lines)
