"""Penalties on the posterior's divergence from the prior."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from untwine.objective.core import Pass, Penalty, Term
from untwine.parts import part


@part
class KL(Term):
    """KL(q(z|x) || p(z)), mean over the batch; closed form where there is one, else at the sample z."""

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        return passed.q.kl(passed.prior, passed.z).mean()


kl = Penalty(KL())
