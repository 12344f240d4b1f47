"""What a run's folder says of its members, without loading their weights."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from untwine.differences import own_numbers
from untwine.train.record import Record

_SHOWN = ("id", "seed", "data_seed", "state", "steps", "file")


def members(path: str | Path) -> dict[str, dict[str, Any]]:
    """Each member's state, its own numbers (those in which members differ) and its last logged terms, by name.

    A folder without a run has no members.
    """
    path = Path(path)
    if not (path / "run.json").exists():
        return {}
    last = _last_terms(path / "log.jsonl")
    entries = Record.read(path).entries
    numbers = own_numbers([entry["spec"] for entry in entries])
    return {
        entry["name"]: {
            **{key: entry[key] for key in _SHOWN if key in entry},
            "own": own,
            "terms": last.get(entry["name"], {}),
        }
        for entry, own in zip(entries, numbers, strict=True)
    }


def _last_terms(log: Path) -> dict[str, dict[str, float]]:
    """For each member and each term the last value that is a number: a member that diverged logs none."""
    last: dict[str, dict[str, float]] = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        with contextlib.suppress(ValueError):  # a line may be cut off
            for name, terms in json.loads(line)["members"].items():
                numbers = {key: value for key, value in terms.items() if key != "diverged" and value is not None}
                last.setdefault(name, {}).update(numbers)
    return last
