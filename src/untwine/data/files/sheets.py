"""Reading a table of factors: an array, a .npy file, or a .csv or .tsv file whose first line names the columns."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from untwine.data.files.labels import FactorTable
from untwine.errors import UntwineError

FILE = ("file", "filename", "image", "path")  # names of the column that says which picture a row is about
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+")
# What somebody may have meant as a number: 1,5 or 1_000 or 10% or -inf.
_NEARLY = re.compile(r"[+-]?(\d[\d,_]*(\.\d*)?([eE][+-]?\d+)?\s?%?|inf(inity)?)", re.IGNORECASE)
_MISSING = {"nan", "na", "n/a", "#n/a", "null", "none", "nil", "-", "?"}


def factor_table(factors: str | os.PathLike[str] | np.ndarray, kinds: Sequence[str] = ()) -> FactorTable:
    """The table in an array of whole numbers, or in a .npy, .csv or .tsv file.

    `kinds` are those of `FactorTable.numbered`: a column that is said to be categorical may mix numbers with texts.
    """
    if isinstance(factors, np.ndarray):
        return _of_array(factors, "the table of factors")
    path = Path(factors).expanduser()
    where = f"the table of factors {path}"
    if not path.is_file():
        raise UntwineError(f"images: there is no {path}, which should be the table of factors")
    if path.suffix.lower() in _SEPARATORS:
        return _of_text(path, _SEPARATORS[path.suffix.lower()], where, kinds)
    if path.suffix.lower() != ".npy":
        raise UntwineError(f"images: {where} must be a .csv, .tsv or .npy file")
    try:
        return _of_array(np.load(path, allow_pickle=False), where)
    except (ValueError, OSError, EOFError) as error:
        raise UntwineError(f"images: {where} cannot be read as a .npy file: {error}") from None


def _of_array(array: Any, where: str) -> FactorTable:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "bui":
        raise UntwineError(f"images: {where} must hold whole numbers, the index of each value")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.size:
        raise UntwineError(f"images: {where} has shape {list(array.shape)}; it must be [n, k], a row for each example")
    return FactorTable(where, tuple(f"factor{i}" for i in range(array.shape[1])), tuple(array.T))


def _of_text(path: Path, separator: str, where: str, kinds: Sequence[str]) -> FactorTable:
    header, rows = _cells(path, separator, where)
    by_file = [name for name in header if name.lower() in FILE]
    if len(by_file) > 1:
        raise UntwineError(
            f"images: {where}: which column names the picture, {' or '.join(by_file)}? Rename or remove the others"
        )
    columns, files = {}, None
    for i, name in enumerate(header):
        cells = [(line, row[i]) for line, row in rows]
        for line, cell in cells:
            if not cell:
                raise UntwineError(f"images: {where}: line {line} has nothing in column {_short(name)}")
        if name in by_file:
            files = tuple(cell for _, cell in cells)
        else:
            columns[name] = _column(cells, f"images: {where}: column {_short(name)}", f"{name}=categorical" in kinds)
    if not columns:
        raise UntwineError(f"images: {where} has no column but {header[0]!r}: it needs one for each factor")
    return FactorTable(where, tuple(columns), tuple(columns.values()), files)


def _cells(path: Path, separator: str, where: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and the rows with the numbers of their lines; spaces around a cell do not count."""
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
    marks = ";\t," if len(header) == 1 else ";\t"  # of several columns one may well be called "shape, in words"
    if other := next((mark for mark in marks if any(mark in name for name in header)), None):
        raise UntwineError(
            f"images: {where} seems to have its columns parted by {other!r}; a .csv file has commas, a .tsv file tabs"
        )
    if all(_NUMBER.fullmatch(name) for name in header):
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
    """Numbers if most cells are, else texts. A gap is refused, and among numbers what is none, unless `categorical`."""
    for line, cell in cells:
        if cell.lower() in _MISSING:
            raise UntwineError(
                f"{where} has {cell!r} in line {line}, as if it were missing: remove the row and its picture, or choose"
                " another word, if it is a value like the others"
            )
    texts = [cell for _, cell in cells]
    if 2 * sum(bool(_NUMBER.fullmatch(cell) or _NEARLY.fullmatch(cell)) for cell in texts) <= len(texts):
        return np.array(texts)
    try:
        return _numbers(cells, where)
    except UntwineError as error:
        if categorical:
            return np.array(texts)
        raise UntwineError(f"{error}; correct it, or say by kinds that the column is categorical") from None


def _numbers(cells: list[tuple[int, str]], where: str) -> np.ndarray:
    """Whole numbers if all are, else decimals. A whole number that would be rounded is refused."""
    whole = all(_WHOLE.fullmatch(cell) for _, cell in cells)
    numbers: list[int | float] = []
    for line, cell in cells:
        if not _NUMBER.fullmatch(cell):
            raise UntwineError(f"{where} holds numbers, but in line {line} it has {_short(cell)}")
        number = _integer(cell) if _WHOLE.fullmatch(cell) else float(cell)
        if number is None or not (whole or number == float(number)):
            why = "64 bits do not hold" if number is None else "would be rounded among decimals"
            raise UntwineError(f"{where} has {_short(cell)} in line {line}, a whole number that {why}")
        if not math.isfinite(number):
            raise UntwineError(f"{where} has {_short(cell)} in line {line}, which is too large")
        numbers.append(number)
    return np.array(numbers, np.int64 if whole else np.float64)


def _integer(cell: str) -> int | None:
    """A whole number, if it has 64 bits or fewer; of very long ones Python would not read the digits."""
    digits = cell.lstrip("+-").lstrip("0") or "0"
    number = int(f"-{digits}" if cell.startswith("-") else digits) if len(digits) < 20 else 2**63
    return number if -(2**63) <= number < 2**63 else None


def _short(cell: str) -> str:
    return repr(cell) if len(cell) <= 60 else f"{cell[:30]!r}... ({len(cell):,} characters)"
