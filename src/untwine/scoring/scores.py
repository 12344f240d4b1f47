"""The scores of a run's members, for people and for tables."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from untwine import files
from untwine.errors import UntwineError, unknown
from untwine.metrics import Score, statistics

_COLUMNS = ("metric", "radius", "member", "value")


class Scores(Mapping[str, Score]):
    """The scores of a run's members: a mapping from what was asked for to a `Score` with a value for each member.

    Names are as in the request: `scores["mig"]`, `scores["dci(estimator=lasso)"]`; underscores stand for hyphens. What
    was scored at several radii has them in its names: `scores["local-mig, radius 0.1"]`. Of the details of a metric a
    score has its parts.

    >>> member = {"id": "1a", "own": {}, "parts": {}}
    >>> members = {f"seed-{i}": member | {"value": value} for i, value in enumerate((0.25, 0.75))}
    >>> scores = Scores([{"metric": "mig", "label": "mig", "settings": {"bins": 20}, "members": members}])
    >>> scores
    Scores(2 members: mig 0.5 ± 0.5)
    >>> scores["mig"].values.tolist(), scores.summary()[0]["mean"]
    ([0.25, 0.75], 0.5)
    >>> print(scores.to_csv())
    metric,radius,member,value,settings
    mig,,seed-0,0.25,"{""bins"": 20}"
    mig,,seed-1,0.75,"{""bins"": 20}"
    """

    def __init__(self, entries: Sequence[Mapping[str, Any]]):
        self.entries = [dict(entry) for entry in entries]  # as in scores.json
        labels = Counter(entry["label"] for entry in self.entries)
        self._names = [_name(entry, labels[entry["label"]] > 1) for entry in self.entries]

    def __getitem__(self, name: str) -> Score:
        names = [_plain(known) for known in self._names]
        if _plain(name) not in names:
            raise unknown("score", name, self._names)
        return _score(self.entries[names.index(_plain(name))])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _plain(name) in map(_plain, self._names)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - this is `get`

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scores) and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        count = len(self.entries[0]["members"]) if self.entries else 0
        shown = [f"{name} {_mean(_score(entry))}" for name, entry in zip(self._names, self.entries, strict=True)]
        more = [f"and {len(shown) - 5} more"] if len(shown) > 5 else []
        return f"Scores({count} member{'s' * (count != 1)}: {', '.join(shown[:5] + more) or 'none'})"

    def rows(self) -> list[dict[str, Any]]:
        """A row for each member of each metric and part: its value, its own hyperparameters, and the settings."""
        rows = []
        for entry in self.entries:
            for name, values in columns(entry).items():
                about = {"metric": name, "radius": entry["settings"].get("radius")}
                for member, value in values:
                    own = entry["members"][member]["own"]
                    rows.append({**about, "member": member, "value": value, **own, "settings": entry["settings"]})
        return rows

    def summary(self) -> list[dict[str, Any]]:
        """A row for each metric and part: the mean over members, its standard error and 95% intervals.

        Members of different hyperparameters are summarised apart; `own` has those in which they differ.
        """
        rows = []
        for entry in self.entries:
            for name, values in columns(entry).items():
                for own in hyperparameters(entry):
                    group = [value for member, value in values if entry["members"][member]["own"] == own]
                    if group:
                        about = {"metric": name, "radius": entry["settings"].get("radius"), "own": own}
                        rows.append(about | asdict(statistics.summary(group)))
        return rows

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame; pandas must be installed."""
        try:
            import pandas
        except ImportError:
            raise UntwineError("to_frame() needs pandas: pip install pandas; to_csv() does without") from None
        return pandas.DataFrame(self.rows())

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """The rows as comma-separated values, settings as JSON: a text, or a file if a path is given."""
        rows = self.rows()
        own = dict.fromkeys(key for row in rows for key in row if key not in (*_COLUMNS, "settings"))
        text = io.StringIO()
        writer = csv.DictWriter(text, [*_COLUMNS, *own, "settings"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "settings": json.dumps(row["settings"])} for row in rows)
        if path is None:
            return text.getvalue()
        files.write(Path(path), text.getvalue().encode())
        return None

    def to_latex(self) -> str:
        """The summary as a LaTeX table (booktabs): mean, twice its standard error, and Student's 95% interval."""
        lines = [r"\begin{tabular}{lrrr}", r"\toprule", r"metric & models & mean & 95\% interval \\", r"\midrule"]
        for row in self.summary():
            error, interval = row["standard_error"], row["interval"]
            mean = f"{row['mean']:.3f}" if error is None else rf"{row['mean']:.3f} $\pm$ {2 * error:.3f}"
            ends = "--" if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"
            lines.append(rf"{_escaped(row_name(row))} & {row['count']} & {mean} & {ends} \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def columns(entry: Mapping[str, Any]) -> dict[str, list[tuple[str, float]]]:
    """The value and every part of an entry by name: members with their numbers, without those that are undefined."""
    members = entry["members"]
    numbers = {entry["label"]: [(name, member["value"]) for name, member in members.items()]}
    for part in next(iter(members.values()))["parts"]:
        numbers[f"{entry['label']} {part}"] = [(name, member["parts"][part]) for name, member in members.items()]
    defined = {name: [pair for pair in pairs if pair[1] is not None] for name, pairs in numbers.items()}
    return {name: pairs for name, pairs in defined.items() if pairs}


def hyperparameters(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The different hyperparameters of an entry's members."""
    different: list[dict[str, Any]] = []
    for member in entry["members"].values():
        if member["own"] not in different:
            different.append(member["own"])
    return different


def row_name(row: Mapping[str, Any]) -> str:
    """The metric of a row with its radius and the hyperparameters of its members.

    >>> row_name({"metric": "local_mig", "radius": 0.1, "own": {"method.beta": 4.0}})
    'local-mig, radius 0.1, beta 4'
    """
    radius = "" if row["radius"] is None else f", radius {row['radius']:g}"
    own = "".join(f", {key.rpartition('.')[2]} {value:g}" for key, value in row.get("own", {}).items())
    return _plain(row["metric"]) + radius + own


def _name(entry: Mapping[str, Any], several: bool) -> str:
    radius = entry["settings"].get("radius")
    return f"{entry['label']}, radius {radius:g}" if several and radius is not None else entry["label"]


def _plain(name: str) -> str:
    return name.replace("_", "-")


def _score(entry: Mapping[str, Any]) -> Score:
    members = list(entry["members"].values())
    parts = {name: np.array([member["parts"][name] for member in members], float) for name in members[0]["parts"]}
    defined = {name: values if np.isfinite(values).all() else None for name, values in parts.items()}
    values = np.array([member["value"] for member in members], np.float64)
    return Score(entry["metric"], values, defined, dict(entry["settings"]), tuple(parts))


def _mean(score: Score) -> str:
    known = score.summary()
    return f"{known.mean:.3g}" + ("" if known.standard_error is None else f" ± {2 * known.standard_error:.2g}")


def _escaped(text: str) -> str:
    for character in r"&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text
