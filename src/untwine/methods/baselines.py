"""The methods that the papers compare with, with the settings of rhodes2021's Figure 5 (its appendix B).

That figure's models were trained by disentanglement_lib: `locatello64` in place of the paper's own `rhodes64`, and
epochs in place of independent batches. Its beta-VAE is `Run(method="beta_vae", network="locatello64",
sampling="epochs", ...)`.
"""

from __future__ import annotations

from typing import Any, Literal

from untwine import vocabulary as uw
from untwine.arguments import Count, Number, Whole
from untwine.methods.registry import method

PUBLISHED = {
    "network": {(64, 64): "locatello64"},
    "optimiser": "adam",
    "lr": 1e-4,
    "batch_size": 64,
    "steps": 300_000,
    "latents": 10,
    "sampling": "epochs",
}


def _vae(**penalties: uw.Penalty) -> uw.Objective:
    """A VAE for images with the given penalties."""
    return uw.Objective(
        likelihood=uw.likelihoods.bernoulli,
        posterior=uw.posteriors.diagonal_normal,
        prior=uw.priors.standard_normal,
        penalties=penalties,
    )


@method(**PUBLISHED)
def annealed_vae(gamma: Number = 1000.0, capacity: Number = 25.0, anneal: Whole = 100_000) -> uw.Objective:
    """E[-log p(x|z)] + gamma |KL(q(z|x) || N(0, I)) - C(t)| (Burgess et al. 2018).

    Args:
        gamma: Weight of the distance between the KL and its target.
        capacity: Where the target C, in nats, ends.
        anneal: Steps over which C rises linearly from 0.
    """
    return _vae(capacity=gamma * uw.penalties.capacity(capacity, anneal))


@method(**PUBLISHED | {"steps": 150_000}, added={"second": True})
def factor_vae(
    gamma: Number = 30.0,
    hidden: Count = 1000,
    layers: Count = 6,
    discriminator_lr: Number = 1e-4,
    second: bool = True,
) -> uw.Objective:
    """E[-log p(x|z)] + KL(q(z|x) || N(0, I)) + gamma TC(q(z)), by a discriminator (Kim & Mnih 2018, Eq. 2).

    disentanglement_lib counts the discriminator's updates as steps, too: the 300,000 steps of rhodes2021's Figure 5 are
    150,000 updates of the model, the default here.

    Args:
        gamma: Weight of the total correlation.
        hidden: Width of the discriminator's layers.
        layers: The number of its layers.
        discriminator_lr: Learning rate of the discriminator's Adam, whose betas are 0.5 and 0.9.
        second: Whether the discriminator sees a second batch permuted, as in the paper, or the same one, as in
            disentanglement_lib.
    """
    correlation = uw.penalties.adversarial_total_correlation(hidden, layers, discriminator_lr, second)
    return _vae(kl=1.0 * uw.penalties.kl, total_correlation=gamma * correlation)


@method(**PUBLISHED)
def beta_tcvae(beta: Number = 4.0, estimator: Literal["weighted", "stratified"] = "weighted") -> uw.Objective:
    """E[-log p(x|z)] + KL(q(z|x) || N(0, I)) + (beta - 1) TC(q(z)) (Chen et al. 2018, Eq. 4 with alpha = gamma = 1).

    Args:
        beta: Weight of the total correlation, where the KL counts as 1.
        estimator: The estimate of the total correlation: weighted (minibatch-weighted sampling) or stratified.
    """
    beyond_kl = uw.constant(beta) - 1.0
    return _vae(kl=1.0 * uw.penalties.kl, total_correlation=beyond_kl * uw.penalties.total_correlation(estimator))


@method(**PUBLISHED)
def dip_vae_i(lambda_od: Number = 5.0, lambda_d: Number = 50.0) -> uw.Objective:
    """ELBO + lambda_od sum_(i != j) C_ij^2 + lambda_d sum_i (C_ii - 1)^2, C = Cov[mean] (Kumar et al. 2018, Eq. 6).

    Args:
        lambda_od: Weight of the covariances off the diagonal.
        lambda_d: Weight of the variances' distance from 1.
    """
    return _vae(kl=1.0 * uw.penalties.kl, dip=uw.penalties.dip_i(lambda_od, lambda_d))


@method(**PUBLISHED)
def dip_vae_ii(lambda_od: Number = 5.0, lambda_d: Number = 5.0) -> uw.Objective:
    """As DIP-VAE-I, with C = Cov[mean] + E[posterior covariance], that of q(z) itself (Kumar et al. 2018, Eq. 7).

    Args:
        lambda_od: Weight of the covariances off the diagonal.
        lambda_d: Weight of the variances' distance from 1.
    """
    return _vae(kl=1.0 * uw.penalties.kl, dip=uw.penalties.dip_ii(lambda_od, lambda_d))


@method(optimiser="adam", lr=1e-3, batch_size=100, steps=100_000, latents=10)
def info_vae(
    alpha: Number = 0.0, lam: Number = 1000.0, divergence: Any = "mmd(kernel=rbf, scales=0.5)"
) -> uw.Objective:
    """E[-log p(x|z)] + (1 - alpha) KL(q(z|x) || p) + (alpha + lam - 1) D(q(z), p) (Zhao et al. 2019).

    Args:
        alpha: The preference for information between x and z: 0 is indifferent, 1 drops the KL.
        lam: Weight of the aggregate's divergence from the prior.
        divergence: D, by default with the kernel exp(-d^2 / latents).
    """
    return _vae(
        kl=(1.0 - uw.constant(alpha)) * uw.penalties.kl,
        divergence=(uw.constant(alpha) + uw.constant(lam) - 1.0) * divergence,
    )


@method(optimiser="adam", lr=1e-3, batch_size=100, steps=100_000, latents=8)
def wae_mmd(
    lam: Number = 10.0, divergence: Any = "mmd(kernel=imq, scales=(0.1, 0.2, 0.5, 1, 2, 5, 10))"
) -> uw.Objective:
    """E|x - g(h(x))|^2 + lam MMD(q(z), N(0, I)), with a deterministic encoder h (Tolstikhin et al. 2018, Eq. 4).

    Args:
        lam: Weight of the divergence.
        divergence: By default that of the authors' code; those that need a density need another posterior, too.
    """
    return uw.Objective(
        likelihood=uw.likelihoods.squared_error,
        posterior=uw.posteriors.deterministic,
        prior=uw.priors.standard_normal,
        penalties={"divergence": lam * divergence},
    )
