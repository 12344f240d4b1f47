"""All penalties by name (`untwine.penalties`), and those that a run may watch."""

from __future__ import annotations

import inspect
from typing import Any

from untwine.errors import UntwineError, unregistered
from untwine.namespace import directory
from untwine.objective.adversary import adversarial_total_correlation
from untwine.objective.aggregate import Divergence, kl_aggregate_prior, kl_prior_aggregate, mmd, total_correlation
from untwine.objective.core import Penalty, Sum
from untwine.objective.divergence import capacity, delta_kl, distance, entropy, kl
from untwine.objective.jacobian import (
    deterministic_reconstruction,
    flatness,
    jacobian,
    linearised_reconstruction,
    orthogonality,
    stochastic_reconstruction,
)
from untwine.objective.moments import covariance, dip_i, dip_ii
from untwine.parts import is_part

# Terms without arguments, which can be watched by name while anything trains. (`kl`, `entropy`, `delta_kl` and
# `total_correlation` need a posterior with a density.)
WATCHABLE: dict[str, Penalty] = {
    "deterministic_reconstruction": deterministic_reconstruction,
    "stochastic_reconstruction": stochastic_reconstruction,
    "linearised_reconstruction": linearised_reconstruction,
    "jacobian_l1": jacobian(1),
    "jacobian_l2": jacobian(2),
    "orthogonality": orthogonality(),
    "kl": kl,
    "entropy": entropy,
    "delta_kl": delta_kl,
    "total_correlation": total_correlation("stratified"),  # the weighted one is off by a constant
    "mean_covariance": covariance("mean", "off_diagonal"),
    "aggregate_variance": covariance("aggregate", "diagonal"),
}


def watchable(name: str) -> Penalty:
    """A term to watch, by its name: one of WATCHABLE, or any penalty that needs no arguments."""
    key = name.replace("-", "_")
    if key in WATCHABLE:
        return WATCHABLE[key]
    defaults = [other for other, entry in Penalty.registry.items() if not _needed(entry)]
    if key not in defaults:
        raise unregistered("term to watch", name, {*WATCHABLE, *defaults})
    return Penalty.read(key)


def divergences() -> dict[str, Any]:
    """Penalties on the aggregate posterior, D(q(z), p(z)) of mathieu2019, Eq. 7, by name: what makes each of them."""
    return {name: entry for name, entry in Penalty.registry.items() if not _needed(entry) and _aggregate(entry)}


def named(divergence: str | Penalty) -> Penalty:
    """A divergence of the aggregate posterior from its text, or the penalty itself.

    >>> named("mmd(kernel=rbf, scales=(1, 2))") == mmd("rbf", (1.0, 2.0))
    True
    """
    if isinstance(divergence, str):
        return Penalty.read(divergence, "divergence")
    if not isinstance(divergence, Penalty):
        raise UntwineError(f"a divergence is a name such as 'mmd' or a Penalty, not {divergence!r}")
    if divergence.watched:
        raise UntwineError("a divergence that is only watched would have no effect: leave .watch() out")
    return divergence


def _needed(entry: Any) -> list[str]:
    """The arguments that an entry of the registry needs."""
    if is_part(entry):
        return []
    parameters = inspect.signature(entry).parameters.values()
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty]


def _aggregate(entry: Any) -> bool:
    """Whether an entry of the registry makes a divergence, or a sum of divergences."""
    value = entry if is_part(entry) else entry()
    term = value.term if isinstance(value, Penalty) else value
    terms = [summand.term for summand in term.penalties] if isinstance(term, Sum) else [term]
    return all(isinstance(term, Divergence) for term in terms)


__all__ = [
    "WATCHABLE",
    "adversarial_total_correlation",
    "capacity",
    "covariance",
    "delta_kl",
    "deterministic_reconstruction",
    "dip_i",
    "dip_ii",
    "distance",
    "divergences",
    "entropy",
    "flatness",
    "jacobian",
    "kl",
    "kl_aggregate_prior",
    "kl_prior_aggregate",
    "linearised_reconstruction",
    "mmd",
    "named",
    "orthogonality",
    "stochastic_reconstruction",
    "total_correlation",
    "watchable",
]
__dir__ = directory(__all__)
