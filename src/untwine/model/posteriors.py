"""Posteriors q(z | x): what an encoder's raw output stands for, and their KL to any prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch import distributions as D

from untwine import naming
from untwine.errors import UntwineError
from untwine.parts import part


class Q:
    """A batch of posteriors. `mean` is `[batch, latent]`."""

    mean: Tensor

    def sample(self, eps: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch latent"]:
        """The reparametrised sample for standard normal noise."""
        raise NotImplementedError

    def log_prob(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, " batch"]:
        raise NotImplementedError

    def variance(self) -> Float[Tensor, "batch latent"]:
        """The variance of each latent (the diagonal of the covariance)."""
        raise NotImplementedError

    def spread(self) -> Float[Tensor, "latent batch latent"]:
        """The columns of a square root of the covariance: directions in which the samples spread."""
        raise NotImplementedError

    def covariance(self) -> Float[Tensor, "batch latent latent"]:
        spread = self.spread()
        return (spread[..., :, None] * spread[..., None, :]).sum(0)

    def log_matrix(self, z: Float[Tensor, "n latent"]) -> Float[Tensor, "n batch"]:
        """log q(z_i | x_j) for every point i and every example j: what mixtures of posteriors are made of."""
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


class Posterior:
    """What a method names: how wide the encoder's output is, and what it means."""

    def width(self, latents: int) -> int:
        raise NotImplementedError

    def build(self, raw: Float[Tensor, "batch width"]) -> Q:
        raise NotImplementedError

    def log_variances(self, latents: int) -> slice:
        """Where in the raw output the log-variances stand (for networks that start them at a value)."""
        return slice(0, 0)


def precise(x: Tensor) -> Tensor:
    """float32, whatever precision a network ran in; float64 stays."""
    return x if x.dtype == torch.float64 else x.float()


def _log_normal(z: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    return -0.5 * ((z - mean).square() * (-log_variance).exp() + log_variance + math.log(2 * math.pi))


def _normal_moments(prior: D.Distribution) -> tuple[Tensor, Tensor] | None:
    """Mean and variance of a factorised normal prior, else None."""
    if isinstance(prior, D.Independent) and isinstance(prior.base_dist, D.Normal):
        return prior.base_dist.loc, prior.base_dist.scale.square()
    return None


@dataclass(frozen=True)
class DiagonalQ(Q):
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


@part
class DiagonalNormal(Posterior):
    """N(mean, diag variance): the raw output is the means, then the log-variances."""

    def width(self, latents: int) -> int:
        return 2 * latents

    def build(self, raw: Float[Tensor, "batch width"]) -> Q:
        mean, log_variance = precise(raw).chunk(2, -1)
        return DiagonalQ(mean, log_variance)

    def log_variances(self, latents: int) -> slice:
        return slice(latents, 2 * latents)


@part
class IsotropicNormal(Posterior):
    """N(mean, variance I): the means, then one log-variance for all latents (mathieu2019, section 7)."""

    def width(self, latents: int) -> int:
        return latents + 1

    def build(self, raw: Float[Tensor, "batch width"]) -> Q:
        raw = precise(raw)
        mean = raw[:, :-1]
        return DiagonalQ(mean, raw[:, -1:].expand(*mean.shape))

    def log_variances(self, latents: int) -> slice:
        return slice(latents, latents + 1)


@dataclass(frozen=True)
class FullQ(Q):
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


@part
class FullNormal(Posterior):
    """N(mean, L L^T) with a Cholesky factor L (rolinek2019, 8.3): means, log L_jj^2, then L below the diagonal."""

    def width(self, latents: int) -> int:
        return 2 * latents + latents * (latents - 1) // 2

    def build(self, raw: Float[Tensor, "batch width"]) -> Q:
        raw = precise(raw)
        # width = d (d + 3) / 2
        latents = int((-3 + (9 + 8 * raw.shape[-1]) ** 0.5) / 2 + 0.5)
        mean, log_variance, rest = raw.split((latents, latents, raw.shape[-1] - 2 * latents), -1)
        rows, columns = torch.tril_indices(latents, latents, -1, device=raw.device)
        # A matrix product with a constant places the entries: unlike index assignment it works under vmap.
        place = torch.zeros(rest.shape[-1], latents * latents, dtype=raw.dtype, device=raw.device)
        place[torch.arange(rest.shape[-1], device=raw.device), rows * latents + columns] = 1.0
        below = (rest @ place).unflatten(-1, (latents, latents))
        return FullQ(mean, below + torch.diag_embed((0.5 * log_variance).exp()))

    def log_variances(self, latents: int) -> slice:
        return slice(latents, 2 * latents)


@dataclass(frozen=True)
class PointQ(Q):
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


@part
class Deterministic(Posterior):
    """A point: the plain autoencoder."""

    def width(self, latents: int) -> int:
        return latents

    def build(self, raw: Float[Tensor, "batch width"]) -> Q:
        return PointQ(precise(raw))


diagonal_normal = DiagonalNormal()
isotropic_normal = IsotropicNormal()
full_normal = FullNormal()
deterministic = Deterministic()

NAMED = {
    "diagonal_normal": diagonal_normal,
    "isotropic_normal": isotropic_normal,
    "full_normal": full_normal,
    "deterministic": deterministic,
}


def named(posterior: Any) -> Posterior:
    """A posterior by its name, or the one that is given.

    >>> named("full-normal")
    FullNormal()
    """
    return naming.named("posterior", posterior, Posterior, NAMED)
