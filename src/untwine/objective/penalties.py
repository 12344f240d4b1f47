"""All penalties by name: what `untwine.penalties` shows, and what a run may watch."""

from __future__ import annotations

from collections.abc import Callable

from untwine import naming
from untwine.errors import UntwineError, unknown
from untwine.objective.adversary import adversarial_total_correlation
from untwine.objective.aggregate import kl_aggregate_prior, kl_prior_aggregate, mmd, total_correlation
from untwine.objective.core import Penalty
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

# Divergences of the aggregate posterior from what it should be: D(q(z), p(z)) of mathieu2019, Eq. 7.
DIVERGENCES: dict[str, Penalty | Callable[..., Penalty]] = {
    "mmd": mmd,
    "kl_prior_aggregate": kl_prior_aggregate,
    "kl_aggregate_prior": kl_aggregate_prior,
    "total_correlation": total_correlation,
    "adversarial_total_correlation": adversarial_total_correlation,
    "dip_i": dip_i,
    "dip_ii": dip_ii,
}


def watchable(name: str) -> Penalty:
    """A term to watch, by name."""
    found = WATCHABLE.get(name.replace("-", "_"))
    if found is None:
        raise unknown("term to watch", name, WATCHABLE)
    return found


def named(divergence: str | Penalty) -> Penalty:
    """A divergence of the aggregate posterior by its name, with arguments if need be, or the one that is given.

    >>> named("mmd(kernel=rbf, scales=(1, 2))") == mmd("rbf", (1.0, 2.0))
    True
    """
    if isinstance(divergence, Penalty):
        if divergence.watched:
            raise UntwineError("a divergence that is only watched would have no effect: leave .watch() out")
        return divergence
    if not isinstance(divergence, str):
        raise UntwineError(f"a divergence is a name such as 'mmd' or a Penalty, not {divergence!r}")
    return naming.read("divergence", divergence, DIVERGENCES)


__all__ = [
    "DIVERGENCES",
    "WATCHABLE",
    "adversarial_total_correlation",
    "capacity",
    "covariance",
    "delta_kl",
    "deterministic_reconstruction",
    "dip_i",
    "dip_ii",
    "distance",
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
