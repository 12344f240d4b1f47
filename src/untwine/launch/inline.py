"""The engine that works here, on one spec after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from untwine.errors import UntwineError
from untwine.launch.tasks import Function, Means, Outcome, attempt, prepared


def outcomes(function: Function, specs: Sequence[Any], means: Means) -> Iterator[Outcome]:
    """The outcome of each spec, in their order.

    Args:
        function: Is called for each spec.
        specs: What it is called with.
        means: Of these only `prepare` matters here.
    """
    prepared(means.prepare)
    for number, spec in enumerate(specs):
        yield attempt(function, number, spec)


def check(means: Means) -> None:
    """Refuse means that only other engines have: nobody should wait for a cluster that does nothing."""
    for name, value, engines in (
        ("an address", means.address, "ray"),
        ("GPUs" if means.gpus is None else f"{means.gpus:g} GPUs for each", means.gpus, "processes or ray"),
        (f"{means.workers} workers", means.workers if means.workers != 1 else None, "processes or ray"),
    ):
        if value:
            raise UntwineError(f"the engine inline works here, on one after the other: {name} is for {engines}")
