"""What a run's folder says of its members, without loading their weights."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from untwine._version import __version__
from untwine.train import folder


def members(path: str | Path) -> dict[str, dict[str, Any]]:
    """Of each member, by name, its state, its own numbers (those in which members differ) and last logged terms.

    A folder without a run has no members.
    """
    path = Path(path)
    if not (path / "run.json").exists():
        return {}
    last = _last_terms(path / "log.jsonl")
    entries = folder.read(path)["members"]
    flat = [dict(_numbers(entry["spec"])) for entry in entries]
    differ = [key for key in dict.fromkeys(key for one in flat for key in one) if len({o.get(key) for o in flat}) > 1]
    found = {}
    for entry, own in zip(entries, flat, strict=True):
        kept = {key: entry[key] for key in ("id", "seed", "data_seed", "state", "steps", "file") if key in entry}
        found[entry["name"]] = {
            **kept,
            "own": {key: own[key] for key in differ if key in own},
            "terms": last.get(entry["name"], {}),
        }
    return found


def write_rows(path: str | Path, rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """Rows of measurements as a JSON file, with what they were measured on."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    content = {"untwine": __version__, **about, "rows": rows}
    Path(path).write_text(json.dumps(content, indent=1) + "\n")


def _numbers(spec: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All floats of a spec, each with its path: `method.beta`."""
    items = spec.items() if isinstance(spec, dict) else enumerate(spec) if isinstance(spec, list) else ()
    for key, value in items:
        yield from _numbers(value, f"{path}.{key}" if path else str(key))
    if isinstance(spec, float):
        yield path, spec


def _last_terms(log: Path) -> dict[str, dict[str, float]]:
    """For each member and each term the last value that is one: nothing is known of a member that diverged."""
    last: dict[str, dict[str, float]] = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        with contextlib.suppress(ValueError):  # a line may be cut off
            for name, terms in json.loads(line)["members"].items():
                seen = {key: value for key, value in terms.items() if key != "diverged" and value is not None}
                last.setdefault(name, {}).update(seen)
    return last
