"""Commands about one dataset, whose name comes first: `untwine perceive NAME`, `untwine data show NAME`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from untwine.cli import UsageError, asked, flags


def of_dataset(
    command: str,
    args: list[str],
    about: str,
    examples: str,
    fields: Callable[[str], Sequence[Any]],
    overview: Callable[[str], str],
) -> tuple[Callable[..., Any], Any]:
    """The dataset function of the name, and what the flags say: those of the command, `--json`, and the dataset's own.

    `fields` are the command's flags for a dataset of that name; `overview` is the help without a name, from the usage.
    """
    from untwine.data import datasets

    usage = f"usage: untwine {command} DATASET [OPTIONS]"
    if not args or args[0].startswith("-"):
        if {"-h", "--help"} & set(args):
            print(overview(usage))
            raise SystemExit(0)
        raise UsageError(f"which dataset? It comes first, and is one of {listed()}\n{usage}")
    name, *rest = args
    try:
        made = flags.find(datasets, name)
    except UsageError as error:
        raise UsageError(f"{error}\n{usage}") from None
    name = flags.hyphens(name)
    whole = f"{name}: {flags.summary(made)}\n\n{about}\n\nexamples:\n{indented(examples)}"
    every = [*fields(name), flags.switch("json", flags.JSON), ("dataset", flags.arguments(made))]
    return made, flags.parse(f"untwine {command} {name}", whole, every, rest)


def carried_out(
    check: Callable[..., None],
    work: Callable[..., dict[str, Any]],
    made: Callable[..., Any],
    given: Any,
    chosen: dict[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """The dataset, and what `work` returns for it, unless `check` refuses the arguments."""
    with asked():
        dataset = made(**flags.values(given.dataset))
        check(dataset, **chosen)
    return dataset, work(dataset, **chosen)


def listed() -> str:
    """The names of all datasets, as the command line writes them."""
    from untwine.data import datasets

    return ", ".join(map(flags.hyphens, datasets.names()))


def indented(examples: str) -> str:
    return "\n".join(f"  {line}" for line in examples.splitlines())
