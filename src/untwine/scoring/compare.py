"""Runs side by side: Welch's t-test for every score that two of them have under the same settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np

from untwine.metrics import statistics
from untwine.scores.columns import Column, columns, hyperparameters
from untwine.scores.scores import Scores
from untwine.scores.storage import Entry


def comparisons(runs: Mapping[str, Scores]) -> list[dict[str, Any]]:
    """A row for every score of every two runs; where scores are not comparable, the row says why instead."""
    rows = []
    for (first, first_scores), (second, second_scores) in combinations(runs.items(), 2):
        for entry in first_scores.entries:
            about = {"radius": entry["settings"].get("radius"), "first": first, "second": second}
            other = _same(entry, second_scores)
            reasons = _mixed(entry, other) or ([] if other else _obstacles(entry, second_scores))
            if other is None or reasons:
                rows.append({"metric": entry["label"], **about, "not_comparable": reasons})
                continue
            right = {column.part: column for column in columns(other)}
            rows += [
                {"metric": left.name, **about, **_compared(left, right[left.part], first, second)}
                for left in columns(entry)
                if left.part in right
            ]
    return rows


def _compared(left: Column, right: Column, first: str, second: str) -> dict[str, Any]:
    """Welch's t-test of two columns, or why there is none."""
    a, b = left.values(), right.values()
    if not a or not b:
        forced = [(name, column) for name, column in ((first, left), (second, right)) if not column.values()]
        return {"not_comparable": [f"{name}: {reason}" for name, column in forced for reason in column.reasons()]}
    return {"means": [float(np.mean(a)), float(np.mean(b))], **asdict(statistics.compare(a, b))}


def _same(entry: Entry, scores: Scores) -> Entry | None:
    """The other run's score of the same metric under the same settings."""
    wanted = entry["metric"], entry["settings"]
    return next((other for other in scores.entries if (other["metric"], other["settings"]) == wanted), None)


def _mixed(*entries: Entry | None) -> list[str]:
    """Why models of one run cannot be pooled: the hyperparameters in which they differ."""
    keys = [key for entry in entries if entry for own in hyperparameters(entry)[1:] for key in own]
    return [f"the models of a run differ in {', '.join(dict.fromkeys(keys))}"] if keys else []


def _obstacles(entry: Entry, scores: Scores) -> list[str]:
    """In which settings the most similar score of the other run differs."""
    radius = entry["settings"].get("radius")
    similar = [other for other in scores.entries if other["metric"] == entry["metric"]]
    if not similar:
        return ["it was not scored there"]

    def unlike(other: Entry) -> tuple[bool, int]:
        return other["settings"].get("radius") != radius, len(differences(entry["settings"], other["settings"]))

    return differences(entry["settings"], min(similar, key=unlike)["settings"])


def differences(first: Mapping[str, Any], second: Mapping[str, Any], where: str = "") -> list[str]:
    """The settings in which two scores differ.

    Args:
        first: Settings of a score.
        second: Settings of another score.
        where: A prefix for the names of settings.

    >>> differences({"bins": 20, "data": {"seed": 0}}, {"bins": 20, "data": {"seed": 1}})
    ['data.seed: 0 and 1']
    """
    texts = []
    for key in dict.fromkeys([*first, *second]):
        a, b = first.get(key), second.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            texts += differences(a, b, f"{where}{key}.")
        elif a != b:
            texts.append(f"{where}{key}: {a} and {b}")
    return texts
