"""Tables of factors: which row is about which picture, and which state of a grid it is."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np
from jaxtyping import Float64, Int64

from untwine.data.factors import KINDS, FactorSpace
from untwine.errors import UntwineError, refuse_unknown, unknown

MANY, BINS = 64, 20  # a column of decimals with more values than MANY is cut into BINS


@dataclass(frozen=True)
class FactorTable:
    """Columns of numbers or texts, a value for each row, and which picture each row is about, if it says so."""

    where: str
    names: tuple[str, ...]
    columns: tuple[np.ndarray, ...]
    files: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, rows: Sequence[int] | np.ndarray) -> FactorTable:
        """Some of the rows, in this order."""
        files = None if self.files is None else tuple(self.files[row] for row in rows)
        return replace(self, columns=tuple(column[np.asarray(rows, np.int64)] for column in self.columns), files=files)

    def of(self, pictures: Sequence[str]) -> FactorTable:
        """A row for each picture of a folder, known by its path: by the rows' own files, or else in this order.

        >>> table = FactorTable("the table", ("x",), (np.array([5, 7]),), ("b", "sub/a.png"))
        >>> table.of(["b.png", "sub/a.png"]).columns[0].tolist(), table.of(["sub/a.png", "b.png"]).files
        ([5, 7], ('sub/a.png', 'b'))
        """
        if self.files is None:
            self.in_order(len(pictures), "pictures")
            self._refuse_two_orders(pictures)
            return self
        places = _places(pictures)
        rows: dict[int, int] = {}
        strangers = []
        for row, file in enumerate(self.files):
            found = places.get(_normal(file), ())
            if len(found) > 1:
                several = ", ".join(pictures[i] for i in found)
                raise UntwineError(f"images: {self.where}: {file!r} may be any of {several}; write its suffix, too")
            if not found:
                strangers.append(file)
            elif found[0] in rows:
                raise UntwineError(f"images: {self.where} has two rows for the picture {pictures[found[0]]}")
            else:
                rows[found[0]] = row
        missing = [name for i, name in enumerate(pictures) if i not in rows]
        if strangers or missing:
            both = {"pictures without a row": (missing, pictures), "rows without a picture": (strangers, self)}
            said = [f"{k} ({len(names)} of {len(of)}): {some(names)}" for k, (names, of) in both.items() if names]
            raise UntwineError(
                f"images: {self.where} does not fit the pictures; {'; '.join(said)}. Files are named by their paths in "
                "the folder, such as sub/one.png"
            )
        return self.take([rows[i] for i in range(len(pictures))])

    def in_order(self, count: int, what: str) -> FactorTable:
        """The rows as they are, if there are as many as there are examples."""
        if len(self) != count:
            raise UntwineError(
                f"images: {self.where} has {len(self)} rows for {count} {what}; it needs one for each, in their order"
            )
        return self

    def _refuse_two_orders(self, pictures: Sequence[str]) -> None:
        """Refuse pictures whose sorted order is not that of the numbers in their names: rows may be in either."""
        by_number = sorted(pictures, key=_numbers_in)
        first = next((i for i, name in enumerate(pictures) if name != by_number[i]), None)
        if first is not None:
            raise UntwineError(
                f"images: {self.where} does not say which picture a row is about, and the order of the pictures is "
                f"ambiguous: row {first + 1} is that of {pictures[first]} if they are sorted by their letters, and of "
                f"{by_number[first]} if by their numbers. Use a .csv or .tsv file with a column `file`"
            )

    def numbered(self, kinds: Sequence[str] = ()) -> tuple[Int64[np.ndarray, "n k"], FactorSpace]:
        """The rows as states, and the grid of their values, numbered in ascending order.

        Numbers are ordered, texts categorical, unless `kinds` says otherwise (`"angle=cyclic"`).

        >>> table = FactorTable("the table", ("x", "shape"), (np.array([2.5, 1.0]), np.array(["star", "disc"])))
        >>> labels, space = table.numbered(["x=cyclic"])
        >>> labels.tolist(), space.kinds
        ([[1, 1], [0, 0]], ('cyclic', 'categorical'))
        """
        own, labels = self.kinds(kinds), []
        for name, column, kind in zip(self.names, self.columns, own, strict=True):
            values, index = np.unique(column, return_inverse=True)
            concern, counted = None, kind != "categorical" and column.dtype.kind == "f"
            if counted and len(values) > MANY and (values != np.floor(values)).any():
                concern = (
                    f"column {name!r} has {len(values)} different decimals from {values[0]:g} to {values[-1]:g}; "
                    f"it is cut into {BINS} bins of equal width, of which empty ones are left out"
                )
                index = np.unique(_bins(column), return_inverse=True)[1]
            elif len(values) == len(column) > MANY:
                concern = (
                    f"column {name!r} differs in all of its {len(column)} rows: if it is a number or a name of each "
                    "picture rather than a factor, remove it"
                )
            if concern:
                warnings.warn(f"images: {self.where}: {concern}", stacklevel=4)
            labels.append(index)
        sizes = tuple(int(index.max()) + 1 for index in labels)
        return np.stack(labels, 1).astype(np.int64), FactorSpace(self.names, sizes, own)

    def kinds(self, given: Sequence[str] = ()) -> tuple[str, ...]:
        """The kind of each column, by what it holds or by what is given."""
        texts = {name: column.dtype.kind == "U" for name, column in zip(self.names, self.columns, strict=True)}
        found = {name: "categorical" if text else "ordered" for name, text in texts.items()}
        named: set[str] = set()
        for one in given:
            name, equals, kind = str(one).rpartition("=")
            if not equals:
                raise UntwineError(
                    f"images: kinds are written as name=kind, such as {self.names[0]}=cyclic, not {one!r}"
                )
            refuse_unknown("factor in kinds:", [name], self.names)
            if kind not in KINDS:
                raise unknown(f"kind of factor {name!r}:", kind, KINDS)
            if name in named:
                raise UntwineError(f"images: kinds names the factor {name!r} twice")
            if texts[name] and kind != "categorical":
                raise UntwineError(
                    f"images: {self.where}: column {name!r} holds texts, whose order only you know: to make it {kind}, "
                    "write numbers in their place"
                )
            named.add(name)
            found[name] = kind
        return tuple(found.values())


def _bins(column: Float64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """The bin of each number, of equal width over their range; one on an edge belongs to the bin above it."""
    half = column / 2  # so that no range is too large for a float
    return np.searchsorted(np.linspace(half.min(), half.max(), BINS + 1)[1:-1], half, side="right")


def some(names: Sequence[str]) -> str:
    """The first ten of a list, and how many more there are.

    >>> some(["a", "b"])
    'a, b'
    """
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


# --- pictures by their names ------------------------------------------------------------------------


def _places(pictures: Iterable[str]) -> dict[str, list[int]]:
    """Which pictures a text may name: by the whole path, or else by the path without its suffix."""
    whole = {_normal(name): [i] for i, name in enumerate(pictures)}
    bare: dict[str, list[int]] = {}
    for name, (i,) in whole.items():
        bare.setdefault(str(PurePosixPath(name).with_suffix("")), []).append(i)
    return bare | whole


def _numbers_in(name: str) -> tuple[str, ...]:
    """The parts of a path, to be sorted by the numbers in them: all are written with as many digits.

    >>> sorted(["b/10.png", "b/9.png", "a11"], key=_numbers_in)
    ['a11', 'b/9.png', 'b/10.png']
    """
    return PurePosixPath(re.sub(r"\d+", lambda found: f"{int(found[0]):0255}", name)).parts


def _normal(file: str) -> str:
    """A path with one spelling: systems differ in their separators, and in how they write an umlaut."""
    return unicodedata.normalize("NFC", str(PurePosixPath(file.replace("\\", "/"))))
