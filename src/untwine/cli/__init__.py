"""The command line: `untwine COMMAND ...`. Exit codes: 0 done, 1 failed, 2 wrong command line.

A command is imported when it is called, so that `untwine --help` and `--version` answer at once.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from untwine._version import __version__
from untwine.cli.failures import failure
from untwine.cli.usage import UsageError
from untwine.errors import UntwineError, WrongCall, printable, unknown
from untwine.threads import wait_passively

# The file of each command in `commands/`, and its line in the help.
COMMANDS = {
    "demo": ("demo", "train two methods in a few minutes, and see what sets them apart"),
    "train": ("train", "train a method on a dataset, or resume a run that was stopped"),
    "evaluate": ("evaluate", "score runs with any metric, global or local, and compare them"),
    "show": ("show", "draw traversals, Jacobian columns, reconstructions, curves or information of a run"),
    "report": ("report", "write one HTML page about runs: curves, scores, pictures, warnings"),
    "explore": ("explore", "move the latents of trained models on a page in your browser"),
    "reproduce": ("reproduce", "reproduce the figures and tables of the papers, one command each"),
    "sweep": ("sweep", "train and score many runs from one file: here, on all GPUs, or on a cluster"),
    "export": ("export", "write models as ONNX files, or publish them with a model card"),
    "perceive": ("perceive", "measure how a loss perceives a dataset's factors, before any training"),
    "methods": ("lists", "list the methods, or explain one: untwine methods jl1-vae"),
    "metrics": ("lists", "list the metrics, or explain one: untwine metrics mig"),
    "networks": ("lists", "list the networks, or explain one: untwine networks conv"),
    "datasets": ("lists", "list the datasets, or explain one: untwine datasets dsprites"),
    "data": ("data", "list, fetch, check and show datasets: untwine data list"),
    "bench": ("bench", "measure speed and quality on this machine"),
    "doctor": ("doctor", "show versions, devices, data and extras, and test that training works"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    wait_passively()
    _open_closed_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):  # characters that the terminal lacks are escaped
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with _our_warnings():
            code = _run(arguments, alone=argv is None)
        sys.stdout.flush()  # a full disk shows here, and not when Python ends
        return code
    except UntwineError as error:
        _say(str(error))
        return 2 if isinstance(error, UsageError | WrongCall) else 1
    except KeyboardInterrupt:
        _say("interrupted")
        return 1
    except SystemExit as stop:  # tyro, after its help (0) or its message (2)
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2

    except BrokenPipeError:  # `untwine methods | head` has closed the pipe
        _forget_output()
        return 1
    except Exception as error:  # a full disk, no right to write, no memory: anything else is a bug
        line = failure(error, arguments)
        if line is None:
            raise
        if getattr(error, "filename", "") is None:
            _forget_output()  # what could not be written would fail again when Python ends
        _say(line)
        return 1


def _run(words: list[str], alone: bool) -> int:
    """Run the command that the words name, after the imports that the user asks for.

    Args:
        words: The words after `untwine`.
        alone: Whether this process ends with the command.
    """
    from untwine.cli.imports import IMPORTED, import_installed_parts, import_parts, split_imports

    IMPORTED.clear()  # an earlier command of this process may have had others
    arguments, imports = split_imports(words)
    if not arguments:
        print(_help(), file=sys.stderr)
        return 2
    first, *rest = arguments
    if first in ("-h", "--help", "help"):
        print(_help())
        return 0
    if first in ("--version", "-V"):
        print(f"untwine {__version__}")
        return 0
    if first.startswith("-"):
        raise UsageError(f"unknown option {first!r}; see: untwine --help")
    if first not in COMMANDS:
        raise UsageError(str(unknown("command", first, COMMANDS)))
    import_installed_parts()
    import_parts(imports)

    def call() -> int:
        return getattr(importlib.import_module(f"untwine.cli.commands.{COMMANDS[first][0]}"), first)(rest) or 0

    if alone and not imports and {"-h", "--help"} & set(rest):
        from untwine.cli.quick import without_torch

        return without_torch(call, words)
    return call()


def _help() -> str:
    from untwine.cli.helptext import definitions
    from untwine.cli.imports import HELP

    options = {
        "--help": "Show this help; untwine COMMAND --help shows the options of a command.",
        "--version": "Show the version.",
        "--import MODULE_OR_FILE": HELP,
    }
    return "\n".join(
        [
            "usage: untwine COMMAND ...",
            "",
            "Learn, measure and explain disentangled representations with VAEs.",
            "",
            *("commands:", definitions({name: what for name, (_, what) in COMMANDS.items()}, 9), ""),
            *("options:", definitions(options, 9), ""),
            "A first look: untwine demo",
        ]
    )


def _open_closed_streams() -> None:
    """Let go nowhere what is printed where a shell closed it (`>&-`): else Python has no stream to print to."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _forget_output() -> None:
    """Let what is left to print go nowhere, if it cannot be printed."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (OSError, ValueError):
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115


# --- messages -------------------------------------------------------------------------------------------


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"untwine: {printable(text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody can be told
        pass


@contextmanager
def _our_warnings() -> Iterator[None]:
    """Print warnings for users in one line each, and each once. Others, such as torch's, keep Python's form."""
    printed = set[str]()

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        if category is not UserWarning or "torch" in Path(filename).parts:
            old(message, category, filename, lineno, file, line)
        elif str(message) not in printed:
            printed.add(str(message))
            _say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        old, warnings.showwarning = warnings.showwarning, show
        yield
