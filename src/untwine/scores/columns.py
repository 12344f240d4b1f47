"""The numbers of an entry of scores.json: its value and its parts, with the members that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from untwine.differences import listed
from untwine.metrics.forced import VALUE

Number = tuple[str, float | None, str | None]  # a member, its number, and why that cannot be otherwise, if so


@dataclass(frozen=True)
class Column:
    """The value of a score, or one of its parts: the name of a table's row, and each member's number."""

    name: str
    part: str
    members: list[Number]

    def values(self) -> list[float]:
        """The numbers that say something."""
        return [value for _, value, _ in self.members if value is not None]

    def reasons(self) -> list[str]:
        """Why numbers are left out, each reason once."""
        return list(dict.fromkeys(reason for _, _, reason in self.members if reason is not None))


def columns(entry: Mapping[str, Any]) -> list[Column]:
    """The value and every part of an entry, without members for which it is not defined.

    A number that cannot be otherwise is None, and has a reason.
    """
    members = entry["members"]
    parts = next(iter(members.values()))["parts"]
    all_columns = []
    for part in (VALUE, *parts):
        numbers: list[Number] = []
        for member, stored in members.items():
            value = stored["value"] if part == VALUE else stored["parts"][part]
            if value is not None:
                reason = stored.get("forced", {}).get(part)
                numbers.append((member, None if reason else value, reason))
        if numbers:
            name = entry["label"] if part == VALUE else f"{entry['label']} {part}"
            all_columns.append(Column(name, part, numbers))
    return all_columns


def hyperparameters(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The different hyperparameters of an entry's members."""
    different: list[dict[str, Any]] = []
    for member in entry["members"].values():
        if member["own"] not in different:
            different.append(member["own"])
    return different


def notes(entry: Mapping[str, Any], part: str, members: Sequence[Number]) -> list[str]:
    """What a reader must know of the members' numbers: which are left out, and which windows.

    Args:
        entry: The entry.
        part: "value" or the name of a part.
        members: The members with their numbers.

    >>> member = {"value": 1.0, "parts": {}, "own": {}, "forced": {"value": "only one factor varies"}}
    >>> entry = {"label": "modularity", "members": {"seed-0": member, "seed-1": member | {"forced": {}}}}
    >>> notes(entry, "value", columns(entry)[0].members)
    ['seed-0 left out, as only one factor varies']
    """
    left_out: dict[str, list[str]] = {}
    windows: dict[str, list[str]] = {}
    for member, _, reason in members:
        if reason is not None:
            left_out.setdefault(reason, []).append(member)
        if without := entry["members"][member].get("windows_left_out", {}).get(part):
            windows.setdefault(without, []).append(member)
    if sum(map(len, left_out.values())) == len(members):
        return [f"no score, as {' or '.join(left_out)}"]
    texts = [f"{listed(whose)} left out, as {reason}" for reason, whose in left_out.items()]
    for text, whose in windows.items():
        texts.append(text if len(whose) == len(members) else f"{text} ({listed(whose)})")
    return texts
