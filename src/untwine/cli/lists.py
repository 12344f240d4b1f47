"""`untwine methods` and `untwine metrics`: lists from signatures and docstrings, and the page of a metric."""

from __future__ import annotations

import math
from typing import Any

from untwine.cli import flags, output


def methods(args: list[str]) -> None:
    """List the methods, their equations, and their arguments with defaults (no torch is needed)."""
    from untwine.methods import methods
    from untwine.methods.registry import PARTS, own_arguments

    about = "List the methods with their arguments and defaults."
    as_json = flags.parse("untwine methods", about, [flags.switch("json", flags.JSON)], args).json
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
        "All options of a method: untwine train METHOD --help\n"
        "Methods of your own: untwine methods --import MODULE_OR_FILE"
    )


def metrics(args: list[str]) -> None:
    """List the metrics, or show the page of one: what it is, its arguments, and its floors."""
    from untwine.metrics import names
    from untwine.metrics.score import metrics

    name = args[0].removeprefix("local-") if args and not args[0].startswith("-") else None
    about = "List the metrics, or show all about one: untwine metrics mig"
    rest = args if name is None else args[1:]
    as_json = flags.parse("untwine metrics [METRIC]", about, [flags.switch("json", flags.JSON)], rest).json
    if name is not None:
        flags.find(metrics, name)
    pages = [_page(metrics[known].__name__) for known in (names() if name is None else [name])]
    if as_json:
        output.as_json({"metrics": pages})
    elif name is not None:
        _print_page(pages[0])
    else:
        rows = [[flags.hyphens(page["name"]), page["about"].partition("\n")[0], page["of"]] for page in pages]
        output.table(["metric", "what it is", "of"], rows, lines=True)
        print("All about a metric, and what is scored without having learned anything: untwine metrics mig")


def _page(name: str) -> dict[str, Any]:
    """What there is to know of a metric."""
    from untwine import metrics
    from untwine.metrics.floors import floors

    metric = metrics.get(name)
    arguments = {
        key: {"default": default, "help": flags.argument_help(metric, key)}
        for key, default in metric.options.items()
        if key not in metric.KNOWN
    }
    return {
        "name": name,
        "about": flags.description(metric),
        "of": ", ".join(metric.takes),
        "arguments": arguments,
        "bounds": {part: [end if math.isfinite(end) else None for end in ends] for part, ends in metric.bounds.items()},
        "not_printed_without_active_latents": list(metric.ratios),
        "floors": floors(name),
    }


def _print_page(page: dict[str, Any]) -> None:
    from untwine.metrics.floors import ABOUT, KINDS

    print(f"{flags.hyphens(page['name'])}, a function of {page['of']}\n")
    for paragraph in page["about"].split("\n\n"):
        print(paragraph) if paragraph.startswith(" ") else output.paragraph(paragraph, indent="")
        print()
    low, high = page["bounds"].get("value", (None, None))
    if low is not None:
        print(f"From {low:g} to {high:g}.\n" if high is not None else f"{low:g} or more.\n")
    if ratios := page["not_printed_without_active_latents"]:
        names = ", ".join("its value" if part == "value" else part for part in ratios)
        output.paragraph(f"evaluate leaves out models without an active latent: {names}.\n", indent="")
        print()
    for name, argument in page["arguments"].items():
        output.paragraph(f"{name}={argument['default']}: {argument['help'] or ''}")
    if page["floors"]:
        print()
        output.paragraph(f"What is scored without having learned anything ({ABOUT}):", indent="")
        rows = [
            [flags.hyphens(name), *("-" if value is None else f"{value:.3g}" for value in scores.values())]
            for name, scores in page["floors"].items()
        ]
        output.table(["score", *KINDS.values()], rows, numbers=True)
