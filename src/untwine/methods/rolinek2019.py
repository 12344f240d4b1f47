"""Rolinek et al. 2019: the diagonal posterior aligns latents; a full one is the control."""

from __future__ import annotations

from untwine import vocabulary as uw
from untwine.arguments import Number, Whole
from untwine.methods.registry import method


@method(
    network={
        (64, 64): "rolinek_dsprites",
        (28, 28): "rolinek_mnist",
        (3,): "rolinek_linear",
        (6,): "rolinek_nonlinear",
    },
    optimiser="adagrad",
    lr=1e-2,
    batch_size=128,
    steps=230_400,  # 50 epochs of 80 percent of dSprites
    latents=5,
    sampling="epochs",
)
def beta_vae_full(beta: Number = 4.0, anneal: Whole = 0) -> uw.Objective:
    """E|x - Dec(z)|^2 + beta KL(N(mu, Sigma) || N(0, I)) with a full covariance: the control (rolinek2019, 8.3, S77).

    Args:
        beta: Weight of the KL.
        anneal: Steps over which beta rises linearly from 0.
    """
    return uw.Objective(
        likelihood=uw.likelihoods.squared_error,
        posterior=uw.posteriors.full_normal,
        prior=uw.priors.standard_normal,
        penalties={"kl": uw.ramp(beta, anneal) * uw.penalties.kl},
    )
