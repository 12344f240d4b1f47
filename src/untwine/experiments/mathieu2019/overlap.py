"""Figures 1 and 3: overlap and regularisation of encodings, on points of a line and of a pinwheel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine import analysis
from untwine import vocabulary as uw
from untwine.arguments import Count
from untwine.experiments.engine.claims import Beyond, Trend
from untwine.experiments.engine.comparisons import Higher
from untwine.experiments.engine.contract import Case, Outcome, Plan, Trained, case, experiment
from untwine.experiments.engine.measures import Logged, Scored
from untwine.methods.mathieu2019 import decomposition_vae
from untwine.report import figures
from untwine.train.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Spec = Mapping[str, Any]

INFORMATION = "decomposition"  # I(x; z) in nats
MISMATCH = "decomposition kl_aggregate_prior"  # KL(q(z) || p(z)) in nats


def _pinwheel_run(method: uw.Objective, dataset: Spec, **settings: Any) -> Run:
    """Section 6.2: the network and the optimiser for points in the plane, whatever the objective."""
    common = dict(network="mathieu_pinwheel", lr=1e-3, optimiser="amsgrad", sampling="epochs", log_every=10)
    return Run(method, dict(dataset), watch=("entropy",), **common, **settings)


def _posteriors(trained: Trained) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of all examples by the first member."""
    x = trained.dataset.batch(np.arange(len(trained.dataset)))
    return trained.ensemble.encode(x)[0].numpy(), trained.ensemble.variances(x)[0].numpy()


# --- Figure 1 ----------------------------------------------------------------------------------------------

# The weights of the KL and of KL(p || q).
OVERLAPS = {
    "too little": (0.001, 0.0),
    "appropriate": (1.0, 0.0),
    "too much": (100.0, 0.0),
    "regularised": (0.001, 3.0),
}


@experiment(
    "mathieu2019/fig1",
    "too little overlap of encodings is a look-up table, too much says nothing of the data",
    smoke={"seeds": "0-1", "steps": 5},
    small={"seeds": "0-4"},
)
def fig1(seeds: str = "0-9", steps: int = 3_000, points: Count = 8, scale: float = 0.1) -> Plan:
    """The picture of both factors of decomposition (section 3), from trained models in place of a drawing.

    A VAE with one latent encodes a few points of a bent line, the first arm of a pinwheel. Overlap follows from beta
    (top): I(x; z) is log n for a look-up table and 0 for codes that say nothing. With a beta that leaves too little
    overlap, weight on KL(p || q) regularises the aggregate posterior (bottom). The paper's figure is a sketch without
    a setting; all numbers here are ours.
    """
    line = {"name": "pinwheel", "arms": 1, "points": points, "tangential_std": 0.01}

    def run(beta: float, alpha: float) -> Run:
        method = decomposition_vae(
            alpha, beta, "kl_prior_aggregate", uw.likelihoods.gaussian(scale), uw.priors.standard_normal
        )
        return _pinwheel_run(method, line, latents=1, batch_size=points, seeds=seeds, steps=steps)

    certain = math.log(points)
    return Plan(
        cases=[case(run(*numbers), overlap=name) for name, numbers in OVERLAPS.items()],
        measures=[Scored([INFORMATION])],
        claims=[
            # Within 5 percent of what tells all examples apart.
            Beyond("Too little overlap: a look-up table", INFORMATION, {"overlap": "too little"}, 0.95 * certain),
            Beyond(
                "Appropriate overlap: no such table",
                INFORMATION,
                {"overlap": "appropriate"},
                0.95 * certain,
                above=False,
            ),
            Beyond("Appropriate overlap: codes tell of the data", INFORMATION, {"overlap": "appropriate"}, math.log(2)),
            # A twentieth of it: examples can hardly be told apart.
            Beyond(
                "Too much overlap: data and latents say nothing of each other",
                INFORMATION,
                {"overlap": "too much"},
                0.05 * certain,
                above=False,
            ),
            Higher(
                "Without regularisation the aggregate posterior is further from the prior",
                MISMATCH,
                {"overlap": "too little"},
                {"overlap": "regularised"},
            ),
        ],
        figures={"fig1": _overlap_figure},
        caveats=["The paper's Figure 1 is a sketch; ours is measured on a toy that we chose."],
    )


def _overlap_figure(outcome: Outcome) -> Figure:
    names = ["too little", "too much", "appropriate"]
    encoded = {name: _posteriors(outcome.trained(overlap=name)) for name in OVERLAPS}
    shown = [*names, "regularised", "too little"]
    titles = [f"{name} overlap" for name in names] + ["good regularisation", "bad regularisation"]
    densities = [analysis.latent_densities(*encoded[name], prior=_standard_normal) for name in shown]
    return figures.overlap(densities, titles, apart=[True] * 3 + [False] * 2)


def _standard_normal(z: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)


# --- Figure 3 ----------------------------------------------------------------------------------------------


@experiment(
    "mathieu2019/fig3",
    "beta controls the overlap of clusters, alpha the match of the aggregate posterior with the prior",
    smoke={"seeds": "0-1", "steps": 3, "betas": (0.01, 1.2), "alphas": (1.0, 8.0), "points": 20},
    small={"seeds": "0-3"},
)
def fig3(
    seeds: str = "0-9",
    steps: int = 500,
    betas: tuple[float, ...] = (0.01, 0.5, 1.0, 1.2),
    alphas: tuple[float, ...] = (1.0, 3.0, 5.0, 8.0),
    points: Count = 100,
) -> Plan:
    """The aggregate posterior of the pinwheel under a prior of four clusters (section 6.2).

    Top: alpha 0, over beta. Bottom: beta 0, over alpha, the weight of KL(p || q). The whole set is one batch, so an
    epoch is a step. The authors' commands have (beta, alpha) = (1, 0) and (0, 1); the other values are ours. The paper
    shows one model of each; we train ten to test what it says. Overlap is the entropy of the encodings, and I(x; z).
    """
    data = {"name": "pinwheel", "points": points}

    def clusters(beta: float, alpha: float) -> Case:
        prior, likelihood = uw.priors.mixture_of_normals(), uw.likelihoods.learned_gaussian
        method = decomposition_vae(alpha, beta, "kl_prior_aggregate", likelihood, prior)
        run = _pinwheel_run(method, data, latents=2, batch_size=4 * points, seeds=seeds, steps=steps)
        return case(run, beta=beta, alpha=alpha)

    top, bottom = {"alpha": 0.0}, {"beta": 0.0}
    largest, middle = {"beta": max(betas), **top}, {"beta": sorted(betas)[1], **top}
    return Plan(
        cases=[*(clusters(beta, 0.0) for beta in betas), *(clusters(0.0, alpha) for alpha in alphas)],
        measures=[Scored([INFORMATION]), Logged(["entropy", "divergence"], last=0.1)],
        claims=[
            Trend("Increasing beta increases the variance of encodings", "entropy", "beta", top),
            Trend("Increasing beta increases their overlap", INFORMATION, "beta", top, rising=False),
            # Less than a bit: not even two halves of the data are told apart.
            Beyond("With too large a beta encodings lose meaning", INFORMATION, largest, math.log(2), above=False),
            Higher("Too large a beta causes a mismatch of q(z) and p(z): KL(q || p)", MISMATCH, largest, middle),
            Higher("Too large a beta causes a mismatch: KL(p || q)", "divergence", largest, middle),
            Trend("Increasing alpha improves the match of q(z) and p(z)", "divergence", "alpha", bottom, rising=False),
            Trend("Increasing alpha increases overlap too", INFORMATION, "alpha", bottom, rising=False),
            # Codes still tell more than which of the four clusters an example is in.
            Beyond(
                "A large alpha does not collapse the encodings to a mode",
                INFORMATION,
                {"alpha": max(alphas), **bottom},
                math.log(4),
            ),
        ],
        figures={"fig3": lambda outcome: _density_figure(outcome, betas, alphas)},
        caveats=["The authors' decoder learns a scale for each coordinate of each point, ours one for all points."],
    )


def _density_figure(outcome: Outcome, betas: Sequence[float], alphas: Sequence[float]) -> Figure:
    shown = [(beta, 0.0) for beta in betas] + [(0.0, alpha) for alpha in alphas]
    encoded = [_posteriors(outcome.trained(beta=beta, alpha=alpha)) for beta, alpha in shown]
    means, variances = (np.stack(arrays) for arrays in zip(*encoded, strict=True))
    result = analysis.aggregate_density(means, variances, bounds=((-2.0, 2.0), (-2.0, 2.0)))
    titles = [f"β = {beta:g}, α = {alpha:g}" for beta, alpha in shown]
    return figures.density(result, titles=titles, across=len(betas), common=False)
