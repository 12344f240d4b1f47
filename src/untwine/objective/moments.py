"""Penalties on the second moments of the representation: DIP-VAE (Kumar et al. 2018)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from untwine.objective.aggregate import Divergence
from untwine.objective.core import Penalty, penalty
from untwine.objective.schedules import Number
from untwine.objective.terms import Pass
from untwine.parts import part


@part
class Covariance(Divergence):
    """Squared distance of a covariance C from the identity, off its diagonal or on it.

    Args:
        of: mean, C = Cov[mu(x)], that of the posterior means over the batch (Kumar et al. 2018, Eq. 6); or
            aggregate, C = Cov[mu(x)] + E[posterior covariance], that of z ~ q(z) (Eq. 7, law of total covariance).
        entries: off_diagonal, the sum of C_ij^2 over i != j, both triangles; or diagonal, the sum of (C_ii - 1)^2.

    The batch's covariance divides by its size n, as in the reference (not by n - 1): so the aggregate one is
    exactly the covariance of the batch's mixture of posteriors.
    """

    of: Literal["mean", "aggregate"] = "mean"
    entries: Literal["off_diagonal", "diagonal"] = "off_diagonal"

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        q = passed.q
        offsets = q.mean - q.mean.mean(0)
        aggregate = self.of == "aggregate"
        if self.entries == "diagonal":
            variance = offsets.square().mean(0)
            return ((variance + q.variance().mean(0) if aggregate else variance) - 1).square().sum()
        with torch.autocast(offsets.device.type, enabled=False):  # products of matrices would be in bfloat16
            covariance = offsets.T @ offsets / len(offsets)
            if aggregate:
                covariance = covariance + q.covariance().mean(0)
        off_diagonal = 1 - torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
        return (covariance * off_diagonal).square().sum()


covariance = penalty(Covariance)


@Penalty.registry.bound
def dip_i(off_diagonal: Number = 5.0, diagonal: Number = 50.0) -> Penalty:
    """lambda_od sum_{i != j} C_ij^2 + lambda_d sum_i (C_ii - 1)^2, C = Cov[mu(x)] (Kumar et al. 2018, Eq. 6).

    The defaults are those of rhodes2021, Figure 5.

    Args:
        off_diagonal: lambda_od, the weight of the covariances.
        diagonal: lambda_d, the weight of the variances' distances from 1.
    """
    return covariance("mean", "off_diagonal") * off_diagonal + covariance("mean", "diagonal") * diagonal


@Penalty.registry.bound
def dip_ii(off_diagonal: Number = 5.0, diagonal: Number = 5.0) -> Penalty:
    """The same with C = Cov[mu(x)] + E[posterior covariance], that of the samples (Kumar et al. 2018, Eq. 7).

    Args:
        off_diagonal: lambda_od, the weight of the covariances.
        diagonal: lambda_d, the weight of the variances' distances from 1.
    """
    return covariance("aggregate", "off_diagonal") * off_diagonal + covariance("aggregate", "diagonal") * diagonal


__all__ = ["covariance", "dip_i", "dip_ii"]
