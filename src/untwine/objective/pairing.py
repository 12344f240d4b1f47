"""Pairings: weak supervision by pairs of examples that differ in some of their factors.

Only the pairs are known: neither which factors differ nor, by default, how many. The posteriors of a pair are
compared latent by latent, and latents that seem shared get one posterior for both examples.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from untwine.arguments import Count
from untwine.errors import UntwineError
from untwine.model.posteriors import DiagonalQ, Q
from untwine.namespace import directory
from untwine.objective.terms import Pairing
from untwine.parts import part


@part
class Ada(Pairing):
    """Pairs in which latents of small divergence share a posterior (Locatello et al. 2020).

    For each pair the divergence of each latent is compared with the threshold half-way between the least and
    the largest of them; latents below it get one posterior for both examples.

    Args:
        average: The shared posterior: moments, the average of means and of variances (Ada-GVAE); product, the product
            of the densities (Ada-ML-VAE); or harmonic, the product with twice its variance, as in public code.
        distance: symmetric, half of the KL both ways (michlo2023, Eq. 14), or forward, KL(first || second), as in
            the original.
        differing: In how many factors a pair differs; None draws a number uniform from 1 to all of them.
        repeat: Whether a factor that is drawn anew may get its old value again, as in public code.
    """

    average: Literal["moments", "product", "harmonic"] = "moments"
    distance: Literal["symmetric", "forward"] = "symmetric"
    differing: Count | None = None
    repeat: bool = False

    def width(self, factors: int) -> int:
        return 1 + 2 * factors

    def draw(
        self, factors: Int64[Tensor, "*batch k"], uniforms: Float[Tensor, "*batch width"], sizes: Int64[Tensor, " k"]
    ) -> Int64[Tensor, "*batch k"]:
        count, order, value = uniforms.split((1, len(sizes), len(sizes)), -1)
        # A factor with a single value cannot differ: it comes last in every order, and is never counted.
        free = int((sizes > 1).sum())
        if free == 0 or (self.differing or 1) > free:
            raise UntwineError(f"pairs cannot differ in {self.differing or 1} factors: only {free} of them vary")
        k = (count * free).long() + 1 if self.differing is None else torch.full_like(count, self.differing).long()
        rank = (order + 2.0 * (sizes == 1)).argsort(-1).argsort(-1)
        if self.repeat:
            new = (value * sizes).long()
        else:  # one of the other values, each as likely
            new = (factors + 1 + (value * (sizes - 1)).long()) % sizes
        return torch.where(rank < k, new, factors)

    def merge(self, q: Q) -> Q:
        if not isinstance(q, DiagonalQ):
            raise UntwineError("a pairing compares posteriors latent by latent: use a diagonal or isotropic posterior")
        first, second = (DiagonalQ(*both) for both in zip(q.mean.chunk(2), q.log_variance.chunk(2), strict=True))
        apart = _kl(first, second)
        if self.distance == "symmetric":
            apart = 0.5 * (apart + _kl(second, first))
        threshold = 0.5 * (apart.amin(-1, keepdim=True) + apart.amax(-1, keepdim=True))
        shared = apart < threshold
        mean, log_variance = _AVERAGES[self.average](first, second)

        return DiagonalQ(
            torch.cat([torch.where(shared, mean, q.mean) for q in (first, second)]),
            torch.cat([torch.where(shared, log_variance, q.log_variance) for q in (first, second)]),
        )


def _kl(p: DiagonalQ, q: DiagonalQ) -> Float[Tensor, "pairs latent"]:
    """KL(p || q) of each latent."""
    ratio = p.log_variance - q.log_variance
    return 0.5 * (ratio.exp() + (p.mean - q.mean).square() * (-q.log_variance).exp() - 1 - ratio)


def _moments(p: DiagonalQ, q: DiagonalQ) -> tuple[Tensor, Tensor]:
    """Ada-GVAE: the averages of both means and of both variances."""
    both = torch.stack((p.log_variance, q.log_variance))
    return 0.5 * (p.mean + q.mean), both.logsumexp(0) - math.log(2.0)


def _product(p: DiagonalQ, q: DiagonalQ) -> tuple[Tensor, Tensor]:
    """Ada-ML-VAE: the product of both normal densities, normalised: precisions add."""
    both = torch.stack((p.log_variance, q.log_variance))
    weights = torch.softmax(-both, 0)  # each one's share of the precision
    return (weights * torch.stack((p.mean, q.mean))).sum(0), -torch.logsumexp(-both, 0)


def _harmonic(p: DiagonalQ, q: DiagonalQ) -> tuple[Tensor, Tensor]:
    """As the product, with twice its variance: equal posteriors stay as they are."""
    mean, log_variance = _product(p, q)
    return mean, log_variance + math.log(2.0)


_AVERAGES = {"moments": _moments, "product": _product, "harmonic": _harmonic}

ada = Ada

__all__ = ["Pairing", "ada"]
__dir__ = directory(__all__)
