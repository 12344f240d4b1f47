"""What a run's folder says of its members, without loading their weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from untwine.differences import own_numbers
from untwine.train.folders.history import History
from untwine.train.folders.log import read_log
from untwine.train.folders.record import Record

_SHOWN = ("id", "seed", "data_seed", "state", "steps", "cause", "file")


def members(path: str | Path) -> dict[str, dict[str, Any]]:
    """Each member's state, its own numbers (those in which members differ) and its last logged terms, by name.

    A folder without a run has no members.
    """
    path = Path(path)
    if not (path / "run.json").exists():
        return {}
    record = Record.read(path)
    last, entries = _last_terms(read_log(path / "log.jsonl", record.content["packs"])), record.entries
    numbers = own_numbers([entry["spec"] for entry in entries])
    return {
        entry["name"]: {
            **{key: entry[key] for key in _SHOWN if key in entry},
            "own": own,
            "terms": last.get(entry["name"], {}),
        }
        for entry, own in zip(entries, numbers, strict=True)
    }


def _last_terms(history: History) -> dict[str, dict[str, float]]:
    """For each member and each term the last value that is a number: a member that diverged logs none."""
    last: dict[str, dict[str, float]] = {}
    for line in history:
        for name, terms in line["members"].items():
            numbers = {key: value for key, value in terms.items() if key != "diverged" and value is not None}
            last.setdefault(name, {}).update(numbers)
    return last
