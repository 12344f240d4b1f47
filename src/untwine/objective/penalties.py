"""All penalties by name: what `untwine.penalties` shows, and what a run may watch."""

from __future__ import annotations

from untwine.errors import unknown
from untwine.objective.core import Penalty
from untwine.objective.divergence import kl
from untwine.objective.jacobian import (
    deterministic_reconstruction,
    jacobian,
    linearised_reconstruction,
    stochastic_reconstruction,
)

# Terms without arguments, which can be watched by name while anything trains.
WATCHABLE: dict[str, Penalty] = {
    "deterministic_reconstruction": deterministic_reconstruction,
    "stochastic_reconstruction": stochastic_reconstruction,
    "linearised_reconstruction": linearised_reconstruction,
    "jacobian_l1": jacobian(1),
    "jacobian_l2": jacobian(2),
    "kl": kl,
}


def watchable(name: str) -> Penalty:
    """A term to watch, by name."""
    found = WATCHABLE.get(name.replace("-", "_"))
    if found is None:
        raise unknown("term to watch", name, WATCHABLE)
    return found


__all__ = [
    "WATCHABLE",
    "deterministic_reconstruction",
    "jacobian",
    "kl",
    "linearised_reconstruction",
    "stochastic_reconstruction",
    "watchable",
]
