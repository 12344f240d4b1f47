"""Autoencoders: the plain one, the variational one, and the one with a weight on its KL."""

from __future__ import annotations

from untwine import vocabulary as uw
from untwine.arguments import Number, Whole
from untwine.methods.registry import method


@method
def ae() -> uw.Objective:
    """A plain autoencoder: E[-log p(x | h(x))], no noise and no prior (rolinek2019, section 5.1)."""
    return uw.Objective(
        likelihood=uw.likelihoods.bernoulli,
        posterior=uw.posteriors.deterministic,
        prior=uw.priors.standard_normal,
    )


@method
def vae() -> uw.Objective:
    """The negative ELBO, E[-log p(x|z)] + KL(q(z|x) || N(0, I)) (rhodes2021, Eq. 1; rolinek2019, Eq. 2)."""
    return uw.Objective(
        likelihood=uw.likelihoods.bernoulli,
        posterior=uw.posteriors.diagonal_normal,
        prior=uw.priors.standard_normal,
        penalties={"kl": 1.0 * uw.penalties.kl},
    )


@method
def beta_vae(beta: Number = 4.0, anneal: Whole = 0) -> uw.Objective:
    """E[-log p(x|z)] + beta KL(q(z|x) || N(0, I)) (Higgins et al. 2017; mathieu2019, Eq. 2).

    Args:
        beta: Weight of the KL.
        anneal: Steps over which beta rises linearly from 0; rhodes2021 uses 100000 in its Figure 4.
    """
    return uw.Objective(
        likelihood=uw.likelihoods.bernoulli,
        posterior=uw.posteriors.diagonal_normal,
        prior=uw.priors.standard_normal,
        penalties={"kl": uw.ramp(beta, anneal) * uw.penalties.kl},
    )
