"""Tables of factors in Python: arrays, lists of rows, columns by name, and data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from untwine.data.files.columns import Categories
from untwine.data.files.factor_table import FILE_COLUMNS, FactorTable
from untwine.errors import UntwineError

MISSING = {"nan", "na", "n/a", "#n/a", "null", "none", "nil", "-", "?"}  # words for a missing value, in lower case
_PICTURES = ("images", "imgs")  # arrays of an .npz file that hold pictures


@runtime_checkable
class DataFrame(Protocol):
    """A data frame of pandas, or of a library like it: `frame.columns` has names, `frame[name]` is a column."""

    columns: Any

    def __getitem__(self, name: Any, /) -> Any: ...


# An array, rows, columns by name, or a data frame.
Columns = np.ndarray | list | tuple | Mapping[str, Any] | DataFrame


def from_columns(factors: Columns, where: str, kinds: Sequence[str] = ()) -> FactorTable:
    """The table of factors in an array `[n, k]`, a list of rows, a mapping of names to columns, or a data frame.

    Args:
        factors: The table. Columns without a name are called factor0, factor1, ...
        where: What error messages call it.
        kinds: As for `FactorTable.numbered`. A column with `name=categorical` may mix numbers and texts.

    >>> table = from_columns([["car", 10], ["duck", 20]], "the table")
    >>> table.names, table.columns[1].tolist()
    (('factor0', 'factor1'), [10, 20])
    """
    columns = {str(name): column for name, column in _by_name(factors, where).items()}
    by_file = file_column(list(columns), where)
    arrays, categories, files = {}, {}, None
    for name, column in columns.items():
        what = f"images: {where}: column {name!r}"
        if name == by_file:
            files = tuple(map(str, _texts(_array(column, what), what).tolist()))
        elif (known := _categories(column, what)) is not None:
            arrays[name], categories[name] = known
        else:
            arrays[name] = _values(_array(column, what), what, f"{name}=categorical" in kinds)
    lengths = {name: len(array) for name, array in arrays.items()} | ({} if files is None else {by_file: len(files)})
    if len(set(lengths.values())) > 1:
        raise UntwineError(f"images: {where} has columns of different lengths: {lengths}")
    if not arrays or not min(lengths.values()):
        raise UntwineError(f"images: {where} is empty; it needs a row for each example and a column for each factor")
    return FactorTable(where, tuple(arrays), tuple(arrays.values()), files, categories)


def file_column(names: Sequence[str], where: str) -> str | None:
    """The name of the column that says which picture a row describes; None if there is none.

    Args:
        names: The names of all columns.
        where: What error messages call the table.
    """
    found = [name for name in names if name.lower() in FILE_COLUMNS]
    if len(found) > 1:
        raise UntwineError(
            f"images: {where}: which column names the picture, {' or '.join(found)}? Rename or remove the others"
        )
    return found[0] if found else None


def wanted(names: Sequence[str]) -> list[str]:
    """The arrays of an .npz file that are, or may be, its table of factors."""
    return ["factors"] if "factors" in names else [name for name in names if name not in _PICTURES]


def in_archive(columns: Mapping[str, np.ndarray], where: str) -> Columns:
    """The table of factors in an .npz file: its array "factors", or else its arrays [n], which are columns by name."""
    if "factors" in columns:
        return columns["factors"]
    if not columns or any(column.ndim != 1 for column in columns.values()):
        shapes = {name: list(column.shape) for name, column in columns.items()}
        raise UntwineError(
            f"images: {where} needs an array 'factors' [n, k], or only arrays [n], which are columns; it has {shapes}"
        )
    return columns


# --- columns ----------------------------------------------------------------------------------------


def _by_name(factors: Columns, where: str) -> Mapping[Any, Any]:
    """The columns by name."""
    if isinstance(factors, Mapping):
        return factors
    if isinstance(factors, DataFrame):
        names = list(factors.columns)
        return {name if isinstance(name, str) else f"factor{name}": factors[name] for name in names}
    if isinstance(factors, np.ndarray):
        table = factors[:, None] if factors.ndim == 1 else factors
        if table.ndim != 2 or not table.size:
            shape = list(factors.shape)
            raise UntwineError(f"images: {where} has shape {shape}; it must be [n, k], a row for each example")
        return {f"factor{i}": column for i, column in enumerate(table.T)}
    rows = [row if isinstance(row, list | tuple | np.ndarray) else [row] for row in factors]
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise UntwineError(f"images: {where} has rows of {widths[0]} and of {widths[-1]} values")
    return {f"factor{i}": list(column) for i, column in enumerate(zip(*rows, strict=True))}


def _categories(column: Any, what: str) -> tuple[Shaped[np.ndarray, " n"], Categories] | None:
    """The positions of a column's values among its categories, and these; None if it has no categories."""
    known = getattr(getattr(column, "dtype", None), "categories", None)
    if known is None or not hasattr(column, "cat"):
        return None
    positions = np.asarray(column.cat.codes, np.int64)
    if (positions < 0).any():
        raise _missing(what, int(np.argmin(positions)), "no category")
    values = _values(_array(known, what), what, categorical=True)
    return positions, Categories(tuple(values.tolist()), bool(getattr(column.dtype, "ordered", False)))


def _array(column: Any, what: str) -> Shaped[np.ndarray, " n"]:
    """A column as an array. NumPy would make texts of numbers beside texts, so lists become arrays of objects."""
    if hasattr(column, "to_numpy"):
        column = column.to_numpy()
    if isinstance(column, np.ndarray):
        array = column
    else:
        array = np.empty(len(column), object)
        array[:] = list(column)
    if array.ndim != 1:
        raise UntwineError(f"{what} has shape {list(array.shape)}; it must be [n], a value for each example")
    return array


def _values(array: Shaped[np.ndarray, " n"], what: str, categorical: bool) -> Shaped[np.ndarray, " n"]:
    """A column of numbers or texts; anything else is refused, and so are missing values."""
    if array.dtype.kind == "O":
        cells = array.tolist()
        texts = [isinstance(cell, str) for cell in cells]
        for row, (cell, text) in enumerate(zip(cells, texts, strict=True)):
            if not text and (not isinstance(cell, int | float | np.number | np.bool_) or cell != cell):
                raise _missing(what, row, repr(cell)[:60])
        if any(texts) and not all(texts) and not categorical:
            row = texts.index(not texts[0])
            raise UntwineError(
                f"{what} has {cells[0]!r:.60} in row 0 and {cells[row]!r:.60} in row {row}: make all of them numbers, "
                "or all texts, or say by kinds that the column is categorical"
            )
        array = np.array([str(cell) for cell in cells] if any(texts) else cells)
    if array.dtype.kind == "U":
        return _texts(array, what)
    if array.dtype.kind not in "buif":
        raise UntwineError(f"{what} holds {array.dtype}; values must be texts, or numbers of at most 64 bits")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        raise _missing(what, row, str(array[row]))
    return array


def _texts(array: Shaped[np.ndarray, " n"], what: str) -> Shaped[np.ndarray, " n"]:
    """The texts of a column without spaces around them."""
    texts = np.array([str(cell).strip() for cell in array.tolist()])
    for row, text in enumerate(texts.tolist()):
        if not text or text.lower() in MISSING:
            raise UntwineError(
                f"{_missing(what, row, repr(text))}; or choose another word, if it is a value like others"
            )
    return texts


def _missing(what: str, row: int, cell: str) -> UntwineError:
    return UntwineError(
        f"{what} has {cell} in row {row}, where it needs a text or a finite number: remove the row and its picture"
    )
