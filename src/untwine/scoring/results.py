"""What a run's folder says of its members, without loading their weights."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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


def own_numbers(specs: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """The numbers of each spec that are not the same in all of them.

    >>> own_numbers([{"method": {"beta": 1.0}, "lr": 0.1}, {"method": {"beta": 4.0}, "lr": 0.1}])
    [{'method.beta': 1.0}, {'method.beta': 4.0}]
    """
    flat = [dict(_numbers(spec)) for spec in specs]
    keys = dict.fromkeys(key for numbers in flat for key in numbers)
    different = [key for key in keys if len({numbers.get(key) for numbers in flat}) > 1]
    return [{key: numbers[key] for key in different if key in numbers} for numbers in flat]


def _numbers(spec: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All floats of a spec, each with its path: `method.beta`."""
    items = spec.items() if isinstance(spec, dict) else enumerate(spec) if isinstance(spec, list) else ()
    for key, value in items:
        yield from _numbers(value, f"{path}.{key}" if path else str(key))
    if isinstance(spec, float):
        yield path, spec


def _last_terms(log: Path) -> dict[str, dict[str, float]]:
    """For each member and each term the last value that is a number: a member that diverged logs none."""
    last: dict[str, dict[str, float]] = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        with contextlib.suppress(ValueError):  # a line may be cut off
            for name, terms in json.loads(line)["members"].items():
                numbers = {key: value for key, value in terms.items() if key != "diverged" and value is not None}
                last.setdefault(name, {}).update(numbers)
    return last
