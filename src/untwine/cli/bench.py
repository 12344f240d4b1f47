"""`untwine bench`: the speed of training or of metrics on this machine, or the quality of what is trained."""

from __future__ import annotations

import importlib
from typing import Any

from untwine.cli import UsageError, flags, output
from untwine.errors import unknown

# What can be measured: modules with a `run`, whose arguments are the flags and which returns rows.
BENCHES = {
    "train": "untwine.bench.training",
    "metrics": "untwine.bench.metrics",
    "quality": "untwine.bench.quality",
}


def bench(args: list[str]) -> None:
    """`untwine bench` measures the speed of training, `bench metrics` that of metrics, `bench quality` scores."""
    what = "train"
    if args and not args[0].startswith("-"):
        what, *args = args
    if what not in BENCHES:
        raise UsageError(str(unknown("benchmark", what, BENCHES)))
    run = importlib.import_module(BENCHES[what]).run
    fields = [("bench", flags.arguments(run, prefix=False)), flags.switch("json", flags.JSON)]
    others = ", ".join(f"untwine bench {name}" for name in BENCHES if name != what)
    about = f"{flags.description(run)}\n\nSee also: {others} --help"
    given = flags.parse(f"untwine bench {what}", about, fields, args)
    rows = run(**flags.values(given.bench))
    if given.json:
        output.as_json({"rows": rows})
        return
    # Lists and the like are for files; what all rows lack, for nobody.
    columns = dict.fromkeys(
        k for row in rows for k, v in row.items() if v is not None and not isinstance(v, list | dict)
    )
    output.table([key.replace("_", " ") for key in columns], [[_text(r.get(k)) for k in columns] for r in rows], True)


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)
