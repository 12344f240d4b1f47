"""The aggregate posterior of all data, q(z) = (1/n) sum_j q(z|x_j), and other functions of posteriors and priors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from untwine.errors import UntwineError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributions import Distribution

    from untwine.model.posteriors import Q

_PAIRS = {"cpu": 2**18}  # pairs of a point and an example at once: what the cache of a CPU holds
_MANY_PAIRS = 2**23
_LARGEST = 1e11  # the largest mean^2 / variance at which a difference of squares is exact to 1e-4


def log_aggregate(q: Q, z: Tensor, marginals: bool = True) -> tuple[Tensor, Tensor]:
    """log q(z) of points `[m, latent]` and log q(z_k) of their latents `[m, latent]`, q(z) the mixture of all of q.

    Args:
        q: The posteriors of all examples, in float64.
        z: The points; where marginals are wanted, samples of posteriors in q.
        marginals: Whether log q(z_k) is wanted.

    >>> import torch
    >>> from untwine.model.posteriors import DiagonalQ
    >>> two = DiagonalQ(torch.tensor([[0.0], [1000.0]]).double(), torch.zeros(2, 1).double())
    >>> joint, marginals = log_aggregate(two, torch.zeros(1, 1).double())
    >>> round(joint.item(), 4), round(-0.5 * math.log(2 * math.pi) - math.log(2), 4)
    (-1.6121, -1.6121)
    """
    import torch

    from untwine.model.posteriors import DiagonalQ, FullQ

    n, latents = q.mean.shape
    joint, each = [], []
    variance = q.variance().T
    mean, precision = q.mean.T, 1 / variance
    # log N(z; m, v) is linear in (z^2, z, 1): a matrix product for all pairs of points and examples. [latent, 3, n]
    constant = -0.5 * (mean.square() * precision + variance.log() + math.log(2 * math.pi))
    slopes = torch.stack((-0.5 * precision, mean * precision, constant), 1)
    quick = isinstance(q, DiagonalQ | FullQ) and bool((mean.square() * precision).max() < _LARGEST)
    size = max(1, _PAIRS.get(z.device.type, _MANY_PAIRS) // n)
    for part in z.split(size):
        powers = torch.stack((part.square(), part, torch.ones_like(part)), 2)  # [points, latent, 3]
        if quick and isinstance(q, DiagonalQ):
            matrix = powers.flatten(1) @ slopes.flatten(0, 1)
        else:
            matrix = q.log_matrix(part)
        joint.append(matrix.logsumexp(1))
        if not marginals:
            continue
        if quick:
            # A point's own posterior has a density that neither overflows nor vanishes: no maximum need be taken out.
            each.append(torch.stack([(powers[:, k] @ slopes[k]).exp_().sum(1).log_() for k in range(latents)], 1))
        else:
            each.append(q.log_marginals(part).logsumexp(1))
    return torch.cat(joint) - math.log(n), torch.cat(each) - math.log(n) if marginals else z


def log_marginals(prior: Distribution, z: Tensor) -> Tensor | None:
    """log p(z_k) of each latent alone, `[*points, latent]`; None where a prior's marginals are not known."""
    from torch import distributions as D

    if isinstance(prior, D.Independent):
        if prior.reinterpreted_batch_ndims == 0:
            return log_marginals(prior.base_dist, z)
        return None if prior.base_dist.event_shape else prior.base_dist.log_prob(z)
    if isinstance(prior, D.MultivariateNormal | D.LowRankMultivariateNormal):
        return D.Normal(prior.mean, prior.variance.sqrt()).log_prob(z)
    if isinstance(prior, D.MixtureSameFamily):
        each = log_marginals(prior.component_distribution, z[..., None, :])
        weights: Any = prior.mixture_distribution
        return None if each is None else (each + weights.logits[..., None]).logsumexp(-2)
    return None


def dtype(prior: Any) -> Any:
    """The dtype of a distribution's parameters: products of matrices do not mix dtypes."""
    import torch

    inner = getattr(prior, "base_dist", None) or getattr(prior, "component_distribution", None)
    if inner is not None:
        return dtype(inner)
    values = (getattr(prior, name) for name in prior.arg_constraints)
    return next((value.dtype for value in values if isinstance(value, torch.Tensor)), torch.float32)


def log_prob(prior: Distribution, z: Tensor) -> Tensor:
    """log p(z) in float64, computed in the dtype of the prior."""
    return prior.log_prob(z.to(dtype(prior))).double()


def sampled(q: Q, seeds: Tensor, purpose: str, step: int) -> Tensor:
    """A sample of each posterior: a pure function of the seed, the purpose and the step."""
    import torch

    from untwine import streams

    noise = streams.normal(seeds, purpose, torch.tensor([step], device=seeds.device), q.mean.numel())
    return q.sample(noise.view(q.mean.shape).to(q.mean.dtype))


def mapped(q: Q, function: Callable[[Tensor], Tensor]) -> Q:
    """The same posteriors with a function applied to every tensor."""
    return replace(q, **{field.name: function(getattr(q, field.name)) for field in fields(q)})  # type: ignore[type-var]


def rows(q: Q, index: Tensor) -> Q:
    """The posteriors of the examples of these numbers."""
    return mapped(q, lambda tensor: tensor[index])


def check_posterior(posterior: Any, prior: Any) -> None:
    """Refuse what is no posterior of examples with a density, or no prior over its latents."""
    from torch.distributions import Distribution

    from untwine.model.posteriors import PointQ, Q

    if not isinstance(posterior, Q) or not is_dataclass(posterior):
        raise UntwineError(f"a posterior is what vae.posterior(x) gives, a dataclass of tensors, not {posterior!r}")
    if isinstance(posterior, PointQ):
        raise UntwineError(
            "a deterministic posterior has no density: its codes share infinitely many nats with the data"
        )
    if posterior.mean.ndim != 2:
        shape = list(posterior.mean.shape)
        raise UntwineError(
            f"the means of a posterior have shape {shape}; they must be [n, d], or give a list of posteriors"
        )
    n, latents = posterior.mean.shape
    if n < 2:
        raise UntwineError(f"an aggregate posterior needs the posteriors of 2 examples or more, not of {n}")
    if not (posterior.mean.isfinite().all() and posterior.variance().isfinite().all()):
        raise UntwineError("the posteriors hold a NaN or an infinity; did the model diverge?")
    if not isinstance(prior, Distribution) or (*prior.batch_shape, *prior.event_shape) != (latents,):
        raise UntwineError(f"a prior is a torch distribution over {latents} latents such as vae.prior(), not {prior!r}")
    if not prior.event_shape:
        raise UntwineError(f"the prior has {latents} distributions of numbers: wrap it in Independent(prior, 1)")
