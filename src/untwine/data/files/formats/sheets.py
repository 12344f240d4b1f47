"""Read a table of factors: from a .csv or .tsv file whose first line names the columns, or by `frames`."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from untwine.data.files.columns import NUMBER
from untwine.data.files.factor_table import FactorTable
from untwine.data.files.formats import arrays
from untwine.data.files.formats.frames import MISSING, Columns, file_column, from_columns, in_archive, wanted
from untwine.errors import UntwineError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_WHOLE = re.compile(r"[+-]?\d+")
# Probably meant as a number: 1,5 or 1_000 or 10% or -inf.
_NUMBER_LIKE = re.compile(r"[+-]?(\d[\d,_]*(\.\d*)?([eE][+-]?\d+)?\s?%?|inf(inity)?)", re.IGNORECASE)


def factor_table(factors: str | os.PathLike[str] | Columns | FactorTable, kinds: Sequence[str] = ()) -> FactorTable:
    """The table of factors in a .csv, .tsv, .npy or .npz file, or in an array, lists, columns or a data frame.

    Args:
        factors: The path, or the table itself.
        kinds: As for `FactorTable.numbered`. A column with `name=categorical` may mix numbers and texts.
    """
    if isinstance(factors, FactorTable):
        return factors
    if not isinstance(factors, str | os.PathLike):
        return from_columns(factors, "the table of factors", kinds)
    path = Path(factors).expanduser()
    where = f"the table of factors {path}"
    if not path.is_file():
        raise UntwineError(f"images: there is no {path}, which should be the table of factors")
    suffix = path.suffix.lower()
    if suffix in _SEPARATORS:
        return _from_text(path, _SEPARATORS[suffix], where, kinds)
    if suffix not in (".npy", ".npz"):
        raise UntwineError(f"images: {where} must be a .csv, .tsv, .npy or .npz file")
    try:
        loaded = arrays.loaded(path, wanted)
        return from_columns(loaded if isinstance(loaded, np.ndarray) else in_archive(loaded, where), where, kinds)
    except arrays.DAMAGE as error:
        raise UntwineError(f"images: {where} cannot be read as a {suffix} file: {error}") from None


def _from_text(path: Path, separator: str, where: str, kinds: Sequence[str]) -> FactorTable:
    header, rows = _cells(path, separator, where)
    by_file = file_column(header, where)
    columns = {}
    files = None
    for i, name in enumerate(header):
        cells = [(line, row[i]) for line, row in rows]
        for line, cell in cells:
            if not cell:
                raise UntwineError(f"images: {where}: line {line} has nothing in column {_short(name)}")
        if name == by_file:
            files = tuple(cell for _, cell in cells)
        else:
            columns[name] = _column(cells, f"images: {where}: column {_short(name)}", f"{name}=categorical" in kinds)
    if not columns:
        raise UntwineError(f"images: {where} has no column but {header[0]!r}: it needs one for each factor")
    return FactorTable(where, tuple(columns), tuple(columns.values()), files)


def _cells(path: Path, separator: str, where: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and each row with its line number. Spaces around a cell are removed."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except UnicodeDecodeError as error:
        raise UntwineError(f"images: {where} is no text in UTF-8 ({error.reason}, byte {error.start})") from None
    except (OSError, csv.Error) as error:
        raise UntwineError(f"images: {where} cannot be read: {error}") from None
    if len(lines) < 2:
        raise UntwineError(
            f"images: {where} must have a line with the names of its columns, and a line for each picture"
        )
    (_, header), *rows = lines
    separators = ";\t," if len(header) == 1 else ";\t"  # one of several columns may be called "shape, in words"
    if other := next((mark for mark in separators if any(mark in name for name in header)), None):
        raise UntwineError(
            f"images: {where} seems to have its columns parted by {other!r}; a .csv file has commas, a .tsv file tabs"
        )
    if all(NUMBER.fullmatch(name) for name in header):
        raise UntwineError(f"images: {where} begins with numbers: its first line must have the names of the columns")
    for i, name in enumerate(header):
        if not name or name in header[:i]:
            what = f"is called {_short(name)}, as another one is" if name else "has no name"
            raise UntwineError(f"images: {where}: column {i + 1} {what}; the first line names all columns")
    for line, row in rows:
        if len(row) != len(header):
            raise UntwineError(
                f"images: {where}: line {line} has {len(row)} cells, and the first line names {len(header)} columns"
            )
    return header, rows


def _column(cells: list[tuple[int, str]], where: str, categorical: bool) -> np.ndarray:
    """Numbers if most cells are numbers, else texts.

    Missing values are refused, and so are texts among numbers, unless the column is `categorical`.
    """
    for line, cell in cells:
        if cell.lower() in MISSING:
            raise UntwineError(
                f"{where} has {cell!r} in line {line}, as if it were missing: remove the row and its picture, or choose"
                " another word, if it is a value like the others"
            )
    texts = [cell for _, cell in cells]
    if 2 * sum(bool(NUMBER.fullmatch(cell) or _NUMBER_LIKE.fullmatch(cell)) for cell in texts) <= len(texts):
        return np.array(texts)
    try:
        return _numbers(cells, where)
    except UntwineError as error:
        if categorical:
            return np.array(texts)
        raise UntwineError(f"{error}; correct it, or say by kinds that the column is categorical") from None


def _numbers(cells: list[tuple[int, str]], where: str) -> np.ndarray:
    """int64 if all cells are whole numbers, else float64. A whole number that would be rounded is refused."""
    integers = all(_WHOLE.fullmatch(cell) for _, cell in cells)
    numbers: list[int | float] = []
    for line, cell in cells:
        if not NUMBER.fullmatch(cell):
            raise UntwineError(f"{where} holds numbers, but in line {line} it has {_short(cell)}")
        number = _integer(cell) if _WHOLE.fullmatch(cell) else float(cell)
        if number is None or not (integers or number == float(number)):
            why = "64 bits do not hold" if number is None else "would be rounded among decimals"
            raise UntwineError(f"{where} has {_short(cell)} in line {line}, a whole number that {why}")
        if not math.isfinite(number):
            raise UntwineError(f"{where} has {_short(cell)} in line {line}, which is too large")
        numbers.append(number)
    return np.array(numbers, np.int64 if integers else np.float64)


def _integer(cell: str) -> int | None:
    """A whole number; None if it does not fit 64 bits. Python refuses to convert very long ones."""
    digits = cell.lstrip("+-").lstrip("0") or "0"
    number = int(f"-{digits}" if cell.startswith("-") else digits) if len(digits) < 20 else 2**63
    return number if -(2**63) <= number < 2**63 else None


def _short(cell: str) -> str:
    return repr(cell) if len(cell) <= 60 else f"{cell[:30]!r}... ({len(cell):,} characters)"
