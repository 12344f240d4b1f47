"""Batches of posteriors q(z | x): their samples, densities and KL to any prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch import distributions as D

from untwine.errors import UntwineError


class Q:
    """A batch of posteriors. `mean` is `[batch, latent]`."""

    mean: Tensor

    def sample(self, eps: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch latent"]:
        """The reparametrised sample for standard normal noise."""
        raise NotImplementedError

    def log_prob(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, " batch"]:
        """log q(z_i | x_i) of one point for each example."""
        raise NotImplementedError

    def variance(self) -> Float[Tensor, "batch latent"]:
        """The variance of each latent (the diagonal of the covariance)."""
        raise NotImplementedError

    def spread(self) -> Float[Tensor, "latent batch latent"]:
        """The columns of a square root of the covariance: directions in which the samples spread."""
        raise NotImplementedError

    def covariance(self) -> Float[Tensor, "batch latent latent"]:
        """The covariance of each posterior."""
        spread = self.spread()
        return (spread[..., :, None] * spread[..., None, :]).sum(0)

    def log_matrix(self, z: Float[Tensor, "n latent"]) -> Float[Tensor, "n batch"]:
        """log q(z_i | x_j) for every point i and every example j: the components of mixtures of posteriors."""
        raise NotImplementedError

    def log_marginals(self, z: Float[Tensor, "n latent"]) -> Float[Tensor, "n batch latent"]:
        """log q(z_ik | x_j) of each latent k on its own."""
        return _log_normal(z[:, None], self.mean, self.variance().log())

    def entropy(self) -> Float[Tensor, " batch"]:
        """H[q(z | x)] in nats."""
        raise NotImplementedError

    def closed_kl(self, prior: D.Distribution) -> Float[Tensor, " batch"] | None:
        """KL(q || prior) in closed form, or None where there is none."""
        return None

    def kl(self, prior: D.Distribution, z: Float[Tensor, "batch latent"] | None = None) -> Float[Tensor, " batch"]:
        """KL(q || prior) in nats: closed form where there is one, else Monte Carlo at the sample z."""
        closed = self.closed_kl(prior)
        if closed is not None:
            return closed
        if z is None:
            raise UntwineError("this KL has no closed form: it needs a sample z of the posterior")
        return self.log_prob(z) - prior.log_prob(z)


def _log_normal(z: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    return -0.5 * ((z - mean).square() * (-log_variance).exp() + log_variance + math.log(2 * math.pi))


def _normal_moments(prior: D.Distribution) -> tuple[Tensor, Tensor] | None:
    """Mean and variance of a factorised normal prior, else None."""
    if isinstance(prior, D.Independent) and isinstance(prior.base_dist, D.Normal):
        return prior.base_dist.loc, prior.base_dist.scale.square()
    return None


@dataclass(frozen=True)
class DiagonalQ(Q):
    """Normals with a diagonal covariance."""

    mean: Tensor
    log_variance: Tensor

    def _distribution(self) -> D.Distribution:
        return D.Independent(D.Normal(self.mean, (0.5 * self.log_variance).exp(), validate_args=False), 1)

    def sample(self, eps: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch latent"]:
        return self.mean + (0.5 * self.log_variance).exp() * eps

    def log_prob(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, " batch"]:
        return self._distribution().log_prob(z)

    def variance(self) -> Float[Tensor, "batch latent"]:
        return self.log_variance.exp()

    def spread(self) -> Float[Tensor, "latent batch latent"]:
        return torch.diag_embed((0.5 * self.log_variance).exp()).movedim(-1, 0)

    def log_matrix(self, z: Float[Tensor, "n latent"]) -> Float[Tensor, "n batch"]:
        return self.log_marginals(z).sum(-1)

    def log_marginals(self, z: Float[Tensor, "n latent"]) -> Float[Tensor, "n batch latent"]:
        return _log_normal(z[:, None], self.mean, self.log_variance)

    def entropy(self) -> Float[Tensor, " batch"]:
        return 0.5 * (self.log_variance + 1 + math.log(2 * math.pi)).sum(-1)

    def closed_kl(self, prior: D.Distribution) -> Float[Tensor, " batch"] | None:
        moments = _normal_moments(prior)
        if moments is not None:  # written out: stable in the log-variance, and quick
            loc, variance = moments
            ratio = self.log_variance - variance.log()
            return 0.5 * (ratio.exp() + (self.mean - loc).square() / variance - 1 - ratio).sum(-1)
        if isinstance(prior, D.MultivariateNormal):
            return FullQ(self.mean, torch.diag_embed((0.5 * self.log_variance).exp())).closed_kl(prior)
        try:
            return D.kl_divergence(self._distribution(), prior)
        except NotImplementedError:
            return None


@dataclass(frozen=True)
class FullQ(Q):
    """Normals with any covariance, by its Cholesky factor."""

    mean: Tensor
    factor: Tensor  # the Cholesky factor of the covariance, [batch, latent, latent]

    def _log_diagonal(self) -> Tensor:
        return torch.diagonal(self.factor, dim1=-2, dim2=-1).log().sum(-1)

    def sample(self, eps: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch latent"]:
        return self.mean + (self.factor * eps[..., None, :]).sum(-1)  # no matrix product: autocast would round it

    def log_prob(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, " batch"]:
        return self._log_density((z - self.mean)[..., None])[..., 0]

    def _log_density(self, offsets: Float[Tensor, "batch latent n"]) -> Float[Tensor, "batch n"]:
        white = torch.linalg.solve_triangular(self.factor, offsets, upper=False)
        constant = self.mean.shape[-1] * math.log(2 * math.pi)
        return -0.5 * (white.square().sum(-2) + constant) - self._log_diagonal()[:, None]

    def log_matrix(self, z: Float[Tensor, "n latent"]) -> Float[Tensor, "n batch"]:
        return self._log_density((z - self.mean[:, None]).mT).T

    def entropy(self) -> Float[Tensor, " batch"]:
        return 0.5 * self.mean.shape[-1] * (1 + math.log(2 * math.pi)) + self._log_diagonal()

    def variance(self) -> Float[Tensor, "batch latent"]:
        return self.factor.square().sum(-1)

    def spread(self) -> Float[Tensor, "latent batch latent"]:
        return self.factor.movedim(-1, 0)

    def closed_kl(self, prior: D.Distribution) -> Float[Tensor, " batch"] | None:
        # Written with Cholesky factors: torch's own multivariate normal KL fails under vmap.
        moments = _normal_moments(prior)
        latents = self.mean.shape[-1]
        if moments is not None:
            loc, variance = moments
            trace = (self.factor.square().sum(-1) / variance).sum(-1)
            distance = ((self.mean - loc).square() / variance).sum(-1)
            return 0.5 * (trace + distance - latents + variance.log().sum(-1)) - self._log_diagonal()
        if isinstance(prior, D.MultivariateNormal):
            lower = prior.scale_tril.expand(*self.factor.shape)
            both = torch.cat((self.factor, (self.mean - prior.loc)[..., None]), -1)
            white = torch.linalg.solve_triangular(lower, both, upper=False).square().sum((-2, -1))
            log_det = torch.diagonal(prior.scale_tril, dim1=-2, dim2=-1).log().sum(-1)
            return 0.5 * (white - latents) + log_det - self._log_diagonal()
        return None


@dataclass(frozen=True)
class PointQ(Q):
    """Points, which have no density."""

    mean: Tensor

    def sample(self, eps: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch latent"]:
        return self.mean

    def log_prob(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, " batch"]:
        raise UntwineError("a deterministic posterior has no density")

    def variance(self) -> Float[Tensor, "batch latent"]:
        return torch.zeros_like(self.mean)

    def spread(self) -> Float[Tensor, "latent batch latent"]:
        return self.mean.new_zeros(self.mean.shape[-1], *self.mean.shape)

    def log_matrix(self, z: Float[Tensor, "n latent"]) -> Float[Tensor, "n batch"]:
        raise UntwineError("a deterministic posterior has no density: 'mmd' is a divergence that needs none")

    def log_marginals(self, z: Float[Tensor, "n latent"]) -> Float[Tensor, "n batch latent"]:
        raise UntwineError("a deterministic posterior has no density")

    def entropy(self) -> Float[Tensor, " batch"]:
        raise UntwineError("a deterministic posterior has no entropy")

    def kl(self, prior: D.Distribution, z: Float[Tensor, "batch latent"] | None = None) -> Float[Tensor, " batch"]:
        raise UntwineError("a deterministic posterior has no KL to a prior: ae and wae_mmd are methods without one")
