"""Help texts that fit the terminal: paragraphs, lists and example commands, wrapped."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from untwine.cli.output import width

WIDEST = 100  # longer lines are hard to read
PLACE = "(about)"  # stands for the description in the help that tyro writes, which it would not wrap
_ITEM = re.compile(r"(\s*- |\s+)?(.*)", re.DOTALL)


def wrapped(text: str, columns: int | None = None) -> str:
    """A help text in lines that fit.

    Lines of a paragraph are joined. Lines that begin with a hyphen or a space stay apart, and continue indented. An
    example command that is too long is broken as a shell reads it.

    Args:
        text: The text.
        columns: The most characters of a line; None takes the width of the terminal.

    >>> print(wrapped("Two lines\\nare one.\\n\\n- an item that is long\\n- untwine train vae --steps 20", 22))
    Two lines are one.
    <BLANKLINE>
    - an item that is long
    - untwine train vae \\
          --steps 20
    """
    size = columns or min(width(), WIDEST)
    return "\n".join(_wrapped_line(line, size) for line in _lines(text)).rstrip()


def _lines(text: str) -> Iterator[str]:
    """The lines of a text after those of a paragraph are joined."""
    paragraph: list[str] = []
    for line in [*text.strip("\n").splitlines(), ""]:
        if line and line[0] not in "- ":
            paragraph.append(line)
            continue
        if paragraph:
            yield " ".join(paragraph)
            paragraph = []
        yield line


def _wrapped_line(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line.rstrip()
    match = _ITEM.fullmatch(line)
    lead, words = (match[1] or "", match[2]) if match else ("", line)
    command = words.startswith("untwine ")
    indent = " " * (len(lead) + 4 * command)
    lines = textwrap.wrap(
        words,
        columns - 2 * command,
        initial_indent=lead,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return (" \\\n" if command else "\n").join(lines)


def definitions(named: Mapping[str, str], names: int = 20, columns: int | None = None) -> str:
    """Names with what they are, in two columns.

    Args:
        named: What each name is.
        names: The width of the first column; a longer name has a line of its own.
        columns: As in `wrapped`.

    >>> print(definitions({"ae": "a plain autoencoder", "a-long-name": "a method"}, 6, 24))
      ae     a plain
             autoencoder
      a-long-name
             a method
    """
    size = columns or min(width(), WIDEST)
    lines: list[str] = []
    for name, text in named.items():
        indent = " " * (names + 3)
        first = f"  {name:{names}} " if len(name) <= names else indent
        lines += [] if len(name) <= names else [f"  {name}"]
        lines += textwrap.wrap(text, size, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines)


def listed(words: Iterable[str], columns: int | None = None) -> str:
    """Words with commas between them, indented and wrapped."""
    size = columns or min(width(), WIDEST)
    return textwrap.fill(", ".join(words), size, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


@contextlib.contextmanager
def described(about: str) -> Iterator[None]:
    """A context in which what is printed gets a wrapped text in place of `PLACE`."""
    real = sys.stdout
    captured = _Captured(real)
    try:
        with contextlib.redirect_stdout(captured):
            yield
    finally:
        usage, newline, rest = captured.getvalue().partition("\n")
        if usage:
            real.write(_wrapped_usage(usage) + newline + rest.replace(PLACE, wrapped(about)))


def _wrapped_usage(line: str) -> str:
    columns = min(width(), WIDEST)
    return textwrap.fill(line, columns, subsequent_indent=" " * 7, break_long_words=False, break_on_hyphens=False)


class _Captured(io.StringIO):
    """A text that is written as for another stream: with its colours and characters."""

    def __init__(self, stream: Any):
        super().__init__()
        self._stream = stream

    def isatty(self) -> bool:
        return self._stream.isatty()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._stream.encoding or "utf-8"
