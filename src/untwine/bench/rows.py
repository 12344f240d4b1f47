"""Rows of measurements, written to a JSON file as soon as they are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from untwine import files
from untwine._version import __version__
from untwine.errors import UntwineError

Row = dict[str, Any]


class Rows:
    """Rows with different values of their keys, in a file that is written whenever one is added.

    Args:
        path: The file; rows that it has already stay. None keeps rows in memory.
        keys: The columns that tell one row from another.
        about: What is measured on. A file with rows from other hardware is refused.
        complete: Adds to rows what depends on other rows, whenever the file is written.

    >>> rows = Rows(None, ("name", "size"), {})
    >>> rows.put({"name": "a", "size": 1, "seconds": 2.0})
    >>> rows.put({"name": "a", "size": 1, "seconds": 3.0})
    >>> rows.find({"name": "a", "size": 1})["seconds"], rows.find({"name": "a", "size": 2}), len(rows.new)
    (3.0, None, 1)
    """

    def __init__(
        self,
        path: str | Path | None,
        keys: Sequence[str],
        about: dict[str, Any],
        complete: Callable[[list[Row]], None] = lambda rows: None,
    ):
        self.path = None if path is None else Path(path)
        self.keys = tuple(keys)
        self.about = about
        self.complete = complete
        self.rows: list[Row] = []
        self.new: list[Row] = []  # those that were added by `put`
        if self.path and self.path.exists():
            try:
                content = json.loads(self.path.read_text())
                self.rows, before = content["rows"], content.get("hardware")
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise UntwineError(f"{path} exists and holds no rows ({error}); give another file") from None
            if "hardware" in about and before != about["hardware"]:
                raise UntwineError(
                    f"{path} has numbers from {before}, and these are from {about['hardware']}: give another file"
                )

    def find(self, row: Row) -> Row | None:
        """The row with the same keys as this one, or None."""
        return next((known for known in self.rows if self._key(known) == self._key(row)), None)

    def put(self, row: Row) -> None:
        """Add a row, or replace the one with the same keys, and write the file."""
        json.dumps(row, allow_nan=False)  # a row that cannot be written must not spoil those that can
        for rows in (self.rows, self.new):
            keys = [self._key(known) for known in rows]
            place = keys.index(self._key(row)) if self._key(row) in keys else len(rows)
            rows[place : place + 1] = [row]
        self.complete(self.rows)
        if self.path:
            content = {"untwine": __version__, **self.about, "rows": self.rows}
            files.write(self.path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())

    def _key(self, row: Row) -> str:
        return json.dumps([row.get(key) for key in self.keys])


def write_rows(path: str | Path, rows: list[Row], about: dict[str, Any]) -> None:
    """Write a JSON file of rows in place of any other.

    Args:
        path: The file; folders on the way to it are made.
        rows: The measurements.
        about: What they were measured on.
    """
    content = {"untwine": __version__, **about, "rows": rows}
    files.write(Path(path), (json.dumps(content, indent=1) + "\n").encode())
