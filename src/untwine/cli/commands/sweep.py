"""`untwine sweep`: many runs from one file, trained and scored by any engine."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from untwine.cli import flags, imports, output
from untwine.cli.usage import UsageError, as_usage_errors
from untwine.locations import expanded
from untwine.progress import duration

ABOUT = """Train and score many runs that a TOML file describes, and write one table of all their models.

The file has what all runs share under [run], lists of values of which every combination is taken under [grid], single
runs under [[runs]] (each may have a grid of its own), and arguments of evaluate under [score] (score = false scores
nothing). A part's arguments are written with a dot: "method.beta" = [1, 4]. Runs that differ in seeds, in numbers of
their method or in the learning rate train together. What is finished is never computed again: after Ctrl-C, or with
further seeds in the file, the same command goes on. untwine sweep status FILE says how far it is.

A file:
- [run]
- dataset = "xy-squares"
- seeds = "0-4"
- [[runs]]
- method = "beta-vae"
- grid = { "method.beta" = [1, 4, 16] }
- [score]
- metrics = ["mig", "dci"]

Examples:
- untwine sweep betas.toml --dry-run
- untwine sweep betas.toml --engine processes
- untwine sweep betas.toml --engine ray --address auto --gpus 0.5
"""
USAGE = "untwine sweep [status] FILE.toml"
SHOWN_NOTES = 5  # table.json has all


def sweep(args: list[str]) -> int:
    """Compute a sweep, say what it would compute, or how far it is; 1 if anything went wrong."""
    status = args[:1] == ["status"]
    words = args[1:] if status else args
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    names, rest = words[:count], words[count:]
    if "-h" in rest or "--help" in rest:
        _parse(rest)
    if len(names) != 1:
        raise UsageError(f"sweep needs one file, before any options: {USAGE}")
    parsed = _parse(rest)
    from untwine.launch import sweeping as sweeps

    settings = flags.values(parsed.sweep)
    with as_usage_errors():
        made = sweeps.Sweep.read(expanded(names[0]))
        _check(settings)
    out = sweeps.place(names[0], settings["out"])
    if status:
        return _status(made, out, parsed.json)
    if parsed.dry_run:
        return _dry_run(made, out, settings, parsed.json)
    if imports.IMPORTED:
        settings["prepare"] = functools.partial(imports.import_parts, tuple(imports.IMPORTED))
    table = sweeps.sweep(made, **{**settings, "out": out})
    if parsed.json:
        output.as_json(table.to_json())
    else:
        _show(table)
        output.say(f"The table is in {out}: {', '.join(file.name for file in table.files(out))}")
    for note in [*table.problems, *table.notes[:SHOWN_NOTES]]:
        output.note(note)
    if len(table.notes) > SHOWN_NOTES:
        output.note(f"{len(table.notes) - SHOWN_NOTES} more warnings are in {out / 'table.json'}")
    return 1 if table.problems else 0


def _parse(words: list[str]) -> Any:
    from untwine.launch import sweeping as sweeps

    fields = [
        ("sweep", flags.arguments(sweeps.sweep, prefix=False, leave_out=("spec", "prepare", "progress"))),
        flags.switch("dry_run", "Say what would be trained, in which packs, and how long that takes."),
        flags.switch("json", flags.JSON),
    ]
    return flags.parse(USAGE, ABOUT, fields, words)


def _check(settings: Mapping[str, Any]) -> None:
    """Refuse settings that cannot be, before anything is written."""
    from untwine.launch import mapping, members, tasks
    from untwine.train.devices import pick_device

    means = tasks.Means(**{key: settings[key] for key in ("workers", "gpus", "retries", "address")})
    mapping.check(settings["engine"], means)
    members.check_pack(settings["pack"])
    if settings["engine"] != "ray":  # other machines may have other devices
        pick_device(settings["device"])


def _show(table: Any) -> None:
    """Print a row for each combination of settings, with the mean of each number over its seeds."""
    columns = [*table.settings, "done", *table.numbers]
    rows = []
    for line in table.summary():
        done = f"{line['done']} of {line['members']}"
        rows.append([*(_text(line[key]) for key in table.settings), done, *(_mean(line[key]) for key in table.numbers)])
    output.table(columns, rows, numbers=True)
    output.paragraph("Numbers are means over seeds ± 2 standard errors. " + _counts(table.counts()))


def _status(made: Any, out: Path, as_json: bool) -> int:
    """Print how many members of each combination are in which state."""
    table = made.table(out)
    if as_json:
        output.as_json({"folder": str(out), "members": table.counts(), "rows": list(table.rows)})
        return 0
    states = list(table.counts())
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in table.rows:
        groups.setdefault(tuple(_text(row.get(key)) for key in table.settings), []).append(row["state"])
    rows = [[*key, *(str(found.count(state)) for state in states)] for key, found in groups.items()]
    output.table([*table.settings, *states], rows, numbers=True)
    output.paragraph(f"{out}: {_counts(table.counts())}")
    return 0


def _dry_run(made: Any, out: Path, settings: Mapping[str, Any], as_json: bool) -> int:
    """Print the units, their packs, and how long they take by a few measured steps."""
    from untwine.launch.costs import estimate
    from untwine.launch.members import Members

    units = made.units(out, settings["device"], settings["pack"])
    rows = estimate(units, Members(out), settings["device"], keep=False)
    scored = sum(unit.run is None for unit in units)
    if as_json:
        output.as_json({"units": len(units), "only_scored": scored, "runs": rows})
        return 0
    if not units:
        output.say("Nothing is left to do.")
        return 0
    keys = ("method", "dataset", "members", "steps", "packs")
    lines = [[*(str(row[key]) for key in keys), row.get("reason") or duration(row["seconds"])] for row in rows]
    if lines:
        output.table([*keys, "time"], lines)
    total = duration(sum(row["seconds"] or 0.0 for row in rows))
    more = f" {_packs(scored)} would only be scored." if scored else ""
    output.paragraph(
        f"{_packs(len(units) - scored)} would train for about {total} with one worker on this machine; scoring comes "
        f"on top.{more} Nothing was written."
    )
    return 0


def _packs(count: int) -> str:
    return f"{count} pack{'' if count == 1 else 's'}"


def _counts(counts: Mapping[str, int]) -> str:
    whole = sum(counts.values())
    return (
        f"{whole} model{'s' * (whole != 1)}: " + ", ".join(f"{count} {state}" for state, count in counts.items()) + "."
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _mean(number: Mapping[str, Any] | None) -> str:
    if number is None:
        return "-"
    spread = "" if number["interval"] is None else f" ± {2 * number['standard_error']:.2g}"
    return f"{number['mean']:.4g}{spread}"
