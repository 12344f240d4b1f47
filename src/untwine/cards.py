"""Small HTML tables, which notebooks show in the place of a repr. They refer to nothing outside."""

from __future__ import annotations

import html
from collections.abc import Sequence

from untwine.errors import printable

MOST = 50  # rows


def card(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table under a title; every text is escaped, and of many rows the first are shown.

    Args:
        title: What the table is of.
        columns: The headings; empty for a table without.
        rows: The texts of the cells.

    >>> card("a < b", ["name", "value"], [["x", "1"]])
    '<table><caption>a &lt; b</caption><tr><th>name</th><th>value</th></tr><tr><td>x</td><td>1</td></tr></table>'
    """
    lines = [_row(columns, "th")] if columns else []
    lines += [_row(row, "td") for row in rows[:MOST]]
    if len(rows) > MOST:
        lines.append(_row([f"and {len(rows) - MOST} more"], "td"))
    return f"<table><caption>{html.escape(printable(title))}</caption>{''.join(lines)}</table>"


def _row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(printable(cell))}</{tag}>' for cell in cells)}</tr>"
