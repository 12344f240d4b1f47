"""What the command line says of a failure: its line, and how to go on with a run that has begun."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from untwine import failures
from untwine.locations import expanded


def failure(error: BaseException, words: Sequence[str] = ()) -> str | None:
    """The line for a failure that is no bug of ours; None for any other error.

    Args:
        error: What was raised.
        words: The command line, for a run that may be resumed.
    """
    line = failures.failure(error)
    return None if line is None else line + _go_on(words)


def _go_on(words: Sequence[str]) -> str:
    """How to go on with a run that has begun; nothing where there is none."""
    if list(words[:1]) != ["train"]:
        return ""
    for flag in ("--out", "--resume"):
        for i, word in enumerate(words):
            value = words[i + 1] if word == flag and i + 1 < len(words) else ""
            value = word.partition("=")[2] if word.startswith(f"{flag}=") else value
            try:
                if value and (Path(expanded(value)) / "run.json").is_file():
                    return f". Then go on with: untwine train --resume {shlex.quote(value)}"
            except (OSError, ValueError):
                return ""
    return ""
