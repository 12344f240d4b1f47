"""A run's `scores.json`: what was asked, under which settings, and a value for each member."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from untwine._version import __version__
from untwine.errors import UntwineError
from untwine.metrics import Score, statistics
from untwine.train import checkpoint, folder

FORMAT = 1
FILE = "scores.json"


def read(path: Path) -> list[dict[str, Any]]:
    """The scores that a run's folder holds: none where nothing was scored yet."""
    file = path / FILE
    if not file.exists():
        return []
    try:
        content = json.loads(file.read_text())
        needed = {"metric", "asked", "settings", "members"}
        if content["format"] == FORMAT and all(needed <= set(one) for one in content["scores"]):
            return content["scores"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UntwineError(f"{file} cannot be read: it is damaged, or of another version; move it away to score anew")


def write(path: Path, new: dict[str, Any]) -> None:
    """Add a score to those that are there. A metric that is asked for in the same way is one entry with all members."""
    with folder.locked(path, ".scores.lock"):
        kept = {key(entry): entry for entry in read(path)}
        old = kept.get(key(new))
        if old is not None and old["settings"] == new["settings"]:
            new = {**new, "members": old["members"] | new["members"]}
        checkpoint.write_json(path / FILE, {"format": FORMAT, "scores": list((kept | {key(new): new}).values())})


def key(entry: Mapping[str, Any]) -> str:
    """What tells one request from another."""
    return json.dumps([entry["metric"], entry["asked"]], sort_keys=True)


def entry(score: Score, asked: Mapping[str, Any], members: Mapping[str, str]) -> dict[str, Any]:
    """A score as JSON. `members` maps names to ids, in the order of the score's values."""
    parts = {name: np.atleast_1d(score.details[name]) for name in score.parts}
    values = {}
    for i, (name, identity) in enumerate(members.items()):
        own = {part: _number(several[i]) for part, several in parts.items()}
        values[name] = {"id": identity, "value": _number(score.values[i]), **({"parts": own} if own else {})}
    settings = json.loads(json.dumps(score.settings))  # as it will be read: tuples are lists
    return {
        "metric": score.metric,
        "asked": dict(asked),
        "settings": settings,
        "untwine": __version__,
        "members": values,
    }


def _number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def columns(entry: Mapping[str, Any]) -> dict[str, list[float]]:
    """The value and every part of an entry by name, over its members; values that are not defined are left out."""
    found = {entry["metric"]: [member["value"] for member in entry["members"].values()]}
    for name in next(iter(entry["members"].values())).get("parts", {}):
        found[f"{entry['metric']} {name}"] = [member["parts"][name] for member in entry["members"].values()]
    return {name: kept for name, values in found.items() if (kept := [one for one in values if one is not None])}


def summaries(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each score: its name, where it is local its radius, and its statistics over members."""
    rows = []
    for one in entries:
        for name, values in columns(one).items():
            row = {"metric": name, "radius": one["settings"].get("radius"), **asdict(statistics.summary(values))}
            rows.append({**row, "lowest": min(values), "highest": max(values)})
    return rows


def comparisons(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Every score of every two runs, side by side; scores of different settings are not compared but said so."""
    rows = []
    for (first, ours), (second, theirs) in combinations(runs.items(), 2):
        for one in ours:
            about = {"metric": one["metric"], "radius": one["settings"].get("radius"), "first": first, "second": second}
            same = [o for o in theirs if (o["metric"], o["settings"].get("radius")) == (one["metric"], about["radius"])]
            other = next((o for o in same if o["settings"] == one["settings"]), None)
            if other is None:
                why = differences(one["settings"], same[0]["settings"]) if same else ["it was not scored there"]
                rows.append(about | {"not_comparable": why})
                continue
            left, right = columns(one), columns(other)
            for name in (name for name in left if name in right):
                found = asdict(statistics.compare(left[name], right[name]))
                means = [float(np.mean(left[name])), float(np.mean(right[name]))]
                rows.append(about | {"metric": name, "means": means} | found)
    return rows


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """In which settings two scores differ.

    >>> differences({"bins": 20, "seed": 0}, {"bins": 5, "seed": 0})
    ['bins: 20 and 5']
    """
    keys = dict.fromkeys([*first, *second])
    return [f"{k}: {first.get(k)} and {second.get(k)}" for k in keys if first.get(k) != second.get(k)]
