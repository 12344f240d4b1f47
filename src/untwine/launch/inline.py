"""The engine that works here, on one spec after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from untwine.launch.tasks import Function, Means, Outcome, attempt


def outcomes(function: Function, specs: Sequence[Any], means: Means) -> Iterator[Outcome]:
    """The outcome of each spec, in their order.

    Args:
        function: Is called for each spec.
        specs: What it is called with.
        means: Of these only `prepare` matters here.
    """
    if means.prepare is not None:
        means.prepare()
    for number, spec in enumerate(specs):
        yield attempt(function, number, spec)


def check(means: Means) -> None:
    """Refuse nothing: all other means are for other engines."""
