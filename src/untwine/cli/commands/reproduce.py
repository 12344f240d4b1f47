"""`untwine reproduce`: the figures and tables of the papers, one command each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from untwine.cli import flags, imports, output
from untwine.cli.readers import setting
from untwine.cli.usage import UsageError, as_usage_errors
from untwine.progress import duration

ABOUT = """Reproduce figures and tables of the papers: train what is missing, measure, draw, and judge the claims.

Without a name it lists what there is. A name is a figure (rhodes2021/fig4) or a paper (rhodes2021: all of its figures).
What was trained before is not trained again, whichever figure it was for; interrupted, the same command goes on. Each
result has its folder below --out: result.md to read, result.json with every number, and the pictures.

Scales: smoke takes seconds and shows that it runs; small takes at most 15 minutes on two CPU cores; paper has the
paper's own settings, and mostly needs a GPU.

Examples:
- untwine reproduce michlo2023/tableA1
- untwine reproduce rhodes2021/fig4 --scale paper --device cuda
- untwine reproduce rhodes2021 --scale small --dry-run
"""
USAGE = "untwine reproduce [NAME ...]"
LEFT_OUT = ("name", "settings", "prepare", "progress")


def reproduce(args: list[str]) -> int:
    from untwine.experiments.engine import catalogue, pages, running

    count = next((i for i, arg in enumerate(args) if arg.startswith("-")), len(args))
    names, rest = args[:count], args[count:]
    fields = [
        ("reproduce", flags.arguments(running.reproduce, prefix=False, leave_out=LEFT_OUT, switches=True)),
        flags.flag(
            "set", setting, several=True, default=(), help="Other settings than the scale's, such as eps=0.001."
        ),
        flags.switch("dry_run", "Say what would be trained, and how long that takes by a few measured steps."),
        flags.flag("check", Path, default=None, help="Recompute every verdict below this folder from its numbers."),
        flags.flag(
            "page",
            Path,
            default=None,
            help="Write the README.md of this folder of results, and the result.md of each.",
        ),
        flags.switch("json", flags.JSON),
    ]
    parsed = flags.parse(USAGE, ABOUT, fields, rest)
    settings = {**flags.values(parsed.reproduce), "settings": _settings(parsed.set)}
    if bool(names) + (parsed.check is not None) + (parsed.page is not None) > 1:
        raise UsageError("--check and --page take a folder each, and go neither together nor with names of figures")
    if parsed.check is not None:
        return _check(parsed.check, parsed.json)
    if parsed.page is not None:
        output.say(f"The page is {pages.write_page(parsed.page)}")
        return 0
    if not names:
        _list(settings["out"], settings["device"], parsed.json)
        return 0
    with as_usage_errors():
        chosen = catalogue.chosen(names)
        by_figure = _by_figure(chosen, settings)
        _check_request(chosen, by_figure)
    if parsed.dry_run:
        _dry_run(by_figure, parsed.json)
        return 0
    if imports.IMPORTED:
        prepare = functools.partial(imports.import_parts, tuple(imports.IMPORTED))
        by_figure = {name: {**own, "prepare": prepare} for name, own in by_figure.items()}
    results = []
    for name, own in by_figure.items():
        results.append(running.reproduce(name, **own))
        if not parsed.json:  # at once: the next may take hours, or fail
            _show(results[-1], Path(settings["out"]))
    if parsed.json:
        output.as_json({"results": [result.to_json() for result in results]})
    return 1 if any(result.problems for result in results) else 0


def _settings(given: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The settings of the command line; one that is given twice is refused."""
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} is given more than once")
    return dict(given)


def _by_figure(chosen: Sequence[Any], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of each figure by its name: seeds are for the figures that have any, if one of them does."""
    without = [each.name for each in chosen if "seeds" not in inspect.signature(each.function).parameters]
    if settings["seeds"] is None or len(without) == len(chosen):
        without = []
    if without:
        output.note(
            f"--seeds is for the other figures: {', '.join(without)} {'has' if len(without) == 1 else 'have'} none"
        )
    return {each.name: {**settings, **({"seeds": None} if each.name in without else {})} for each in chosen}


def _check_request(chosen: Sequence[Any], by_figure: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse settings that cannot be, for all figures before the first of them is begun."""
    from untwine.experiments.engine import costs
    from untwine.launch import mapping, tasks
    from untwine.train.devices import pick_device

    settings = by_figure[chosen[0].name]
    mapping.check(settings["engine"], tasks.Means(**{key: settings[key] for key in ("workers", "gpus", "address")}))
    pick_device(settings["device"])
    for experiment in chosen:
        own = by_figure[experiment.name]
        changes = costs.changed(own["seeds"], own["settings"])
        experiment.plan(experiment.settings(settings["scale"], **changes))


def _show(result: Any, out: Path) -> None:
    """Print the findings of a result, and where its page is."""
    from untwine.experiments.engine import running
    from untwine.experiments.engine.result import CLAIMS, verdict

    output.paragraph(f"{result.name} ({result.scale}): {verdict(result)}")
    output.paragraph(f"  {result.claim}")
    rows = [
        [
            finding.text,
            finding.paper,
            finding.ours,
            "" if finding.corrected is None else f"{finding.corrected:.2g}",
            CLAIMS[finding.verdict],
        ]
        for finding in result.findings
    ]
    if rows:
        output.table(["claim", "paper", "ours", "p, corrected", "verdict"], rows, lines=True)
    for problem in (*dict.fromkeys(finding.why for finding in result.findings if finding.why), *result.problems):
        output.paragraph(f"- {problem}")
    output.say(f"The page is {out / result.name / running.folder_name(result.scale, result.changes) / 'result.md'}\n")


def _list(out: str | Path, device: str, as_json: bool) -> None:
    """Print every experiment: its claim, how much it trains at each scale, and what is there already."""
    from untwine.experiments.engine import catalogue, costs
    from untwine.experiments.engine.contract import SCALES
    from untwine.experiments.engine.result import FILE

    entries = []
    for name, experiment in catalogue.experiments().items():
        prices = {scale: costs.cost(name, scale, device, out) for scale in SCALES}
        done = [file.parent.name for file in sorted((Path(out) / name).glob(f"*/{FILE}"))]
        entries.append({"name": name, "claim": experiment.claim, "costs": prices, "done": done})
    if as_json:
        output.as_json({"experiments": entries})
        return
    rows = [
        [
            entry["name"],
            entry["claim"],
            *(_amount(entry["costs"][scale]) for scale in SCALES[1:]),
            ", ".join(entry["done"]),
        ]
        for entry in entries
    ]
    output.table(["figure", "claim", "small", "paper", f"in {out}"], rows, lines=True)
    output.say(
        "small and paper: the time of training on this machine where it is known, else models x steps; --dry-run"
    )
    output.say("measures it: untwine reproduce NAME --scale SCALE --dry-run")


def _amount(cost: dict[str, Any]) -> str:
    if not cost["members"]:
        return "no training"
    return (
        f"{cost['members']} x {cost['steps'] // cost['members']:,}"
        if cost["seconds"] is None
        else duration(cost["seconds"])
    )


def _dry_run(by_figure: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    from untwine.experiments.engine import costs

    known = ("scale", "device", "out", "seeds", "settings")
    rows = [
        {"figure": name, **row}
        for name, own in by_figure.items()
        for row in costs.estimate(name, **{key: own[key] for key in known})
    ]
    if as_json:
        output.as_json({"runs": rows})
        return
    if not rows:
        output.say("Nothing would be trained.")
        return
    keys = ("figure", "method", "dataset", "members", "steps", "packs")
    lines = [[*(str(row[key]) for key in keys), row.get("reason") or duration(row["seconds"])] for row in rows]
    output.table([*keys, "time"], lines)
    total = sum(row["seconds"] or 0.0 for row in rows)
    output.say(f"Training would take about {duration(total)}; scoring comes on top. Members that several")
    output.say("figures share are counted for each, and trained once.")


def _check(folder: Path, as_json: bool) -> int:
    from untwine.experiments.engine import pages

    found, wrong = pages.stored(folder), pages.check(folder)
    if as_json:
        output.as_json({"results": len(found), "wrong": wrong})
    else:
        for text in wrong:
            output.paragraph(text)
        output.say(
            f"{len(found)} result{'s' * (len(found) != 1)}; "
            + (f"wrong: {len(wrong)}" if wrong else "every verdict follows from its numbers")
        )
    return 1 if wrong else 0
