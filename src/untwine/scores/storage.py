"""A run's `scores.json`: what was asked for, under which settings, and a value for each member.

Each score has a checksum of its content, and each value the checksum of the weights that it is of: a score that was
edited, or that is of other weights, is left out, with a warning.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from untwine import files
from untwine._version import __version__
from untwine.errors import UntwineError, warn
from untwine.locks import locked
from untwine.metrics import Score

FORMAT = 3
FILE = "scores.json"

Entry = dict[str, Any]
Members = Mapping[str, Mapping[str, Any]]  # by name: their id, the checksum of their weights, and their own numbers


def read(path: Path) -> list[Entry]:
    """The scores that a run's folder holds, but for those that were changed; none where nothing was scored yet."""
    file = path / FILE
    if not file.exists():
        return []
    try:
        content = files.parse_json(file.read_bytes())
        entries = content["scores"]
        if content["format"] < FORMAT and isinstance(entries, list):
            # Labels and definitions have changed since, and there were no checksums.
            warn(f"{file} is of an earlier version: its scores are replaced by what is scored now")
            return []
        if content["format"] == FORMAT and isinstance(entries, list):
            return [entry for entry in map(functools.partial(_opened, file), entries) if entry is not None]
    except OSError as error:
        raise UntwineError(f"{file} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise UntwineError(f"{file} cannot be used: it is damaged, or of another version; move it away to score anew")


def _opened(file: Path, sealed: Any) -> Entry | None:
    """A score of a file without its checksum; None, and a warning, where it is not what was written."""
    entry = {key: value for key, value in sealed.items() if key != files.SEAL}
    if files.SEAL in sealed and files.is_intact(sealed) and _is_entry(entry):
        return entry
    warn(f"{file}: the score {str(entry.get('label'))!r:.100} was changed since it was written, and is left out")
    return None


def _is_entry(value: Any) -> bool:
    kinds = {"metric": str, "label": str, "asked": dict, "settings": dict, "untwine": str, "members": dict}
    members = value["members"].values()
    return all(isinstance(value[key], kind) for key, kind in kinds.items()) and all(
        isinstance(member, dict) and {"id", "value", "own", "parts"} <= set(member) for member in members
    )


def write(path: Path, entry: Entry) -> None:
    """Add a score to the file of a run's folder. Equal requests share an entry, which gathers their members.

    No two entries share a label: a score of data or models that have changed since gets a mark behind its own.
    """
    with locked(path, ".scores.lock", patience=30):
        entries = map(files.sealed, added(read(path), entry))
        files.write_json(path / FILE, {"format": FORMAT, "scores": list(entries)})


def added(entries: Sequence[Entry], entry: Entry) -> list[Entry]:
    """The entries with one more, or with it in the place of the one of the same request (see `write`)."""
    by_key = {key(stored): stored for stored in entries}
    old = by_key.get(key(entry))
    if old is not None and (old["settings"], old["untwine"]) == (entry["settings"], entry["untwine"]):
        entry = {**entry, "members": old["members"] | entry["members"]}
    others = {name: _marked(other, entry["label"]) for name, other in by_key.items()}
    return list((others | {key(entry): entry}).values())


def _marked(entry: Entry, taken: str) -> Entry:
    """The entry, with a mark of its own behind its label if that is taken."""
    if entry["label"] != taken:
        return entry
    return {**entry, "label": f"{taken}#{hashlib.sha256(key(entry).encode()).hexdigest()[:8]}"}


def key(entry: Mapping[str, Any]) -> str:
    """A text that is equal for equal requests, and for no others."""
    return json.dumps([entry["metric"], entry["asked"]], sort_keys=True)


def is_current(entry: Mapping[str, Any] | None, members: Members) -> bool:
    """Whether an entry is of this version and has a value for these members, and their weights, as they are now."""
    if entry is None or entry["untwine"] != __version__:
        return False
    return all(_is_of(entry["members"].get(name, {}), member) for name, member in members.items())


def _is_of(value: Mapping[str, Any], member: Mapping[str, Any]) -> bool:
    """Whether a value is of this member with these weights."""
    return all(value.get(key) == member.get(key) for key in ("id", "weights"))


def select(entry: Mapping[str, Any], members: Members, label: str) -> Entry:
    """An entry with these members, in this order, under the label of the present request."""
    return {**entry, "members": {name: entry["members"][name] for name in members}, "label": label}


def of_members(entries: Sequence[Entry], members: Members) -> list[Entry]:
    """The entries of this version that have a value for some of the members, without all other members.

    Args:
        entries: Entries of scores.json.
        members: The members by name: a value of another member of the same name, or of other weights, does not count.
    """
    kept = []
    warn_of_other_weights(entries, members)
    for entry in entries:
        values = {name: entry["members"][name] for name in members if name in entry["members"]}
        values = {name: value for name, value in values.items() if _is_of(value, members[name])}
        if values and entry["untwine"] == __version__:
            kept.append({**entry, "members": values})
    return kept


def warn_of_other_weights(entries: Sequence[Entry], members: Members) -> None:
    """Warn of members that have scores of other weights than they have now."""
    others = {
        name: entry["label"]
        for entry in entries
        for name, member in members.items()
        if (value := entry["members"].get(name)) and value["id"] == member["id"] and not _is_of(value, member)
    }
    if others:
        name, label = next(iter(others.items()))
        warn(f"the score {label} of {name} is of other weights than there are now, and is left out")


def to_entry(
    score: Score,
    label: str,
    conditions: Mapping[str, Any],
    members: Members,
    active: Sequence[int | None] | None = None,
) -> Entry:
    """A score as JSON.

    Args:
        score: The score, with a value for each member.
        label: The name of the score, which no other of the run has.
        conditions: What its result depends on.
        members: The members, in the order of the score's values.
        active: How many latents of each member are active, where that is known.
    """
    parts = {name: np.atleast_1d(score.details[name]) for name in score.parts}
    values = {}
    for i, (name, member) in enumerate(members.items()):
        member_parts = {part: _number(numbers[i]) for part, numbers in parts.items()}
        values[name] = {**member, "value": float(score.values[i]), "parts": member_parts}
        for key, texts in (("forced", score.forced), ("windows_left_out", score.details.get("windows_left_out", {}))):
            if of_member := {part: text[i] for part, text in texts.items() if text[i] is not None}:
                values[name][key] = of_member
        if active is not None:
            values[name]["active_latents"] = active[i]
    return {
        "metric": score.metric,
        "label": label,
        "asked": dict(conditions),
        "settings": json.loads(json.dumps(score.settings)),  # as it will be read: tuples are lists
        "untwine": __version__,
        "members": values,
    }


def _number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
