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
from untwine.locks import locked
from untwine.metrics import Score, statistics
from untwine.train import checkpoint

FORMAT = 1
FILE = "scores.json"


def read(path: Path) -> list[dict[str, Any]]:
    """The scores that a run's folder holds: none where nothing was scored yet."""
    file = path / FILE
    if not file.exists():
        return []
    try:
        content = json.loads(file.read_text())
        entries = content["scores"]
        if content["format"] == FORMAT and isinstance(entries, list) and all(map(_is_entry, entries)):
            return entries
    except OSError as error:
        raise UntwineError(f"{file} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise UntwineError(f"{file} cannot be used: it is damaged, or of another version; move it away to score anew")


def _is_entry(one: Any) -> bool:
    needed = {"metric": str, "label": str, "asked": dict, "settings": dict, "untwine": str, "members": dict}
    members = one["members"].values()
    return all(isinstance(one[key], kind) for key, kind in needed.items()) and all(
        {"id", "value", "own", "parts"} <= set(member) for member in members
    )


def write(path: Path, new: dict[str, Any]) -> None:
    """Add a score to those that are there. A metric that is asked for in the same way is one entry with all members."""
    with locked(path, ".scores.lock", patience=30):
        kept = {key(entry): entry for entry in read(path)}
        old = kept.get(key(new))
        if old is not None and (old["settings"], old["untwine"]) == (new["settings"], new["untwine"]):
            new = {**new, "members": old["members"] | new["members"]}
        checkpoint.write_json(path / FILE, {"format": FORMAT, "scores": list((kept | {key(new): new}).values())})


def key(entry: Mapping[str, Any]) -> str:
    """What tells one request from another."""
    return json.dumps([entry["metric"], entry["asked"]], sort_keys=True)


def holds(entry: Mapping[str, Any] | None, members: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether an entry is of this version, and has these members as they are now."""
    if entry is None or entry["untwine"] != __version__:
        return False
    return all(entry["members"].get(name, {}).get("id") == member["id"] for name, member in members.items())


def only(entry: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """An entry with these members, in this order."""
    return {**entry, "members": {name: entry["members"][name] for name in members}}


def entry(
    score: Score, label: str, asked: Mapping[str, Any], members: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A score as JSON. `members` has their ids and own numbers, in the order of the score's values."""
    parts = {name: np.atleast_1d(score.details[name]) for name in score.parts}
    values = {}
    for i, (name, member) in enumerate(members.items()):
        own = {part: _number(several[i]) for part, several in parts.items()}
        values[name] = {**member, "value": float(score.values[i]), "parts": own}
    settings = json.loads(json.dumps(score.settings))  # as it will be read: tuples are lists
    about = {"metric": score.metric, "label": label, "asked": dict(asked), "settings": settings, "untwine": __version__}
    return {**about, "members": values}


def _number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def columns(entry: Mapping[str, Any]) -> dict[str, list[tuple[str, float]]]:
    """The value and every part of an entry by name: members with their numbers, without those that are not defined."""
    members = entry["members"]
    found = {entry["label"]: [(name, member["value"]) for name, member in members.items()]}
    for part in next(iter(members.values()))["parts"]:
        found[f"{entry['label']} {part}"] = [(name, member["parts"][part]) for name, member in members.items()]
    return {name: kept for name, values in found.items() if (kept := [one for one in values if one[1] is not None])}


def summaries(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each score: its statistics over members. Those of other hyperparameters have rows of their own."""
    rows = []
    for one in entries:
        for name, values in columns(one).items():
            for own in _groups(one):
                group = [value for member, value in values if one["members"][member]["own"] == own]
                if group:
                    about = {"metric": name, "radius": one["settings"].get("radius"), "own": own}
                    rows.append(about | asdict(statistics.summary(group)))
    return rows


def _groups(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The different hyperparameters of an entry's members."""
    found: list[dict[str, Any]] = []
    for member in entry["members"].values():
        if member["own"] not in found:
            found.append(member["own"])
    return found


def comparisons(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Every score of every two runs, side by side; scores of different settings are not compared but said so."""
    rows = []
    for (first, ours), (second, theirs) in combinations(runs.items(), 2):
        for one in ours:
            about = {"metric": one["label"], "radius": one["settings"].get("radius"), "first": first, "second": second}
            other = next((o for o in theirs if (o["metric"], o["settings"]) == (one["metric"], one["settings"])), None)
            same = sorted(
                (o for o in theirs if o["label"] == one["label"]),
                key=lambda o: o["settings"].get("radius") != about["radius"],
            )
            mixed = [k for entry in (one, other) if entry for k in {key for own in _groups(entry)[1:] for key in own}]
            if other is None or mixed:
                why = differences(one["settings"], same[0]["settings"]) if same else ["it was not scored there"]
                if mixed:
                    why = [f"the models of a run differ in {', '.join(dict.fromkeys(mixed))}"]
                rows.append(about | {"not_comparable": why})
                continue
            left, right = columns(one), columns(other)
            for name in (name for name in left if name in right):
                a, b = ([value for _, value in several[name]] for several in (left, right))
                means = [float(np.mean(a)), float(np.mean(b))]
                rows.append(about | {"metric": name, "means": means} | asdict(statistics.compare(a, b)))
    return rows


def differences(first: Mapping[str, Any], second: Mapping[str, Any], where: str = "") -> list[str]:
    """In which settings two scores differ.

    >>> differences({"bins": 20, "data": {"seed": 0}}, {"bins": 20, "data": {"seed": 1}})
    ['data.seed: 0 and 1']
    """
    found = []
    for k in dict.fromkeys([*first, *second]):
        a, b = first.get(k), second.get(k)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{where}{k}.")
        elif a != b:
            found.append(f"{where}{k}: {a} and {b}")
    return found
