"""Penalties on the aggregate posterior q(z) = E_x q(z|x), estimated on a batch.

A sum over the data is replaced by a weighted sum over the batch. The weights decide which way an estimate
errs; the docstrings say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from untwine.arguments import Positive
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.objective.core import Penalty, penalty
from untwine.objective.terms import Needs, Pass, Term
from untwine.parts import part


class Divergence(Term):
    """A term on the aggregate posterior: how far q(z) is from the prior, or from what else it should be.

    Any penalty can be named where a method takes a divergence; help texts and tables list these.
    """


# --- densities --------------------------------------------------------------------------------------


def stratified_weights(
    batch: int, size: int, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> Float[Tensor, "{batch} {batch}"]:
    """Weights of q(z_i | x_j) whose sum over j is an unbiased estimate of q(z_i) (Chen et al. 2018, Appendix C).

    The batch is M + 1 of the N = `size` examples, without replacement: 1/N for the example that z_i is from,
    (N - M) / (N M) for the next one in the batch (the first one follows the last), 1/M for the others. Rows
    sum to 1. A batch that is larger than the data (drawn with replacement) counts as data of its own size,
    which keeps every weight positive.

    >>> stratified_weights(3, 10)
    tensor([[0.1000, 0.4000, 0.5000],
            [0.5000, 0.1000, 0.4000],
            [0.4000, 0.5000, 0.1000]])
    """
    if batch < 2:
        raise UntwineError("stratified sampling needs a batch of 2 examples or more: one other besides each")
    size = max(size, batch)
    others = batch - 1
    same = torch.eye(batch, dtype=dtype, device=device)
    following = same.roll(1, 1)
    return same / size + following * ((size - others) / (size * others)) + (1 - same - following) / others


def _log_weights(passed: Pass, estimator: str) -> Float[Tensor, "#batch #batch"]:
    """The logarithm of the weight of q(z_i | x_j)."""
    batch = len(passed.z)
    if estimator == "mixture":
        return passed.z.new_full((1, 1), -math.log(batch))
    if passed.data_size < 1:
        raise UntwineError(f"the {estimator} estimate of q(z) needs the number of training examples: data_size")
    if estimator == "weighted":
        return passed.z.new_full((1, 1), -math.log(passed.data_size * batch))
    return stratified_weights(batch, passed.data_size, passed.z.dtype, passed.z.device).log()


@part
class TotalCorrelation(Divergence):
    """The total correlation of the aggregate posterior, KL(q(z) || prod_k q(z_k)) (Chen et al. 2018, Eq. 2).

    It is estimated at the samples z. `estimator="weighted"` (their section 3) weighs every q(z_i | x_j) by
    1 / (N M), for N examples and batches of M. It exceeds the truth by about (d - 1) log N for d latents, also where
    the batch is all of the data: a constant, which has no gradient but shows in the log. `"stratified"` (their
    Appendix C) has weights whose estimates of the densities are unbiased; the logarithms of the joint density and of
    the marginals then both err downwards (Jensen), so the sign of the difference's error is open. It vanishes as
    batches grow.
    """

    estimator: Literal["weighted", "stratified"] = "weighted"

    def needs(self, info: Info) -> Needs:
        return Needs(examples=2 if self.estimator == "stratified" else 1)

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        weights = _log_weights(passed, self.estimator)
        joint = (passed.q.log_matrix(passed.z) + weights).logsumexp(1)
        marginals = (passed.q.log_marginals(passed.z) + weights[..., None]).logsumexp(1)
        return (joint - marginals.sum(1)).mean()


@part
class KLAggregatePrior(Divergence):
    """KL(q(z) || p(z)) at the samples z: the divergence of mathieu2019, Eq. 7, that Kumar et al. 2018 have in mind.

    `estimator="mixture"` takes q(z) to be the batch's mixture of posteriors, q_B(z) = (1/B) sum_j q(z|x_j). It errs
    upwards, since the KL is convex and q(z) the mean of q_B: by E KL(q_B || q), which is large (up to
    log(N/B) for N examples) where posteriors hardly overlap. `"stratified"` (see `total_correlation`) has an
    unbiased q(z), whose logarithm errs downwards (Jensen), and the KL with it. So the truth is between them.
    """

    estimator: Literal["mixture", "stratified"] = "mixture"

    def needs(self, info: Info) -> Needs:
        return Needs(examples=2 if self.estimator == "stratified" else 1)

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        weights = _log_weights(passed, self.estimator)
        aggregate = (passed.q.log_matrix(passed.z) + weights).logsumexp(1)
        return (aggregate - passed.prior.log_prob(passed.z)).mean()


@part
class KLPriorAggregate(Divergence):
    """KL(p(z) || q(z)) at samples of the prior, with q(z) the batch's mixture (1/B) sum_j q(z|x_j).

    mathieu2019, Eq. 7 with the divergence of section 6.2. It errs upwards: the batch's mixture is q(z) on
    average, so the logarithm of the one is on average below that of the other (Jensen). With all of the
    data as the batch it is unbiased.
    """

    def needs(self, info: Info) -> Needs:
        return Needs(prior=True)

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        z = _prior_sample(passed)
        aggregate = passed.q.log_matrix(z).logsumexp(1) - math.log(len(passed.z))
        return (passed.prior.log_prob(z) - aggregate).mean()


def _prior_sample(passed: Pass) -> Float[Tensor, "n latent"]:
    """Samples of the prior, which the term asked for."""
    assert passed.prior_sample is not None
    return passed.prior_sample


# --- samples alone ----------------------------------------------------------------------------------

# A kernel k(d) of the squared distance d and a constant c, and its slope dk/dd. All are 1 at 0. In place
# wherever the tensor is new: there are many pairs, and a new matrix costs more than the arithmetic.
_KERNELS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "imq": (lambda d, c: (d + c).reciprocal_().mul_(c), lambda d, c: (d + c).pow_(-2).mul_(-c)),
    "rbf": (lambda d, c: (d / -c).exp_(), lambda d, c: (d / -c).exp_().div_(-c)),
}


def _around(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both less the mean of the first: distances stay, and do not drown in squares far from the origin."""
    centre = a.mean(0)
    return a - centre, b - centre


def _squared_distances(a: Float[Tensor, "n latent"], b: Float[Tensor, "m latent"]) -> Float[Tensor, "n m"]:
    squares = a.square().sum(1)[:, None] + b.square().sum(1)
    return (squares - 2 * a @ b.T).clamp_min(0)  # no [n, m, latent] of differences; rounding may pass 0


def _slopes(slope: Callable[[Tensor, Tensor], Tensor], distances: Tensor, constants: Tensor) -> Tensor:
    total = slope(distances, constants[0])
    for constant in constants[1:]:
        total += slope(distances, constant)
    return total


class _KernelSum(torch.autograd.Function):
    """Sum of a kernel over all pairs (a_i, b_j) and all constants; for each latent alone if `per_dimension`.

    Autograd would keep several matrices of pairs for each scale. This keeps a and b, and computes the
    slopes again in the backward pass.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(kernel: str, per_dimension: bool, a: Tensor, b: Tensor, constants: Tensor) -> Tensor:
        value = _KERNELS[kernel][0]
        distances = (a[:, None] - b).square() if per_dimension else _squared_distances(*_around(a, b))
        return torch.stack([value(distances, constant).sum() for constant in constants]).sum()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kernel, ctx.per_dimension = inputs[:2]
        ctx.save_for_backward(*inputs[2:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,), (a, b, constants) = gradients, ctx.saved_tensors
        slope = _KERNELS[ctx.kernel][1]
        if ctx.per_dimension:
            differences = a[:, None] - b
            pull = _slopes(slope, differences.square(), constants).mul_(differences)
            to_a, to_b = pull.sum(1), -pull.sum(0)
        else:
            a, b = _around(a, b)
            slopes = _slopes(slope, _squared_distances(a, b), constants)
            to_a = slopes.sum(1)[:, None] * a - slopes @ b
            to_b = slopes.sum(0)[:, None] * b - slopes.T @ a
        return None, None, 2 * gradient * to_a, 2 * gradient * to_b, None


@part
class MMD(Divergence):
    """The squared maximum mean discrepancy between the samples z and as many of the prior (Tolstikhin et al. 2018).

    An unbiased U-statistic, summed over scales: mean k(z_i, z_j) over i != j, plus the same of prior samples, minus
    twice the mean of k between the two. It may be negative, and is a number without a unit rather than nats.

    Args:
        kernel: imq, C / (C + d^2), or rbf, exp(-d^2 / C), for the distance d.
        scales: s, in C = 2 D s for D latents: 2 D is the mean squared distance of two standard normals.
        per_dimension: Whether to compare each latent's distribution alone (D = 1) and sum over latents (mathieu2019,
            section 6.3): blind to dependence between latents.
    """

    kernel: Literal["imq", "rbf"] = "imq"
    scales: tuple[Positive, ...] | Positive = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
    per_dimension: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.scales, float):
            object.__setattr__(self, "scales", (self.scales,))
        if not isinstance(self.scales, tuple) or not self.scales:
            raise UntwineError(f"scales of penalty 'mmd' must be positive numbers, not {self.scales!r}")

    def needs(self, info: Info) -> Needs:
        return Needs(prior=True, examples=2)

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        z, p = passed.z, _prior_sample(passed).to(passed.z)
        if min(len(z), len(p)) < 2:
            raise UntwineError("mmd needs a batch of 2 examples or more")
        assert isinstance(self.scales, tuple)
        dims, kernels = (1, z.shape[1] * len(self.scales)) if self.per_dimension else (z.shape[1], len(self.scales))
        constants = torch.stack([2.0 * dims * scale + z.new_zeros(()) for scale in self.scales])

        def between(a: Tensor, b: Tensor) -> Tensor:
            return _KernelSum.apply(self.kernel, self.per_dimension, a, b, constants)

        def within(a: Tensor) -> Tensor:
            return (between(a, a) - len(a) * kernels) / (len(a) * (len(a) - 1))  # k(a_i, a_i) = 1

        with torch.autocast(z.device.type, enabled=False):  # products of matrices would be in bfloat16
            return within(z) + within(p) - 2 * between(z, p) / (len(z) * len(p))


total_correlation = penalty(TotalCorrelation)
kl_aggregate_prior = penalty(KLAggregatePrior)
kl_prior_aggregate = Penalty(KLPriorAggregate())
mmd = penalty(MMD)

__all__ = ["kl_aggregate_prior", "kl_prior_aggregate", "mmd", "total_correlation"]
