"""Tables of factors: which picture each row describes, and which state of a grid it is."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from jaxtyping import Int64

from untwine.data.factors import KINDS, FactorSpace, Value
from untwine.data.files.columns import BINS, MANY, Categories, are_numbers, distinct, in_bins, named
from untwine.errors import UntwineError, refuse_unknown, unknown

FILE_COLUMNS = ("file", "filename", "image", "path")  # names of the column that says which picture a row describes


@dataclass(frozen=True)
class FactorTable:
    """A table with a row for each picture and a column for each factor.

    Args:
        where: What error messages call the table.
        names: The names of the columns.
        columns: The values of each column, numbers or texts.
        files: The picture that each row describes; None where the rows are in the order of the pictures.
        categories: The values of columns that hold the positions of their values in a list instead, by name.
    """

    where: str
    names: tuple[str, ...]
    columns: tuple[np.ndarray, ...]
    files: tuple[str, ...] | None = None
    categories: Mapping[str, Categories] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.columns[0])

    def to_json(self) -> dict[str, Any]:
        """All that the table holds, as JSON."""
        columns = dict(zip(self.names, (column.tolist() for column in self.columns), strict=True))
        categories = {name: [known.values, known.ordered] for name, known in self.categories.items()}
        return {"columns": columns, "files": self.files, "categories": categories}

    def take(self, rows: Sequence[int] | np.ndarray) -> FactorTable:
        """The table with these rows, in this order."""
        files = None if self.files is None else tuple(self.files[row] for row in rows)
        return replace(self, columns=tuple(column[np.asarray(rows, np.int64)] for column in self.columns), files=files)

    def of(self, pictures: Sequence[str]) -> FactorTable:
        """The table with a row for each of these pictures, matched by `files`, or else by their order.

        >>> table = FactorTable("the table", ("x",), (np.array([5, 7]),), ("b", "sub/a.png"))
        >>> table.of(["b.png", "sub/a.png"]).columns[0].tolist(), table.of(["sub/a.png", "b.png"]).files
        ([5, 7], ('sub/a.png', 'b'))
        """
        if self.files is None:
            self.in_order(len(pictures), "pictures")
            self._refuse_two_orders(pictures)
            return self
        positions = _positions(pictures)
        rows: dict[int, int] = {}
        unmatched = []
        for row, file in enumerate(self.files):
            matches = positions.get(_normal(file), ())
            if len(matches) > 1:
                several = ", ".join(pictures[i] for i in matches)
                raise UntwineError(f"images: {self.where}: {file!r} may be any of {several}; write its suffix, too")
            if not matches:
                unmatched.append(file)
            elif matches[0] in rows:
                raise UntwineError(f"images: {self.where} has two rows for the picture {pictures[matches[0]]}")
            else:
                rows[matches[0]] = row
        missing = [name for i, name in enumerate(pictures) if i not in rows]
        if unmatched or missing:
            both = {"pictures without a row": (missing, pictures), "rows without a picture": (unmatched, self)}
            lists = [f"{k} ({len(names)} of {len(of)}): {shortened(names)}" for k, (names, of) in both.items() if names]
            raise UntwineError(
                f"images: {self.where} does not fit the pictures; {'; '.join(lists)}. Files are named by their paths "
                "in the folder, such as sub/one.png"
            )
        return self.take([rows[i] for i in range(len(pictures))])

    def in_order(self, count: int, what: str) -> FactorTable:
        """This table, if it has as many rows as there are examples."""
        if len(self) != count:
            raise UntwineError(
                f"images: {self.where} has {len(self)} rows for {count} {what}; it needs one for each, in their order"
            )
        return self

    def _refuse_two_orders(self, pictures: Sequence[str]) -> None:
        """Refuse pictures whose order by letters differs from that by numbers: the rows may be in either."""
        by_number = sorted(pictures, key=_numbers_in)
        first = next((i for i, name in enumerate(pictures) if name != by_number[i]), None)
        if first is not None:
            raise UntwineError(
                f"images: {self.where} does not say which picture a row is about, and the order of the pictures is "
                f"ambiguous: row {first + 1} is that of {pictures[first]} if they are sorted by their letters, and of "
                f"{by_number[first]} if by their numbers. Use a .csv or .tsv file with a column `file`"
            )

    def numbered(self, kinds: Sequence[str] = ()) -> tuple[Int64[np.ndarray, "n k"], FactorSpace]:
        """The states of the rows, and the factor space of their values in ascending order.

        Numbers are ordered and texts categorical, unless `kinds` says otherwise (`"angle=cyclic"`). The space has the
        values themselves, unless all are whole numbers from 0 on.

        >>> table = FactorTable("the table", ("x", "shape"), (np.array([2.5, 1.0]), np.array(["star", "disc"])))
        >>> labels, space = table.numbered(["x=cyclic"])
        >>> labels.tolist(), space.kinds, space.values
        ([[1, 1], [0, 0]], ('cyclic', 'categorical'), ((1.0, 2.5), ('disc', 'star')))
        """
        column_kinds = self.kinds(kinds)
        labels, values = zip(*map(self._numbered, self.names, self.columns, column_kinds), strict=True)
        sizes = tuple(map(len, values))
        plain = all(
            column.dtype.kind in "iu" and name not in self.categories and of_factor == list(range(len(of_factor)))
            for name, column, of_factor in zip(self.names, self.columns, values, strict=True)
        )
        space = FactorSpace(self.names, sizes, column_kinds, None if plain else tuple(map(tuple, values)))
        return np.stack(labels, 1).astype(np.int64), space

    def _numbered(self, name: str, column: np.ndarray, kind: str) -> tuple[Int64[np.ndarray, " n"], list[Value]]:
        """The number of each row's value in a column, and the values."""
        values, index = distinct(column)
        warning = None
        decimals = kind != "categorical" and column.dtype.kind == "f" and (values != np.floor(values)).any()
        if decimals and len(values) > MANY:
            warning = (
                f"column {name!r} has {len(values)} different decimals from {values[0]:g} to {values[-1]:g}; "
                f"it is cut into {BINS} bins of equal width, of which empty ones are left out"
            )
            index, names = in_bins(column.astype(np.float64))
        else:
            names = named(values, self.categories.get(name))
            if len(values) == len(column) > MANY:
                warning = (
                    f"column {name!r} differs in all of its {len(column)} rows: if it is a number or a name of each "
                    "picture rather than a factor, remove it"
                )
        if warning:
            warnings.warn(f"images: {self.where}: {warning}", stacklevel=5)
        return index, names

    def kinds(self, overrides: Sequence[str] = ()) -> tuple[str, ...]:
        """The kind of each column: by its content, or by `overrides` such as `["angle=cyclic"]`."""
        texts = {name for name, column in zip(self.names, self.columns, strict=True) if column.dtype.kind == "U"}
        labels = texts | {name for name, categories in self.categories.items() if not categories.ordered}
        kinds = {name: "categorical" if name in labels else "ordered" for name in self.names}
        overridden: set[str] = set()
        for override in overrides:
            name, equals, kind = str(override).rpartition("=")
            if not equals:
                raise UntwineError(
                    f"images: kinds are written as name=kind, such as {self.names[0]}=cyclic, not {override!r}"
                )
            refuse_unknown("factor in kinds:", [name], self.names)
            if kind not in KINDS:
                raise unknown(f"kind of factor {name!r}:", kind, KINDS)
            if name in overridden:
                raise UntwineError(f"images: kinds names the factor {name!r} twice")
            if name in texts and kind != "categorical" and not are_numbers(self.columns[self.names.index(name)]):
                raise UntwineError(
                    f"images: {self.where}: column {name!r} holds texts, whose order only you know: to make it {kind}, "
                    "write numbers in their place"
                )
            overridden.add(name)
            kinds[name] = kind
        return tuple(kinds.values())


def shortened(names: Sequence[str]) -> str:
    """The first ten names of a list, and how many more there are.

    >>> shortened(["a", "b"])
    'a, b'
    """
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


# --- pictures by their names ------------------------------------------------------------------------


def _positions(pictures: Iterable[str]) -> dict[str, list[int]]:
    """The positions of the pictures that a text may name: by the full path, or by the path without its suffix."""
    by_path = {_normal(name): [i] for i, name in enumerate(pictures)}
    by_stem: dict[str, list[int]] = {}
    for name, (i,) in by_path.items():
        by_stem.setdefault(str(PurePosixPath(name).with_suffix("")), []).append(i)
    return by_stem | by_path


def _numbers_in(name: str) -> tuple[str, ...]:
    """A sort key for paths that orders the numbers in them by value: all are padded to as many digits.

    >>> sorted(["b/10.png", "b/9.png", "a11"], key=_numbers_in)
    ['a11', 'b/9.png', 'b/10.png']
    """
    return PurePosixPath(re.sub(r"\d+", lambda match: f"{int(match[0]):0255}", name)).parts


def _normal(file: str) -> str:
    """A path in a normal form, as systems differ in separators and in how they encode an umlaut."""
    return unicodedata.normalize("NFC", str(PurePosixPath(file.replace("\\", "/"))))
