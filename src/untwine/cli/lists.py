"""`untwine methods`: what there is, from signatures and docstrings."""

from __future__ import annotations

from untwine.cli import flags, output


def methods(args: list[str]) -> None:
    """List the methods, their equations, and their arguments with defaults (no torch is needed)."""
    from untwine.methods import methods
    from untwine.methods.registry import PARTS, own_arguments

    about = "List the methods with their arguments and defaults."
    as_json = flags.parse("untwine methods", about, [flags.switch("json", flags.JSON)], args).json
    found = [
        {
            "name": name,
            "summary": flags.summary(methods[name]),
            "needs": methods.arguments(name)[0],
            "arguments": own_arguments(name),
        }
        for name in methods.names()
    ]
    if as_json:
        output.as_json({"methods": found})
        return
    rows = []
    for one in found:
        arguments = [*one["needs"], *(f"{key}={value!r}" for key, value in one["arguments"].items())]
        rows.append([flags.hyphens(one["name"]), one["summary"], ", ".join(arguments)])
    output.table(["method", "what it minimises or is", "arguments"], rows, lines=True)
    print(f"Every method also takes another {', '.join(PARTS)}. All about one: untwine train METHOD --help")
