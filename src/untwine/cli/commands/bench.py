"""`untwine bench`: benchmarks of training, of metrics and of quality, on this machine."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from untwine.cli import flags, output
from untwine.cli.usage import UsageError
from untwine.errors import unknown

# The module of each benchmark, and what it measures.
BENCHES = {
    "train": ("untwine.bench.training", "the speed of training steps; the default"),
    "metrics": ("untwine.bench.metrics", "the speed of each metric"),
    "peers": ("untwine.bench.peers", "metrics beside the loops over scikit-learn that the literature's code has"),
    "published": ("untwine.experiments.engine.speeds", "training in the settings of the papers, beside a plain loop"),
    "sweeps": ("untwine.launch.overhead", "what a sweep costs beyond training, for each unit and for 10,000 members"),
    "threads": ("untwine.bench.waiting", "training beside busy programs, by how threads wait"),
    "batching": ("untwine.bench.batching", "members mapped by vmap or one by one"),
    "floors": ("untwine.bench.floors", "what metrics give for noise, collapsed models and untrained networks"),
    "quality": ("untwine.bench.quality", "local scores of variants of a method"),
    "kinks": ("untwine.bench.kinks", "the gradient of a Jacobian's norm by finite differences and by exact columns"),
}


def bench(args: list[str]) -> None:
    """Run the benchmark that is named first, or that of training, and print its rows."""
    name = "train"
    if args and not args[0].startswith("-"):
        name, *args = args
    if name not in BENCHES:
        raise UsageError(str(unknown("benchmark", name, BENCHES)))
    run = importlib.import_module(BENCHES[name][0]).run
    parameters = inspect.signature(run).parameters
    open_defaults = {name: "" for name, p in parameters.items() if p.default in (None, ())}  # their help says them
    options = flags.arguments(run, prefix=False, shown=open_defaults)
    fields = [("bench", options), flags.switch("json", flags.JSON)]
    parsed = flags.parse(f"untwine bench {name}", f"{flags.description(run)}\n\n{_benches()}", fields, args)
    rows = run(**flags.values(parsed.bench))
    if parsed.json:
        output.as_json({"rows": rows})
        return
    # Lists and the like are for files; a column that is empty in all rows is for nobody.
    columns = dict.fromkeys(
        key for row in rows for key, value in row.items() if value is not None and not isinstance(value, list | dict)
    )
    headings = [key.replace("_", " ") for key in columns]
    output.table(headings, [[_text(row.get(key)) for key in columns] for row in rows], numbers=True)


def _benches() -> str:
    lines = [f"- untwine bench {name}: {what}" for name, (_, what) in BENCHES.items()]
    examples = "\n\nExamples:\n- untwine bench --pack-sizes 1 4\n- untwine bench metrics --json"
    return "Benchmarks, each with its own --help:\n" + "\n".join(lines) + examples


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)
