"""Samples of distributions as functions of uniforms: without a generator they repeat, and work under vmap.

Every sample is exact, and gradients reach locations and scales. The choice of a mixture's component is a step
function: the weights of a mixture get no gradient from samples.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch import distributions as D
from torch.distributions import constraints

from untwine.errors import UntwineError

_NEWTON = 10  # enough for p from 0.1 on; for p of 0.5 or more six would do


def width(distribution: D.Distribution) -> int:
    """The number of uniforms that a sample takes.

    >>> width(D.Independent(D.StudentT(torch.full((3,), 4.0)), 1))
    6
    """
    if isinstance(distribution, D.MixtureSameFamily):
        return 1 + width(distribution.component_distribution)
    if isinstance(distribution, D.LowRankMultivariateNormal):
        return sum(distribution.cov_factor.shape[-2:])
    if isinstance(distribution, D.MultivariateNormal):
        return distribution.event_shape.numel()
    if isinstance(distribution, D.Independent) and distribution.reinterpreted_batch_ndims == 0:
        return width(distribution.base_dist)
    if isinstance(distribution, D.Independent) and not distribution.base_dist.event_shape:
        return distribution.event_shape.numel() * _scalar_width(distribution.base_dist)
    raise _refused(distribution)


def draw(distribution: D.Distribution, uniforms: Float[Tensor, "n width"]) -> Float[Tensor, "n latent"]:
    """One sample for each row of uniforms.

    Args:
        distribution: A distribution over vectors.
        uniforms: Numbers strictly inside (0, 1).

    >>> normal = D.Independent(D.Normal(torch.zeros(2), torch.ones(2)), 1)
    >>> draw(normal, torch.tensor([[0.5, 0.975]]))
    tensor([[0.0000, 1.9600]])
    """
    return _vectors(distribution, uniforms)


def _vectors(p: D.Distribution, u: Tensor) -> Tensor:
    """Samples `[n, *batch, latent]` of a distribution over vectors; u is `[n, *ones, width]`."""
    if isinstance(p, D.MixtureSameFamily):
        samples = _vectors(p.component_distribution, u[..., None, 1:])
        return torch.where(_chosen(p, u[..., 0])[..., None], samples, 0.0).sum(-2)
    if isinstance(p, D.LowRankMultivariateNormal):
        factor = p.cov_factor
        shared, independent = torch.special.ndtri(u).split((factor.shape[-1], factor.shape[-2]), -1)
        return p.loc + (factor @ shared[..., None])[..., 0] + p.cov_diag.sqrt() * independent
    if isinstance(p, D.MultivariateNormal):
        return p.loc + (p.scale_tril @ torch.special.ndtri(u)[..., None])[..., 0]
    if isinstance(p, D.Independent) and p.reinterpreted_batch_ndims == 0:
        return _vectors(p.base_dist, u)
    if isinstance(p, D.Independent) and not p.base_dist.event_shape:
        return _numbers(p.base_dist, u.unflatten(-1, (-1, _scalar_width(p.base_dist))))
    raise _refused(p)


def _scalar_width(p: D.Distribution) -> int:
    """The number of uniforms that one number takes."""
    if isinstance(p, D.MixtureSameFamily):
        return 1 + _scalar_width(p.component_distribution)
    if isinstance(p, D.StudentT):
        return 2
    try:
        p.icdf(torch.tensor(0.5))
    except NotImplementedError:
        raise _refused(p) from None
    return 1


def _numbers(p: D.Distribution, u: Tensor) -> Tensor:
    """Samples `[n, *batch]` of a distribution over numbers; u is `[n, *ones, width of a number]`."""
    if isinstance(p, D.MixtureSameFamily):
        samples = _numbers(p.component_distribution, u[..., None, 1:])
        return torch.where(_chosen(p, u[..., 0]), samples, 0.0).sum(-1)
    if isinstance(p, D.Normal):  # torch's own quantile is less accurate in the tails
        return p.loc + p.scale * torch.special.ndtri(u[..., 0])
    if isinstance(p, D.StudentT):
        # Bailey 1994: the polar form of Box and Muller, t = sqrt(df (u^(-2/df) - 1)) cos(2 pi v).
        half = -u[..., 0].log() / p.df  # u^(-2/df) = exp(2 half), which may be past the largest float
        radius = p.df.sqrt() * half.exp() * (-torch.expm1(-2 * half)).sqrt()
        return p.loc + p.scale * radius * (2 * math.pi * u[..., 1]).cos()
    return p.icdf(u[..., 0])


def _chosen(mixture: D.MixtureSameFamily, u: Tensor) -> Tensor:
    """The component that each uniform chooses, as a one-hot mask: `[..., components]`."""
    weights = mixture.mixture_distribution.probs
    number = (u[..., None] >= weights.cumsum(-1)[..., :-1]).sum(-1, keepdim=True)
    return number == torch.arange(weights.shape[-1], device=u.device)


def _refused(distribution: D.Distribution) -> UntwineError:
    """The error for a distribution that cannot be sampled from uniforms."""
    while isinstance(distribution, D.Independent):
        distribution = distribution.base_dist
    return UntwineError(
        f"samples of {type(distribution).__name__} cannot be made from uniforms: such a prior serves penalties "
        "that take its density alone, such as 'kl', but not those that need samples of it, such as 'mmd' and "
        "'kl_prior_aggregate'"
    )


class GeneralisedNormal(D.Distribution):
    """p / (2 scale Gamma(1/p)) exp(-|z / scale|^p) for each number: Laplace for p = 1, normal for p = 2.

    >>> laplace = GeneralisedNormal(torch.tensor(1.0), torch.tensor(0.5))
    >>> laplace.log_prob(torch.tensor(0.3)), D.Laplace(0.0, 0.5).log_prob(torch.tensor(0.3))
    (tensor(-0.6000), tensor(-0.6000))
    """

    arg_constraints = {"p": constraints.positive, "scale": constraints.positive}  # type: ignore[assignment] # noqa: RUF012
    support = constraints.real  # type: ignore[assignment]

    def __init__(self, p: Tensor, scale: Tensor, validate_args: bool | None = None):
        self.p, self.scale = torch.broadcast_tensors(p, scale)
        super().__init__(self.p.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return torch.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (torch.lgamma(3 / self.p) - torch.lgamma(1 / self.p)).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        size = (value / self.scale).abs()
        # For p < 1 the slope at zero is infinite on either side. It counts as zero there, as for p = 1.
        nonzero = size > torch.finfo(size.dtype).tiny
        power = torch.where(nonzero, torch.where(nonzero, size, 1.0) ** self.p, 0.0)
        return (0.5 * self.p / self.scale).log() - torch.lgamma(1 / self.p) - power

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile, accurate to a few rounding errors of the distribution's width; no gradient for p.

        x = |z / scale|^p is Gamma(a, 1) with a = 1 / p, so Q(a, x) = w must be solved, w = 2 min(u, 1 - u).
        Newton's method for log Q as a function of x (p > 1) or of |z| (p < 1): both are convex then, so that
        steps from below never pass the solution. It starts at P(a, x) <= x^a / Gamma(a + 1).
        """
        with torch.no_grad():
            a, upper = 1 / self.p, 2 * torch.minimum(value, 1 - value)
            log_x = ((1 - upper).log() + torch.lgamma(a + 1)) / a
            power = torch.clamp(a, min=1.0)
            for _ in range(_NEWTON):
                x = log_x.exp()
                tail = torch.special.gammaincc(a, x)
                excess = (tail.log() - upper.log()).clamp(min=0.0)
                density = (a * log_x - x - torch.lgamma(a)).exp()  # that of log x
                step = torch.log1p(excess * power * tail / density) / power
                log_x = torch.where(x > 1e-7, log_x + step, log_x)  # below, the start is exact to rounding
            size = (a * log_x).exp()
        return self.scale * size * (value - 0.5).sign()
