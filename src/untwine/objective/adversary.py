"""Penalties with a model that plays against them: FactorVAE's total correlation (Kim & Mnih 2018)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from untwine.errors import UntwineError
from untwine.kernels.layers import Linear
from untwine.model.info import Info
from untwine.objective.core import Penalty
from untwine.objective.schedules import Number, Schedule
from untwine.objective.terms import Adversary, Needs, Pass, Term, held
from untwine.parts import Each, bounded, part


@part
class AdversarialTotalCorrelation(Term):
    """E over z of log D(z) / (1 - D(z)), where D tells q(z) from the product of its marginals.

    The total correlation is KL(q(z) || prod_j q(z_j)), and the log-odds of the best D are the log-ratio of
    the two densities (Kim & Mnih 2018, Eq. 3). D has two logits, as in the paper, though their difference is
    all that counts: with one, Adam's steps would be those of another parametrisation.
    """

    hidden: int = 1000
    layers: int = 6
    lr: float | Each | Schedule = 1e-4

    def needs(self, info: Info) -> Needs:
        adversary = Adversary(self._build, {"name": "adam", "beta1": 0.5, "beta2": 0.9}, self.lr)
        order = {"order": ("uniform", (info.latents,))}
        return Needs(noise=order, second=True, adversaries={"discriminator": adversary})

    def _build(self, info: Info) -> nn.Module:
        widths = [info.latents, *[self.hidden] * self.layers]
        layers: list[nn.Module] = []
        for i in range(self.layers):
            layers += [Linear(widths[i], widths[i + 1]), nn.LeakyReLU(0.2)]
        return nn.Sequential(*layers, Linear(self.hidden, 2))

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        return _log_odds(held(passed.adversaries["discriminator"]), passed.z).mean()

    def adversary_loss(self, passed: Pass) -> Float[Tensor, ""]:
        """1/2 (cross-entropy of the samples + cross-entropy of samples with permuted latents)."""
        assert passed.second is not None
        permuted = permute(passed.second.detach(), passed.noise["order"])
        both = torch.cat((passed.z.detach(), permuted))
        odds = _log_odds(passed.adversaries["discriminator"], both)
        joint, product = odds[: len(passed.z)], odds[len(passed.z) :]
        return 0.5 * (F.softplus(-joint).mean() + F.softplus(product).mean())


def _log_odds(discriminator: Callable[[Tensor], Tensor], z: Float[Tensor, "n latent"]) -> Float[Tensor, " n"]:
    """log of the probability of `joint` over that of `permuted`."""
    logits = discriminator(z).to(z.dtype)
    return logits[:, 0] - logits[:, 1]


def permute(z: Float[Tensor, "n latent"], uniforms: Float[Tensor, "rows latent"]) -> Float[Tensor, "n latent"]:
    """Every latent shuffled over the batch on its own: samples of about the product of marginals (Algorithm 1).

    Uniforms give the order; where they have more rows than z, the first ones do.
    """
    return z.gather(0, uniforms[: len(z)].argsort(0))


def adversarial_total_correlation(hidden: int = 1000, layers: int = 6, lr: Number = 1e-4) -> Penalty:
    """FactorVAE's total correlation: `layers` hidden layers of `hidden` leaky ReLUs tell q(z) from its marginals.

    The discriminator trains along with the model, by Adam with betas 0.5 and 0.9 and a learning rate `lr` of
    its own (Kim & Mnih 2018, Algorithm 1 and Appendix A). It sees the batch and, permuted, a second one.
    """
    for name, value in (("hidden", hidden), ("layers", layers)):
        if not (isinstance(value, int) and value >= 1):
            raise UntwineError(f"{name} must be a whole number, 1 or more, not {value!r}")
    rate = lr if isinstance(lr, Schedule) else bounded(lr, "the discriminator's learning rate")
    return Penalty(AdversarialTotalCorrelation(hidden, layers, rate))


__all__ = ["adversarial_total_correlation"]
