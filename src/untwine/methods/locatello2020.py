"""Locatello et al. 2020: pairs of images that share some factors. Settings are michlo2023's (its appendix C).

That paper standardises its images, too: `Run(..., standardise=True)`.
"""

from __future__ import annotations

from typing import Literal

from untwine import vocabulary as uw
from untwine.arguments import Count, Number
from untwine.methods.registry import method

PUBLISHED = {
    "network": {(64, 64): "michlo64"},
    "optimiser": "adam",
    "lr": 1e-3,
    "batch_size": 256,
    "steps": 57_600,
    "latents": 9,
}


def _ada(beta: Number, pairing: uw.Pairing) -> uw.Objective:
    return uw.Objective(
        likelihood=uw.likelihoods.squared_error,
        posterior=uw.posteriors.diagonal_normal,
        prior=uw.priors.standard_normal,
        penalties={"kl": uw.constant(beta) * uw.penalties.kl},
        pairing=pairing,
    )


@method(**PUBLISHED)
def ada_gvae(
    beta: Number = 1.0,
    differing: Count | None = None,
    distance: Literal["symmetric", "forward"] = "symmetric",
    repeat: bool = False,
) -> uw.Objective:
    """E|x - g(z)|^2 + beta KL(q || N(0, I)) on pairs; close latents average means and variances (michlo2023, 5.2, B.2).

    The method is that of Locatello et al. 2020.

    Args:
        beta: Weight of the KL; michlo2023's normalised one is this times latents / pixels.
        differing: In how many factors a pair differs; None draws a number uniform from 1 to all.
        distance: The distance of two posteriors: symmetric (michlo2023, Eq. 14) or forward, as in the original.
        repeat: Whether a factor that is drawn anew may get its old value again, as in public code.
    """
    return _ada(beta, uw.pairings.ada("moments", distance, differing, repeat))


@method(**PUBLISHED)
def ada_mlvae(
    beta: Number = 1.0,
    differing: Count | None = None,
    distance: Literal["symmetric", "forward"] = "symmetric",
    repeat: bool = False,
    average: Literal["product", "harmonic", "moments"] = "product",
) -> uw.Objective:
    """As Ada-GVAE, except that close latents multiply their densities (Locatello et al. 2020, section 4).

    Args:
        beta: Weight of the KL; michlo2023's normalised one is this times latents / pixels.
        differing: In how many factors a pair differs; None draws a number uniform from 1 to all.
        distance: The distance of two posteriors: symmetric (michlo2023, Eq. 14) or forward, as in the original.
        repeat: Whether a factor that is drawn anew may get its old value again, as in public code.
        average: product; harmonic, with twice its variance, as in public code; or moments, as in Ada-GVAE.
    """
    return _ada(beta, uw.pairings.ada(average, distance, differing, repeat))
