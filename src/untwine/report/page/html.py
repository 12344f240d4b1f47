"""Pieces of HTML. Whatever is not `Markup` already is escaped, in one place, so no name of a user becomes HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from untwine.errors import printable

_WITHOUT_END = ("img", "input", "br", "meta", "link")


class Markup(str):
    """A text that is HTML already."""


def escaped(value: Any) -> Markup:
    """The HTML of a text; `Markup` stays as it is.

    >>> escaped("<b>"), escaped(Markup("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    return value if isinstance(value, Markup) else Markup(html.escape(printable(str(value)), quote=True))


def joined(pieces: Iterable[Any], between: str = "") -> Markup:
    """Pieces one after another; those that are not Markup are escaped.

    Args:
        pieces: Texts and Markup.
        between: What stands between two pieces.
    """
    return Markup(escaped(between).join(escaped(piece) for piece in pieces if piece is not None))


def tag(element: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element. An attribute that is None or False is left out; `class_` is class, `data_row` is data-row.

    Args:
        element: The name of the element.
        children: Texts and Markup.
        attributes: The attributes.

    >>> tag("a", "<x>", href='"', class_="quiet", hidden=False)
    '<a href="&quot;" class="quiet">&lt;x&gt;</a>'
    """
    texts = [element]
    for key, value in attributes.items():
        written = key.rstrip("_").replace("_", "-")
        if value is True:
            texts.append(written)
        elif value is not None and value is not False:
            texts.append(f'{written}="{html.escape(str(value), quote=True)}"')
    head = " ".join(texts)
    return Markup(f"<{head}>" if element in _WITHOUT_END else f"<{head}>{joined(children)}</{element}>")


def paragraph(*children: Any, quiet: bool = False) -> Markup:
    """A paragraph.

    Args:
        children: Texts and Markup.
        quiet: Whether it is a remark, in a smaller and paler type.
    """
    return tag("p", *children, class_="quiet" if quiet else None)


def code(text: str) -> Markup:
    """A command within a sentence."""
    return tag("code", text)


def block(text: str) -> Markup:
    """Commands, a line each, with a button that copies them."""
    return tag(
        "div", tag("pre", tag("code", text)), tag("button", "copy", class_="copy", type="button"), class_="block"
    )


def table(columns: Sequence[Any], rows: Sequence[Sequence[Any]], numbers: bool = True) -> Markup:
    """A table that scrolls sideways where it is too wide.

    Args:
        columns: The headings.
        rows: The cells.
        numbers: Whether all columns but the first are aligned to the right.
    """
    head = tag("thead", tag("tr", *(tag("th", column, scope="col") for column in columns)))
    lines = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    grid = tag("table", head, tag("tbody", *lines), class_="numbers" if numbers else None)
    return tag("div", grid, class_="scroll", tabindex="0", role="region", aria_label="table")
