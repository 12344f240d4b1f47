"""`untwine methods`: the list of methods, from their signatures and docstrings."""

from __future__ import annotations

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
