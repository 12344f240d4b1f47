"""The command line: `untwine COMMAND ...`. Exit codes: 0 done, 1 failed, 2 the command line was wrong.

Each command is imported when it is called, so that `untwine --help` and `--version` answer at once.
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
from untwine.errors import Unavailable, UntwineError, unknown

# Where each command lives, and what it does.
COMMANDS = {
    "demo": ("untwine.cli.demo", "train two small models in a few minutes and compare them"),
    "train": ("untwine.cli.train", "train a method on a dataset, or go on with a run that was stopped"),
    "evaluate": ("untwine.cli.evaluate", "score runs with any metric, global or local, and compare them"),
    "perceive": ("untwine.cli.perceive", "how a loss perceives a dataset's factors, before anything is trained"),
    "methods": ("untwine.cli.lists", "list the methods"),
    "data": ("untwine.cli.data", "list, get, check and show datasets: untwine data list"),
    "bench": ("untwine.cli.bench", "measure the speed of training on this machine"),
}


class UsageError(UntwineError):
    """The command line was wrong: exit code 2."""


@contextmanager
def asked() -> Iterator[None]:
    """Whatever of a request cannot be made is the command line's fault; data that cannot be had is not."""
    try:
        yield
    except (UsageError, Unavailable):
        raise
    except UntwineError as error:
        raise UsageError(str(error)) from None


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal's encoding lacks is no reason to fail
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with _our_warnings():
            return _run(arguments)
    except UntwineError as error:
        _say(str(error))
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        _say("interrupted")
        return 1
    except BrokenPipeError:  # `untwine methods | head`: the reader has gone, and so do we
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as stop:  # tyro, after its help (0) or its message (2)
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2


def _run(arguments: list[str]) -> int:
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
    command = getattr(importlib.import_module(COMMANDS[first][0]), first)
    return command(rest) or 0


def _help() -> str:
    lines = [f"  {name:9} {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: untwine COMMAND ...",
            "",
            "Learn, measure and explain disentangled representations with variational autoencoders.",
            "",
            "commands:",
            *lines,
            "",
            "options:",
            "  --help     show this help; untwine COMMAND --help shows a command's own",
            "  --version  show the version",
            "",
            "A first look: untwine demo",
        ]
    )


# --- what every command says, and how -------------------------------------------------------------------


def _say(text: str) -> None:
    sys.stderr.write(f"untwine: {text}\n")
    sys.stderr.flush()


@contextmanager
def _our_warnings() -> Iterator[None]:
    """Warnings for users in one line each, and each of them once; those of torch and for developers as ever."""
    said = set[str]()

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        if category is not UserWarning or "torch" in Path(filename).parts:
            old(message, category, filename, lineno, file, line)
        elif str(message) not in said:
            said.add(str(message))
            _say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        old, warnings.showwarning = warnings.showwarning, show
        yield
