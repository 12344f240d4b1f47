"""Tables for people and JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def as_json(value: Any) -> None:
    """The only thing on stdout, where a command was asked for JSON."""
    print(json.dumps(value, indent=2, allow_nan=False, default=str))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = False, lines: bool = False) -> None:
    """Rows under their headings; `numbers` are set to the right, but for the first column."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    made = Table(box=box.SIMPLE, show_lines=lines, pad_edge=False)
    for i, column in enumerate(columns):
        least = max(len(row[0]) for row in rows) if rows and not i else None  # a name is never cut
        made.add_column(column, justify="right" if numbers and i else "left", no_wrap=numbers or not i, min_width=least)
    for row in rows:
        made.add_row(*row)
    # Nobody's terminal sets the width of a file. Numbers are never cut: a narrow terminal goes on in the next line.
    width = 200 if numbers else None if sys.stdout.isatty() else 140
    Console(width=width, markup=False, highlight=False).print(made, soft_wrap=numbers)


def members(found: Mapping[str, Mapping[str, Any]], terms: Sequence[str] = ()) -> None:
    """A row for each member: its own numbers, its last logged terms (or those named), and its state."""
    own = _keys(member["own"] for member in found.values())
    every = terms or _keys(member["terms"] for member in found.values())
    rows = []
    for name, member in found.items():
        values = [*(member["own"].get(key) for key in own), *(member["terms"].get(term) for term in every)]
        rows.append([name, *map(_number, values), state(member)])
    columns = [key.rpartition(".")[2] for key in own] + list(every)
    table(["member", *(column.replace("_", " ") for column in columns), "state"], rows, numbers=True)


def _keys(several: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for one in several for key in one))


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
