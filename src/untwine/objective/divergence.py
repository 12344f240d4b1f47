"""Penalties on each posterior: its KL from the prior, its entropy, and a target for either."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from untwine.arguments import NonNegative, NonNegativeNumber, Whole
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.posteriors import PointQ
from untwine.objective.core import Penalty
from untwine.objective.schedules import Number, Schedule, ramp, schedule
from untwine.objective.terms import Needs, Pass, Term
from untwine.parts import part


@part
class KL(Term):
    """KL(q(z|x) || p(z)), mean over the batch; closed form where there is one, else at the sample z."""

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        return passed.q.kl(passed.prior, passed.z).mean()


@part
class Entropy(Term):
    """H[q(z|x)], mean over the batch: the overlap of encodings (mathieu2019, Eq. 3).

    A loss rewards entropy with a negative weight: Eq. 5 is kl + -(beta - 1) * entropy, up to a constant.
    """

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        return passed.q.entropy().mean()


@part
class DeltaKL(Term):
    """|L_KL - L_approxKL| / L_KL: how far the batch is from the polarised regime (rolinek2019, Eq. 30).

    Both are means over the batch: L_KL the KL to N(0, I) (Eq. 4), L_approxKL the part of it that active latents
    have, without their variances (Eq. 10). Active are latents whose mean variance is below the threshold. Of a full
    covariance the diagonal counts. A quantity to watch: `metrics.delta_kl` is the same on arrays.
    """

    threshold: NonNegative = 0.5

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        if isinstance(passed.q, PointQ):
            raise UntwineError("delta_kl needs a posterior with a variance, and a deterministic one has none")
        variance = passed.q.variance()
        without = 0.5 * (passed.q.mean.square() - variance.log() - 1).mean(0)
        mean_variance = variance.mean(0)
        kl = (without + 0.5 * mean_variance).clamp_min(0).sum()  # rounding may pass 0
        approximate = torch.where(mean_variance < self.threshold, without, 0.0).sum()
        # Without any KL nothing is approximated.
        return torch.where(kl > 0, (kl - approximate).abs() / torch.where(kl > 0, kl, 1.0), 0.0)


@part(named=False)
class Distance(Term):
    """|value - target|, where the value is that of another penalty, its weight included."""

    penalty: Penalty
    target: Schedule

    def __post_init__(self) -> None:
        if self.penalty.watched:
            raise UntwineError("a penalty that is only watched has no distance: watch the distance instead")

    def needs(self, info: Info) -> Needs:
        return self.penalty.term.needs(info)  # by the same names: there is no other penalty to tell it from

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        # Inside a pass weights and targets are numbers or tensors: the trainer evaluated the schedules.
        return (self.penalty.weight * self.penalty.term.value(passed) - self.target).abs()

    def adversary_loss(self, passed: Pass) -> Float[Tensor, ""] | None:
        return self.penalty.term.adversary_loss(passed)


kl = Penalty(KL())
entropy = Penalty(Entropy())
delta_kl = Penalty(DeltaKL())


@Penalty.registry.bound
def distance(penalty: Penalty, target: Number) -> Penalty:
    """How far the batch mean of another penalty is from a target.

    Args:
        penalty: The other penalty.
        target: A number, a schedule, or a number for each member.

    >>> distance(kl, 5.0).term.target
    Constant(value=5.0)
    """
    return Penalty(Distance(penalty, schedule(target)))


@Penalty.registry.bound
def capacity(maximum: NonNegativeNumber = 25.0, steps: Whole = 100_000) -> Penalty:
    """|KL - C| with a capacity C that rises from 0 to `maximum` nats over `steps` (Burgess et al. 2018).

    Args:
        maximum: Where C ends, in nats.
        steps: How many steps C takes to rise.

    >>> capacity(25.0, 100).term.target([0, 50, 200])
    array([ 0. , 12.5, 25. ])
    """
    return distance(kl, ramp(maximum, steps))


__all__ = ["capacity", "delta_kl", "distance", "entropy", "kl"]
