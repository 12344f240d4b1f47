"""`untwine methods`, `metrics`, `networks` and `datasets`: lists, and the page of each entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from untwine.cli import explained, flags, output, pages
from untwine.progress import waiting
from untwine.registry import Registry


def methods(args: list[str]) -> None:
    """List the methods, their equations, and their arguments with defaults (no torch is needed), or show one."""
    from untwine.methods import methods
    from untwine.methods.registry import PARTS, own_arguments

    name, as_json = _asked("methods", "jl1-vae", args, methods)
    if name is not None:
        _show("methods", _with_torch(explained.method_page, name), as_json)
        return
    entries = [
        {
            "name": name,
            "summary": flags.summary(methods[name]),
            "needs": methods.arguments(name)[0],
            "arguments": own_arguments(name),
        }
        for name in methods.names()
    ]
    if as_json:
        output.as_json({"methods": entries})
        return
    rows = []
    for entry in entries:
        arguments = [*entry["needs"], *(f"{key}={value!r}" for key, value in entry["arguments"].items())]
        rows.append([flags.hyphens(entry["name"]), entry["summary"], ", ".join(arguments)])
    output.table(["method", "what it minimises or is", "arguments"], rows, lines=True)
    print(
        f"Every method also takes another {', '.join(PARTS)}.\n"
        "All about a method: untwine methods jl1-vae. Its options: untwine train METHOD --help\n"
        "Methods of your own: untwine methods --import MODULE_OR_FILE"
    )


def metrics(args: list[str]) -> None:
    """List the metrics, or show one: what it is, its arguments, and its floors."""
    from untwine.metrics import names
    from untwine.metrics.score import metrics

    name, as_json = _asked("metrics", "mig", [arg.removeprefix("local-") for arg in args], metrics)
    if name is not None:
        page = explained.metric_page(metrics[name].__name__)
        _show("metrics", page, as_json, lambda: _print_floors(page.more["floors"]))
        return
    listed = [explained.metric_page(known) for known in names()]
    if as_json:
        output.as_json({"metrics": [page.to_json() for page in listed]})
        return
    rows = [[flags.hyphens(page.name), page.about.partition("\n")[0], page.more["of"]] for page in listed]
    output.table(["metric", "what it is", "of"], rows, lines=True)
    print("All about a metric, and what is scored without having learned anything: untwine metrics mig")


def networks(args: list[str]) -> None:
    """List the networks, or show one: its layers, its arguments, and where it comes from."""
    with waiting("loading PyTorch"):
        from untwine.model.networks import networks

    name, as_json = _asked("networks", "conv", args, networks)
    if name is not None:
        _show("networks", explained.network_page(name), as_json)
        return
    entries = [
        {"name": name, "summary": flags.summary(networks[name]), "arguments": networks.arguments(name)[1]}
        for name in networks.names()
    ]
    if as_json:
        output.as_json({"networks": entries})
        return
    rows = [
        [flags.hyphens(one["name"]), one["summary"], ", ".join(f"{k}={v!r}" for k, v in one["arguments"].items())]
        for one in entries
    ]
    output.table(["network", "what it is", "arguments"], rows, lines=True)
    print(
        "All about a network: untwine networks conv. Without --network a run takes what suits the method and the data."
    )


def datasets(args: list[str]) -> None:
    """List the datasets as `untwine data list` does, or show one: what it holds, its arguments, its licence."""
    from untwine.cli.commands.data import data
    from untwine.data import datasets

    name, as_json = _asked("datasets", "three-dots", args, datasets)
    if name is not None:
        _show("datasets", explained.dataset_page(name), as_json)
        return
    data(["list", *(["--json"] if as_json else [])])


# --- one entry ------------------------------------------------------------------------------------------


def _asked(command: str, example: str, args: list[str], registry: Registry) -> tuple[str | None, bool]:
    """The name that the command line asks for, if any, and whether as JSON.

    Args:
        command: The command.
        example: A name for the example in its help.
        args: The words after the command.
        registry: The names that there are.
    """
    name = args[0] if args and not args[0].startswith("-") else None
    kind = registry.kind
    about = (
        f"List the {command}, or show all about one: what it is, its arguments with defaults, how to use it, and its "
        f"literature.\n\nExamples:\n- untwine {command}\n- untwine {command} {example}\n"
        f"- untwine {command} {example} --json"
    )
    rest = args if name is None else args[1:]
    fields = [flags.switch("json", flags.JSON)]
    as_json = flags.parse(f"untwine {command} [{kind.upper()}]", about, fields, rest).json
    if name is not None:
        flags.find(registry, name)
    return name, as_json


def _show(command: str, page: pages.Page, as_json: bool, further: Callable[[], None] = lambda: None) -> None:
    if as_json:
        output.as_json({command: [page.to_json()]})
    else:
        pages.print_page(page, further)


def _with_torch(page: Callable[[str], pages.Page], name: str) -> pages.Page:
    """A page that needs torch, which takes a second or two to import."""
    with waiting("loading PyTorch"):
        return page(name)


def _print_floors(floors: dict[str, dict[str, Any]]) -> None:
    from untwine.metrics.floors import ABOUT, KINDS

    if not floors:
        return
    output.paragraph(f"What is scored without having learned anything ({ABOUT}):", indent="")
    rows = [
        [flags.hyphens(name), *("-" if value is None else f"{value:.3g}" for value in scores.values())]
        for name, scores in floors.items()
    ]
    output.table(["score", *KINDS.values()], rows, numbers=True)
