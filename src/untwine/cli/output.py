"""Tables for people and JSON for programs."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from untwine.differences import short_names
from untwine.errors import printable


def as_json(value: Any) -> None:
    """Print a value as JSON. A command with `--json` prints nothing else to stdout."""
    print(json.dumps(value, indent=2, allow_nan=False, default=str))


def say(text: str = "") -> None:
    """Print a line, or several; what a terminal would obey is shown as its code."""
    print(printable(text), flush=True)


def note(text: str) -> None:
    """Tell a user something that is no result: on stderr, as warnings are."""
    print(f"untwine: {printable(text)}", file=sys.stderr, flush=True)


def width() -> int:
    """The width of the terminal; 80 where the output is a file."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80


def paragraph(text: str, indent: str = "  ") -> None:
    """Print a sentence, wrapped to the width of the terminal; words are never cut.

    Args:
        text: The sentence.
        indent: What all lines but the first begin with.
    """
    say(textwrap.fill(text, width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = False, lines: bool = False) -> None:
    """Print rows under their headings.

    Args:
        columns: The headings.
        rows: The texts of the cells.
        numbers: Whether all columns but the first hold numbers, which are aligned to the right and never wrapped.
        lines: Whether a line separates two rows.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    cells = [[printable(text) for text in row] for row in rows]
    columns = [printable(text) for text in columns]
    gap = 2
    if numbers and rows:
        others = sum(max(len(row[i]) for row in (columns, *rows)) + gap for i in range(1, len(columns)))
        for row in cells:
            row[0] = wrapped_name(row[0], max(width() - others, 20))
    grid = Table(box=box.SIMPLE, show_lines=lines, pad_edge=False, show_edge=False, padding=(0, gap - 1, 0, 0))
    for i, column in enumerate(columns):
        least = max(len(line) for row in cells for line in row[0].split("\n")) if rows and not i else None
        grid.add_column(column, justify="right" if numbers and i else "left", no_wrap=numbers or not i, min_width=least)
    for row in cells:
        grid.add_row(*row)
    # A file has no terminal that sets its width. A narrow terminal wraps rows of numbers, which are never cut.
    console = Console(width=200 if numbers else None if sys.stdout.isatty() else 140, markup=False, highlight=False)
    console.print(grid, soft_wrap=numbers)
    print()


def wrapped_name(name: str, width: int) -> str:
    """A name in lines of at most this width, broken behind a bracket, a comma or a space.

    Args:
        name: The name of a row, such as a metric with its arguments.
        width: The most characters of a line; a longer word stays whole.

    >>> print(wrapped_name("local-dci(rho=0.1, points=500) completeness", 24))
    local-dci(rho=0.1,
      points=500)
      completeness
    """
    lines = [""]
    for piece in re.findall(r"[^(, ]*(?:[(]|,? |$)|[^(, ]+", name):
        if lines[-1].strip() and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("  ")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def members(members: Mapping[str, Mapping[str, Any]], terms: Sequence[str] = ()) -> None:
    """Print a row for each member: the numbers in which members differ, its last logged terms, and its state.

    Numbers that the names of all members say have no column.

    Args:
        members: What `scoring.results.members` returns.
        terms: The terms to print; by default every term.
    """
    short = short_names(_keys(member["own"] for member in members.values()))
    settings = [key for key in short if not all(f"{short[key]}=" in name for name in members)]
    logged = terms or _keys(member["terms"] for member in members.values())
    rows = []
    for name, member in members.items():
        values = [*(member["own"].get(key) for key in settings), *(member["terms"].get(term) for term in logged)]
        rows.append([name, *map(_number, values), state(member)])
    columns = [short[key] for key in settings] + list(logged)
    table(["member", *(column.replace("_", " ") for column in columns), "state"], rows, numbers=True)


def _keys(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """All keys, each once."""
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"


def state(member: Mapping[str, Any]) -> str:
    """A member's state in words.

    >>> state({"state": "done", "steps": 20000}), state({"state": "diverged", "steps": 7})
    ('done, 20,000 steps', 'diverged at step 7')
    """
    if member["state"] == "done":
        return f"done, {member['steps']:,} steps"
    if member["state"] == "diverged":
        return f"diverged at step {member['steps']:,}"
    return str(member["state"])
