"""Rows of numbers: every measurement with the columns that say of what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from untwine.coercion import coerce

# {"method": "JL1-VAE", "rho": 0.1, "seed": 3, "measure": "local_mig", "value": 0.12}
Row = dict[str, Any]


class Rows(Sequence[Row]):
    """Measurements as rows, which are selected and grouped by their columns.

    A value is None where a score cannot be otherwise; such rows have a `reason`, and are left out of `values`.

    >>> rows = Rows([{"method": "vae", "seed": i, "measure": "mig", "value": 0.1 * i} for i in range(3)])
    >>> rows.where(method="vae", measure="mig").values
    [0.0, 0.1, 0.2]
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]):
        self._rows = [dict(row) for row in rows]

    def __getitem__(self, i: Any) -> Any:
        return self._rows[i]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Rows({self._rows!r})"

    def where(self, **columns: Any) -> Rows:
        """The rows that have all these values in their columns; a list allows any of its values.

        >>> len(Rows([{"beta": 1.0}, {"beta": 4.0}, {}]).where(beta=[1.0, 4.0]))
        2
        """
        return Rows(row for row in self._rows if all(_fits(row, key, value) for key, value in columns.items()))

    def by(self, *columns: str) -> dict[Any, Rows]:
        """Groups of rows that have these columns, by their values (a tuple if there are several), in their order.

        >>> {key: rows.values for key, rows in Rows([{"beta": 1.0, "value": 2.0}]).by("beta").items()}
        {1.0: [2.0]}
        """
        groups: dict[Any, list[Row]] = {}
        for row in self._rows:
            if all(column in row for column in columns):
                key = tuple(row[column] for column in columns)
                groups.setdefault(key[0] if len(columns) == 1 else key, []).append(row)
        return {key: Rows(group) for key, group in groups.items()}

    def reduced(self, function: Callable[[list[float]], float], *keep: str) -> Rows:
        """One row for each group that shares the columns to keep, with a function of the group's values.

        Args:
            function: From values to a number, such as `max` over a sweep.
            keep: The columns by which rows are grouped.

        >>> Rows([{"seed": 0, "value": 1.0}, {"seed": 0, "value": 3.0}]).reduced(max, "seed").values
        [3.0]
        """
        groups = {key: rows.values for key, rows in self.by(*keep).items()}
        keys = {key: (key,) if len(keep) == 1 else key for key in groups}
        return Rows(
            dict(zip(keep, keys[key], strict=True)) | {"value": function(values)}
            for key, values in groups.items()
            if values
        )

    @property
    def values(self) -> list[float]:
        """The numbers, without those that cannot be otherwise."""
        return [row["value"] for row in self._rows if row.get("value") is not None]


def checked_rows(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows whose values are finite numbers, or None; others are refused.

    >>> checked_rows([{"measure": "mig", "value": float("nan")}])
    Traceback (most recent call last):
    untwine.errors.UntwineError: a value of 'mig' must be finite, not nan
    """
    known = [dict(row) for row in rows]
    for row in known:
        if "value" in row:
            row["value"] = coerce(row["value"], float | None, f"a value of {row.get('measure', '')!r}")
    return known


def _fits(row: Row, key: str, value: Any) -> bool:
    return key in row and (row[key] in value if isinstance(value, list | tuple) else row[key] == value)
