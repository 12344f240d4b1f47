"""Posteriors q(z | x): what an encoder's raw output stands for."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from untwine.model.encoded import DiagonalQ, FullQ, PointQ, Q
from untwine.namespace import directory
from untwine.parts import Part, part


class Posterior(Part, kind="posterior"):
    """A posterior as a method names it: how wide the encoder's output is, and what it means."""

    def width(self, latents: int) -> int:
        """The number of raw values that describe a posterior."""
        raise NotImplementedError

    def build(self, raw: Float[Tensor, "batch width"]) -> Q:
        """The posteriors that raw values describe."""
        raise NotImplementedError

    def log_variances(self, latents: int) -> slice:
        """Where in the raw output the log-variances stand (for networks that start them at a value)."""
        return slice(0, 0)


def precise(x: Tensor) -> Tensor:
    """float32, whatever precision a network ran in; float64 stays."""
    return x if x.dtype == torch.float64 else x.float()


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

named = Posterior.named  # a posterior from its text, or the posterior itself

__all__ = [
    "DiagonalQ",
    "FullQ",
    "PointQ",
    "Posterior",
    "Q",
    "deterministic",
    "diagonal_normal",
    "full_normal",
    "isotropic_normal",
    "named",
]
__dir__ = directory(__all__)
