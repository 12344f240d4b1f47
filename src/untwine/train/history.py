"""The log of a run as arrays: each term over the steps of training, for each member."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

History = Sequence[Mapping[str, Any]]  # lines of `log.jsonl`, and `ensemble.history`

_NO_TERM = "diverged"  # beside a member's terms, the log says at which step it diverged


@dataclass(frozen=True)
class Course:
    """A term over the steps of training. A value is NaN where a member has none: it diverged, or trains later."""

    members: tuple[str, ...]
    steps: Int64[np.ndarray, " steps"]
    values: Float64[np.ndarray, "members steps"]


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's `log.jsonl` that can be read: the last one may be cut off. Without a file there are none."""
    lines = []
    with contextlib.suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and isinstance(entry.get("members"), dict) and "step" in entry:
                    lines.append(entry)
    return lines


def courses(history: History, members: Collection[str] | None = None) -> dict[str, Course]:
    """The course of each logged term, in the order of the log.

    Args:
        history: `ensemble.history`, or what `read_log` returns.
        members: The names of members; None takes every member.

    >>> history = [{"step": step, "members": {"seed-0": {"loss": 9.0 - step, "kl": None}}} for step in (1, 2)]
    >>> {name: course.values.tolist() for name, course in courses(history).items()}
    {'loss': [[8.0, 7.0]], 'kl': [[nan, nan]]}
    """
    known: dict[str, dict[str, dict[int, float]]] = {}
    for line in history:
        for member, terms in line["members"].items():
            if members is None or member in members:
                for term, value in terms.items():
                    if term != _NO_TERM:
                        of_member = known.setdefault(term, {}).setdefault(member, {})
                        of_member[line["step"]] = np.nan if value is None else value
    result = {}
    for term, by_member in known.items():
        steps = sorted({step for values in by_member.values() for step in values})
        values = [[of_member.get(step, np.nan) for step in steps] for of_member in by_member.values()]
        result[term] = Course(tuple(by_member), np.array(steps, np.int64), np.array(values, np.float64))
    return result
