"""The table of a sweep: a row for each member, and a summary with a row for each combination of settings."""

from __future__ import annotations

import csv
import dataclasses
import functools
import importlib.util
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untwine import files
from untwine.metrics import statistics

_ABOUT = ("seed", "data_seed", "id", "state", "folder", "member")  # columns that are neither settings nor numbers


@dataclass(frozen=True)
class SweepTable:
    """A row for each member of each run.

    Args:
        settings: The columns in which runs differ.
        rows: For each member its settings, seed, id and state; where it is finished, its folder, its name there, its
            last loss and its scores.
        problems: What went wrong, in one line each.
        notes: What training and scoring warned of.
    """

    settings: Sequence[str]
    rows: Sequence[dict[str, Any]]
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()

    @functools.cached_property
    def columns(self) -> list[str]:
        """All columns, in their order."""
        return list(dict.fromkeys(key for row in self.rows for key in row))

    @functools.cached_property
    def numbers(self) -> list[str]:
        """The columns of the loss and of scores."""
        return [column for column in self.columns if column not in (*self.settings, *_ABOUT)]

    def counts(self) -> dict[str, int]:
        """How many members are in each state."""
        states = list({row["id"]: row["state"] for row in self.rows}.values())
        return {state: states.count(state) for state in sorted(set(states))}

    def summary(self) -> list[dict[str, Any]]:
        """A row for each combination of settings: its members, those that are done, and the mean of each number.

        Each number is a mapping with count, mean, standard error and 95% interval; None where nobody has it.
        """
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in self.rows:
            groups.setdefault(json.dumps([row.get(key) for key in self.settings], default=str), []).append(row)
        found = []
        for group in groups.values():
            line = {key: group[0].get(key) for key in self.settings}
            line |= {"members": len(group), "done": sum(row["state"] == "done" for row in group)}
            for column in self.numbers:
                values = [row[column] for row in group if row["state"] == "done" and row.get(column) is not None]
                line[column] = dataclasses.asdict(statistics.summary(values)) if values else None
            found.append(line)
        return found

    def to_csv(self) -> str:
        """The rows as comma-separated values; a setting that is a table or a list is JSON."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in self.rows)
        return text.getvalue()

    def to_json(self) -> dict[str, Any]:
        """The rows, the summary and the problems."""
        return {
            "rows": list(self.rows),
            "summary": self.summary(),
            "problems": list(self.problems),
            "notes": list(self.notes),
        }

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame; pandas must be installed."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=self.columns)

    def files(self, folder: Path) -> list[Path]:
        """The files of the table in a folder: .csv, .json, and .parquet where pyarrow is installed."""
        kinds = ["csv", "json", *(["parquet"] if importlib.util.find_spec("pyarrow") else [])]
        return [folder / f"table.{kind}" for kind in kinds]

    def write(self, folder: Path) -> None:
        """Write the files of the table; equal sweeps have equal ones, as nothing in them tells of times."""
        for file in self.files(folder):
            content = {".csv": self._csv, ".json": self._json, ".parquet": self._parquet}[file.suffix]()
            files.write(file, content)

    def _csv(self) -> bytes:
        return self.to_csv().encode()

    def _json(self) -> bytes:
        return (json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n").encode()

    def _parquet(self) -> bytes:
        import pyarrow  # type: ignore[import-not-found]
        from pyarrow import parquet  # type: ignore[import-not-found]

        columns = {key: [_cell(row.get(key)) for row in self.rows] for key in self.columns}
        for key, values in columns.items():
            given = [value for value in values if value is not None]
            large = any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in given)
            if large or len({type(value) for value in given}) > 1:  # a column has one type, and numbers of 64 bits
                kind = float if all(isinstance(value, int | float) for value in given) else str
                columns[key] = [None if value is None else kind(value) for value in values]
        buffer = io.BytesIO()
        parquet.write_table(pyarrow.table(columns), buffer)
        return buffer.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list | tuple) else value
