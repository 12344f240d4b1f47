"""`untwine bench`: the speed of training on this machine."""

from __future__ import annotations

from typing import Any

from untwine.cli import flags, output


def bench(args: list[str]) -> None:
    """Flags are the arguments of `experiments.bench.run`, which returns rows of names and numbers."""
    from untwine.experiments import bench

    fields = [("bench", flags.arguments(bench.run, prefix=False)), flags.switch("json", flags.JSON)]
    given = flags.parse("untwine bench", flags.description(bench.run), fields, args)
    rows = bench.run(**flags.values(given.bench))
    if given.json:
        output.as_json({"rows": rows})
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    output.table([key.replace("_", " ") for key in columns], [[_text(r.get(k)) for k in columns] for r in rows], True)


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)
