"""The scores of a run's members, for people and for tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, overload

import numpy as np

from untwine import files
from untwine.cards import card
from untwine.differences import listed
from untwine.errors import UntwineError, unknown
from untwine.metrics import Score, statistics
from untwine.metrics.forced import VALUE
from untwine.metrics.score import bounds_of
from untwine.scores import names, tables
from untwine.scores.columns import Column, columns, hyperparameters, notes

_NOTHING = dict.fromkeys(field.name for field in fields(statistics.Summary)) | {"count": 0}


class Scores(Mapping[str, Score]):
    """The scores of a run's members: a mapping from labels to a `Score` with a value for each member.

    A label is the request with its radius and whatever differs from the defaults: `local-mig(rho=0.1)`,
    `dci(estimator=lasso, points=1000)`. What tells no score from another may be left out: `scores["local_mig"]`.
    Underscores stand for hyphens. Of the details of a metric a score has its parts.

    A value that cannot be otherwise (with a single factor, say) is not among the numbers of tables and summaries; the
    reason stands in its place.

    >>> member = {"id": "1a", "own": {}, "parts": {}}
    >>> members = {f"seed-{i}": member | {"value": value} for i, value in enumerate((0.25, 0.75))}
    >>> settings = {"bins": 20, "samples": 500}
    >>> scores = Scores([{"metric": "mig", "label": "mig(points=500)", "settings": settings, "members": members}])
    >>> scores
    Scores(2 members: mig(points=500) 0.25 to 0.75)
    >>> scores["mig"].values.tolist(), scores.summary()[0]["mean"]
    ([0.25, 0.75], 0.5)
    >>> print(scores.to_csv())
    metric,radius,windows,samples,member,value,reason,settings
    mig(points=500),,,500,seed-0,0.25,,"{""bins"": 20, ""samples"": 500}"
    mig(points=500),,,500,seed-1,0.75,,"{""bins"": 20, ""samples"": 500}"
    """

    def __init__(self, entries: Sequence[Mapping[str, Any]]):
        self.entries = [dict(entry) for entry in entries]  # as in scores.json

    def __getitem__(self, name: str) -> Score:
        matches = names.matching(name, self.entries)
        if len(matches) == 1:
            return _score(matches[0])
        if matches:
            several = ", ".join(entry["label"] for entry in matches)
            raise UntwineError(f"several scores are called {name!r}: {several}")
        raise unknown("score", name, {names.arguments(label)[0] for label in self} | set(self))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and len(names.matching(name, self.entries)) == 1

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - this is `get`

    def __iter__(self) -> Iterator[str]:
        return iter([entry["label"] for entry in self.entries])

    def __len__(self) -> int:
        return len(self.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scores) and _bare(self.entries) == _bare(other.entries)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        count = len(self.entries[0]["members"]) if self.entries else 0
        rows = [row for row in self.summary() if row["part"] == VALUE]
        shown = [f"{names.of_row(row)} {_spread(row)}" for row in rows]
        more = [f"and {len(shown) - 5} more"] if len(shown) > 5 else []
        return f"Scores({count} member{'s' * (count != 1)}: {listed(shown[:5] + more) or 'none'})"

    def _repr_html_(self) -> str:
        """The summary, for notebooks."""
        rows, columns = self.summary(), ["metric", "models", "value"]
        cells = [[label, str(row["count"]), _spread(row)] for label, row in zip(names.short(rows), rows, strict=True)]
        if any(row["notes"] for row in rows):
            columns.append("notes")
            cells = [[*cell, "; ".join(row["notes"])] for cell, row in zip(cells, rows, strict=True)]
        return card("Scores: mean ± 2 standard errors, or the range of two models", columns, cells)

    def collapsed(self) -> list[str]:
        """The names of members that have no active latent: their decoders can hardly use their codes."""
        members = [pair for entry in self.entries for pair in entry["members"].items()]
        return list(dict.fromkeys(name for name, member in members if member.get("active_latents") == 0))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each member of each metric and part: its value, its own hyperparameters, and the settings.

        The value is None where it cannot be otherwise; `reason` says why.
        """
        rows = []
        for entry in self.entries:
            for column in columns(entry):
                for member, value, reason in column.members:
                    numbers = {"member": member, "value": value, "reason": reason, **entry["members"][member]["own"]}
                    rows.append(_about(entry, column) | numbers | {"settings": entry["settings"]})
        return rows

    def summary(self) -> list[dict[str, Any]]:
        """A row for each metric and part: the mean over members, their range, its standard error and 95% intervals.

        Members of different hyperparameters are summarised apart; `own` has those in which they differ. Members whose
        value cannot be otherwise are left out, which `notes` say; where none is left, the mean is None.
        """
        rows = []
        for entry in self.entries:
            for column in columns(entry):
                for own in hyperparameters(entry):
                    group = [one for one in column.members if entry["members"][one[0]]["own"] == own]
                    if not group:
                        continue
                    values = [value for _, value, _ in group if value is not None]
                    bounds = bounds_of(entry["metric"], column.part)
                    known = asdict(statistics.summary(values, bounds=bounds)) if values else _NOTHING
                    more = {"part": column.part, "own": own, "notes": notes(entry, column.part, group)}
                    rows.append(_about(entry, column) | more | known)
        return rows

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame; pandas must be installed."""
        return tables.to_frame(self.rows())

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: str | Path) -> None: ...
    def to_csv(self, path: str | Path | None = None) -> str | None:
        """The rows as comma-separated values, settings as JSON: a text, or a file if a path is given."""
        return _text_or_file(tables.to_csv(self.rows()), path)

    @overload
    def to_latex(self, path: None = None) -> str: ...
    @overload
    def to_latex(self, path: str | Path) -> None: ...
    def to_latex(self, path: str | Path | None = None) -> str | None:
        """The summary as a LaTeX table (booktabs): mean, twice its standard error, and Student's 95% interval.

        Two models have their range in place of an interval. It is a text, or a file if a path is given.
        """
        return _text_or_file(tables.to_latex(self.summary()), path)


def _text_or_file(text: str, path: str | Path | None) -> str | None:
    if path is None:
        return text
    files.write(Path(path), text.encode())
    return None


def _spread(row: Mapping[str, Any]) -> str:
    """The mean with twice its standard error, the range of two models, or a dash where no value is left."""
    if row["mean"] is None:
        return "-"
    low, high = row["range"]
    if row["count"] == 2 and low < high:
        return f"{low:.3g} to {high:.3g}"
    return f"{row['mean']:.3g}" + ("" if row["interval"] is None else f" ± {2 * row['standard_error']:.2g}")


def _about(entry: Mapping[str, Any], column: Column) -> dict[str, Any]:
    return {"metric": column.name, **{key: entry["settings"].get(key) for key in ("radius", "windows", "samples")}}


def _bare(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The entries without the checksums of weights: those of an ensemble in memory have none."""

    def bare(member: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in member.items() if key != "weights"}

    return [{**entry, "members": {name: bare(m) for name, m in entry["members"].items()}} for entry in entries]


def _score(entry: Mapping[str, Any]) -> Score:
    members = list(entry["members"].values())
    parts = {name: np.array([member["parts"][name] for member in members], float) for name in members[0]["parts"]}
    defined = {name: values if np.isfinite(values).all() else None for name, values in parts.items()}
    values = np.array([member["value"] for member in members], np.float64)
    reasons = {part: tuple(member.get("forced", {}).get(part) for member in members) for part in (VALUE, *parts)}
    forced = {part: of_members for part, of_members in reasons.items() if any(of_members)}
    return Score(entry["metric"], values, defined, dict(entry["settings"]), tuple(parts), forced)
