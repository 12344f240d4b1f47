"""Penalties on each posterior's divergence from the prior: the KL, the entropy, and a target for either."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.objective.core import Penalty
from untwine.objective.schedules import Number, Schedule, ramp, schedule
from untwine.objective.terms import Needs, Pass, Term
from untwine.parts import bounded, part


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
class Distance(Term):
    """|value - target|, where the value is another penalty's, its weight included."""

    penalty: Penalty
    target: Schedule

    def needs(self, info: Info) -> Needs:
        return self.penalty.term.needs(info)  # by the same names: one penalty needs no others to tell it from

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        # Inside a pass weights and targets are numbers or tensors: the trainer evaluated the schedules.
        return (self.penalty.weight * self.penalty.term.value(passed) - self.target).abs()

    def adversary_loss(self, passed: Pass) -> Float[Tensor, ""] | None:
        return self.penalty.term.adversary_loss(passed)


kl = Penalty(KL())
entropy = Penalty(Entropy())


def distance(penalty: Penalty, target: Number) -> Penalty:
    """How far another penalty's batch mean is from a target: a number, a schedule, or one for each member.

    >>> distance(kl, 5.0).term.target
    Constant(value=5.0)
    """
    if not isinstance(penalty, Penalty):
        raise UntwineError(f"a distance is that of a penalty such as penalties.kl, not of {penalty!r}")
    if penalty.watched:
        raise UntwineError("a penalty that is only watched has no distance: watch the distance instead")
    return Penalty(Distance(penalty, schedule(target)))


def capacity(maximum: Number = 25.0, steps: int = 100_000) -> Penalty:
    """|KL - C| with a capacity C that rises from 0 to `maximum` nats over `steps` (Burgess et al. 2018).

    >>> capacity(25.0, 100).term.target([0, 50, 200])
    array([ 0. , 12.5, 25. ])
    """
    if not isinstance(maximum, Schedule):
        maximum = bounded(maximum, "a capacity", lambda nats: nats >= 0, "0 or more")
    return distance(kl, ramp(maximum, steps))


__all__ = ["capacity", "distance", "entropy", "kl"]
