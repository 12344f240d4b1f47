"""Penalties with a model that plays against them: FactorVAE's total correlation (Kim & Mnih 2018)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from untwine.arguments import Count, PositiveNumber
from untwine.kernels.layers import Linear
from untwine.model.info import Info
from untwine.objective.aggregate import Divergence
from untwine.objective.core import penalty
from untwine.objective.terms import Adversary, Needs, Pass, held
from untwine.parts import part


@part
class AdversarialTotalCorrelation(Divergence):
    """FactorVAE's total correlation: E over z of log D(z) / (1 - D(z)), where D tells q(z) from its marginals.

    The total correlation is KL(q(z) || prod_j q(z_j)), and the log-odds of the best discriminator D are the log-ratio
    of the two densities (Kim & Mnih 2018, Eq. 3). D has two logits, as in the paper, though their difference is
    all that counts: with one, Adam's steps would be those of another parametrisation. D trains along with the model,
    by Adam with betas 0.5 and 0.9 (Algorithm 1 and Appendix A), one step for each of the model's.

    Args:
        hidden: The width of D's hidden layers, which are leaky ReLUs.
        layers: The number of hidden layers.
        lr: The learning rate of D.
        second: Whether the latents that D sees permuted are those of a second batch, as in Algorithm 1, or those of the
            batch itself, as in disentanglement_lib.
    """

    hidden: Count = 1000
    layers: Count = 6
    lr: PositiveNumber = 1e-4
    second: bool = True

    def needs(self, info: Info) -> Needs:
        adversary = Adversary(self._build, {"name": "adam", "beta1": 0.5, "beta2": 0.9}, self.lr)
        order = {"order": ("uniform", (info.latents,))}
        return Needs(noise=order, second=self.second, adversaries={"discriminator": adversary})

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
        source = passed.second if self.second else passed.z
        assert source is not None
        permuted = permute(source.detach(), passed.noise["order"])
        both = torch.cat((passed.z.detach(), permuted))
        odds = _log_odds(passed.adversaries["discriminator"], both)
        joint, product = odds[: len(passed.z)], odds[len(passed.z) :]
        return 0.5 * (F.softplus(-joint).mean() + F.softplus(product).mean())


def _log_odds(discriminator: Callable[[Tensor], Tensor], z: Float[Tensor, "n latent"]) -> Float[Tensor, " n"]:
    """The logarithm of the odds that z is a sample of q(z) rather than of its marginals."""
    logits = discriminator(z).to(z.dtype)
    return logits[:, 0] - logits[:, 1]


def permute(z: Float[Tensor, "n latent"], uniforms: Float[Tensor, "rows latent"]) -> Float[Tensor, "n latent"]:
    """Every latent shuffled over the batch on its own: samples of about the product of marginals (Algorithm 1).

    Uniforms give the order; where they have more rows than z, the first ones do.
    """
    return z.gather(0, uniforms[: len(z)].argsort(0))


adversarial_total_correlation = penalty(AdversarialTotalCorrelation)

__all__ = ["adversarial_total_correlation"]
