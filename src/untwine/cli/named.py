"""Commands whose first argument names a dataset: `untwine perceive NAME`, `untwine data show NAME`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from untwine.cli import flags
from untwine.cli.usage import UsageError, as_usage_errors


def of_dataset(
    command: str,
    args: list[str],
    about: str,
    examples: str,
    fields: Callable[[str], Sequence[Any]],
    overview: Callable[[str], str],
) -> tuple[Callable[..., Any], Any]:
    """The dataset function that the first argument names, and the parsed options.

    The options are those of the command, `--json`, and those of the dataset.

    Args:
        command: The command, such as "data show".
        args: The command line after the command.
        about: The description in the help.
        examples: Example command lines in the help, one a line.
        fields: Returns the command's options for a dataset of this name.
        overview: Returns the help without a dataset, from the usage line.
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
        build = flags.find(datasets, name)
    except UsageError as error:
        raise UsageError(f"{error}\n{usage}") from None
    name = flags.hyphens(name)
    description = f"{name}: {flags.summary(build)}\n\n{about}\n\nexamples:\n{indented(examples)}"
    options = [*fields(name), flags.switch("json", flags.JSON), ("dataset", flags.arguments(build))]
    return build, flags.parse(f"untwine {command} {name}", description, options, rest)


def carried_out(
    check: Callable[..., None],
    work: Callable[..., dict[str, Any]],
    build: Callable[..., Any],
    options: Any,
    arguments: dict[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """The dataset, and what `work` returns for it, unless `check` refuses the arguments.

    Args:
        check: Raises an error for wrong arguments.
        work: Does the work of the command.
        build: The dataset function.
        options: The parsed options, of which `dataset` holds the dataset's.
        arguments: The arguments of `check` and `work`.
    """
    with as_usage_errors():
        dataset = build(**flags.values(options.dataset))
        check(dataset, **arguments)
    return dataset, work(dataset, **arguments)


def listed() -> str:
    """The names of all datasets, as the command line writes them."""
    from untwine.data import datasets

    return ", ".join(map(flags.hyphens, datasets.names()))


def indented(examples: str) -> str:
    """The lines, indented by two spaces."""
    return "\n".join(f"  {line}" for line in examples.splitlines())
