"""`map`: one function for many specs, by any engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, cast

from untwine.arguments import checked
from untwine.errors import UntwineError, refuse_unknown
from untwine.launch.tasks import Function, Means, Outcome
from untwine.progress import counter

Engine: TypeAlias = Literal["inline", "processes", "ray"]

# Where each engine is: `outcomes`, a function of a function, specs and means, which yields outcomes in any order, and
# `check`, which refuses means that it cannot take.
ENGINES = {
    "inline": "untwine.launch.inline",
    "processes": "untwine.launch.processes",
    "ray": "untwine.launch.on_ray",
}


class PartlyDone(UntwineError):
    """Some specs failed; the others are done.

    Args:
        message: Which failed, and why.
        outcomes: What became of each spec, in their order.
    """

    def __init__(self, message: str, outcomes: Sequence[Outcome]):
        super().__init__(message)
        self.outcomes = list(outcomes)


@checked()
def map(
    function: Function,
    specs: Sequence[Any],
    engine: str = "inline",
    *,
    workers: int | None = None,
    gpus: float | None = None,
    retries: int = 3,
    address: str | None = None,
    prepare: Callable[[], None] | None = None,
    progress: bool | None = None,
) -> list[Any]:
    """Call a function for each spec, and return what it returned in the order of the specs.

    A spec that fails stops no other: when all are through, `PartlyDone` is raised, which has all outcomes.

    Args:
        function: A function of one argument. Other engines than inline send it to other processes: it stands at the top
            of a module, and its argument and result can be pickled.
        specs: What it is called with.
        engine: "inline" (one after the other, here), "processes" (on this machine, one for each GPU or each core) or
            "ray" (Ray: this machine, or a cluster).
        workers: The most that are worked on at once; None is as many as there are GPUs, or cores.
        gpus: The GPUs that each spec needs; None is one where there are any. Ray also takes parts, such as 0.5.
        retries: How often a spec whose worker died is tried again.
        address: The address of a Ray cluster ("auto" finds the one this machine belongs to); None is this machine.
        prepare: Is called in each worker first, to import a user's own parts.
        progress: Whether to show a bar; None shows one where there is a terminal.

    >>> map(len, ["one", "three"])
    [3, 5]
    """
    means = Means(workers, gpus, retries, address, prepare)
    done: dict[int, Outcome] = {}
    with counter("specs", len(specs), progress) as advance:
        for outcome in outcomes(function, specs, engine, means):
            done[outcome.number] = outcome
            advance(1)
    ordered = [done[i] for i in range(len(specs))]
    failed = [outcome for outcome in ordered if outcome.error is not None]
    if failed:
        first = f"{len(failed)} of {len(specs)} specs failed; number {failed[0].number}: {failed[0].error}"
        raise PartlyDone(first + (f"\n{failed[0].details}" if failed[0].details else ""), ordered)
    return [outcome.value for outcome in ordered]


def outcomes(function: Function, specs: Sequence[Any], engine: str, means: Means) -> Iterator[Outcome]:
    """What becomes of each spec, as soon as that is known, in any order.

    Args:
        function: As in `map`.
        specs: As in `map`.
        engine: As in `map`.
        means: What the engine may use.
    """
    check(engine, means)
    work = cast(Callable[..., Iterator[Outcome]], importlib.import_module(ENGINES[engine]).outcomes)
    return work(function, list(specs), means)


def check(engine: str, means: Means) -> None:
    """Refuse an engine that is not there, and means that it cannot take.

    Args:
        engine: As in `map`.
        means: What the engine may use.
    """
    refuse_unknown("engine", [engine], ENGINES)
    importlib.import_module(ENGINES[engine]).check(means)
