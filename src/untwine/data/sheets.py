"""Reading a table of factors: an array, a .npy file, or a .csv or .tsv file whose first line names the columns."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from untwine.data.labels import FactorTable
from untwine.errors import UntwineError

FILE = ("file", "filename", "image", "path")  # names of the column that says which picture a row is about
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MISSING = {"nan", "na", "n/a", "#n/a", "null", "none", "nil", "-", "?", "inf", "-inf", "+inf"}


def factor_table(factors: str | os.PathLike[str] | np.ndarray) -> FactorTable:
    """The table in an array of whole numbers, or in a .npy, .csv or .tsv file."""
    if isinstance(factors, np.ndarray):
        return _of_array(factors, "the table of factors")
    path = Path(factors).expanduser()
    where = f"the table of factors {path}"
    if not path.is_file():
        raise UntwineError(f"images: there is no {path}, which should be the table of factors")
    if path.suffix.lower() in _SEPARATORS:
        return _of_text(path, _SEPARATORS[path.suffix.lower()], where)
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


def _of_text(path: Path, separator: str, where: str) -> FactorTable:
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
                raise UntwineError(f"images: {where}: line {line} has nothing in column {name!r}")
        if name in by_file:
            files = tuple(cell for _, cell in cells)
        else:
            columns[name] = _column(cells, f"images: {where}: column {name!r}")
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
    if len(header) == 1 and (other := next((mark for mark in ";\t," if mark in header[0]), None)):
        raise UntwineError(
            f"images: {where} seems to have its columns parted by {other!r}; a .csv file has commas, a .tsv file tabs"
        )
    if all(_NUMBER.fullmatch(name) for name in header):
        raise UntwineError(f"images: {where} begins with numbers: its first line must have the names of the columns")
    for i, name in enumerate(header):
        if not name or name in header[:i]:
            what = f"is called {name!r}, as another one is" if name else "has no name"
            raise UntwineError(f"images: {where}: column {i + 1} {what}; the first line names all columns")
    for line, row in rows:
        if len(row) != len(header):
            raise UntwineError(
                f"images: {where}: line {line} has {len(row)} cells, and the first line names {len(header)} columns"
            )
    return header, rows


def _column(cells: list[tuple[int, str]], where: str) -> np.ndarray:
    """Whole numbers or decimals if all cells are numbers, else texts."""
    others = [(line, cell) for line, cell in cells if not _NUMBER.fullmatch(cell)]
    if others and (len(others) == len(cells) or not all(cell.lower() in _MISSING for _, cell in others)):
        return np.array([cell for _, cell in cells])
    if others:
        raise UntwineError(f"{where} holds numbers, but in line {others[0][0]} it has {others[0][1]!r}")
    try:
        return np.array([int(cell) for _, cell in cells], np.int64)
    except (ValueError, OverflowError):  # decimals, or more digits than 64 bits hold
        numbers = np.array([float(cell) for _, cell in cells])
    if not np.isfinite(numbers).all():
        line, cell = cells[int(np.flatnonzero(~np.isfinite(numbers))[0])]
        raise UntwineError(f"{where} has {cell} in line {line}, which is too large")
    return numbers
