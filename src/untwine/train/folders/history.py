"""The log of a run as arrays: each term over the steps of training, for each member."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from jaxtyping import Float64, Int64

from untwine.errors import UntwineError

History = Sequence[Mapping[str, Any]]  # lines of `log.jsonl`, and `ensemble.history`

_NO_TERM = "diverged"  # beside a member's terms, the log says at which step it diverged


@dataclass(frozen=True)
class Course:
    """A term over the steps of training. A value is NaN where a member has none: it diverged, or trains later."""

    members: tuple[str, ...]
    steps: Int64[np.ndarray, " steps"]
    values: Float64[np.ndarray, "members steps"]


class Lines(Sequence[dict[str, Any]]):
    """Lines of a log in little memory: their numbers in one array, and what each number is of once for all lines.

    A line of four members as dicts takes 1.5 kB, which adds up where every step is logged. Read, each line is a dict
    again, equal to the one that was appended.

    >>> lines = Lines()
    >>> lines.append({"pack": 0, "step": 5, "members": {"seed-0": {"loss": 1.5, "kl": None, "diverged": 3}}})
    >>> len(lines), lines[-1]
    (1, {'pack': 0, 'step': 5, 'members': {'seed-0': {'loss': 1.5, 'kl': None, 'diverged': 3}}})
    """

    def __init__(self) -> None:
        self._outlines: dict[tuple[Any, ...], int] = {}  # the pack, and the terms of each member, with their number
        self._places = array("q")  # for each line its outline, its step, and where its numbers begin
        self._numbers = array("d")  # NaN stands for None: a log has no other

    def append(self, line: Mapping[str, Any]) -> None:
        """Keep a line of the log."""
        members = line["members"]
        outline = (line["pack"], *((name, *terms) for name, terms in members.items()))
        number = self._outlines.setdefault(outline, len(self._outlines))
        values = [math.nan if value is None else float(value) for terms in members.values() for value in terms.values()]
        self._places.extend((number, line["step"], len(self._numbers)))
        self._numbers.extend(values)

    @property
    def bytes(self) -> int:
        """The memory that the numbers take."""
        return sum(part.buffer_info()[1] * part.itemsize for part in (self._places, self._numbers))

    def __len__(self) -> int:
        return len(self._places) // 3

    def __iter__(self) -> Iterator[dict[str, Any]]:
        outlines = list(self._outlines)
        return (self._line(i, outlines) for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        outlines, chosen = list(self._outlines), range(len(self))[index]
        return self._line(chosen, outlines) if isinstance(chosen, int) else [self._line(i, outlines) for i in chosen]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def _line(self, i: int, outlines: list[tuple[Any, ...]]) -> dict[str, Any]:
        number, step, at = self._places[3 * i : 3 * i + 3]
        pack, *members = outlines[number]
        line: dict[str, Any] = {"pack": pack, "step": step, "members": {}}
        for name, *terms in members:
            values = self._numbers[at : at + len(terms)]
            at += len(terms)
            line["members"][name] = {
                term: None if value != value else int(value) if term == _NO_TERM else value
                for term, value in zip(terms, values, strict=True)
            }
        return line


def courses(history: History, members: Collection[str] | None = None) -> dict[str, Course]:
    """The course of each logged term, in the order of the log.

    Args:
        history: `ensemble.history`, or what `untwine.train.folders.log.read_log` returns.
        members: The names of members; None takes every member.

    >>> history = [{"step": step, "members": {"seed-0": {"loss": 9.0 - step, "kl": None}}} for step in (1, 2)]
    >>> {name: course.values.tolist() for name, course in courses(history).items()}
    {'loss': [[8.0, 7.0]], 'kl': [[nan, nan]]}
    """
    known: dict[str, dict[str, dict[int, float]]] = {}
    if isinstance(history, str) or not isinstance(history, Iterable):
        raise UntwineError(f"a history is ensemble.history, or lines of a log, not {history!r:.80}")
    for line in history:
        if not (isinstance(line, Mapping) and {"step", "members"} <= line.keys()):
            raise UntwineError(f"a line of a history has a step and its members, not {line!r:.80}")
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
