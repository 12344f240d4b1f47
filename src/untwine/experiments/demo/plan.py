"""What the demo trains, measures, claims and draws."""

from __future__ import annotations

from functools import partial
from typing import Any

import untwine as uw
from untwine.experiments.demo import pictures
from untwine.experiments.engine.comparisons import Higher
from untwine.experiments.engine.contract import Case, Plan, case
from untwine.experiments.engine.measures import Computed, Logged, Scored
from untwine.experiments.rhodes2021.published import BETA_VAE, JL1, MEASURES
from untwine.experiments.rhodes2021.where import share_in_one

METHODS = {BETA_VAE: "beta_vae", JL1: "jl1_vae"}  # by the names in pictures and sentences
DATASET: dict[str, Any] = {"name": "three_dots", "size": 16, "radius": 0.12, "examples": 50_000}
NETWORK: dict[str, Any] = {"name": "mlp", "hidden": [256, 128]}
SETTINGS: dict[str, Any] = {"latents": 8, "batch_size": 64, "lr": 2e-3, "log_every": 100}
BETA, GAMMA = 0.25, 0.2
RADIUS = 0.1  # of the windows of local scores, as in the paper

# What the demo's numbers are, in words, by measure, in the order in which they are told.
WORDS = {
    "share_in_one": "share at one dot",
    "local_mig": "local MIG",
    "local_modularity": "local modularity",
    "reconstruction": "reconstruction error (nats)",
}
# What JL1-VAE is said to do, by measure; its numbers are higher if it does.
CLAIMS = {
    "share_in_one": "With JL1-VAE, more of what a latent changes in a picture lies at a single dot",
    "local_mig": "With JL1-VAE, near a picture, each x and y of a dot is more that of a single latent (local MIG)",
    "local_modularity": "With JL1-VAE, near a picture, a latent answers to fewer of these x and y (local modularity)",
    "reconstruction": "This has a price: JL1-VAE reconstructs pictures less exactly",
}

SMALL = (
    "This is a small experiment, {models} models of each method and {steps:,} steps: the paper (Rhodes & Lee 2021) has "
    "ten models, and 300,000 steps on larger pictures."
)
TEST = (
    "The share and both scores lie between 0 and 1. Tests are Welch's, corrected by Holm for being four; an effect is "
    "in standard deviations."
)
# What each picture shows.
LOOK = {
    "1-dots": "the data: the models see such pictures, and nothing else",
    "2-reconstructions": "pictures, and what a model of each method makes of their codes",
    "3-traversals": "along a row one latent changes: how many dots move?",
    "4-columns": "what a small step of each latent changes, with the share of it at one dot",
    "5-numbers": "the numbers below, a point for each model",
}


def plan(seeds: str, steps: int, windows: int, points: int) -> Plan:
    """The plan of the demo.

    Args:
        seeds: The seeds of each method's models.
        steps: Training steps.
        windows: How many windows local scores are averaged over.
        points: Pictures in each window.
    """
    local = Scored(MEASURES, (RADIUS,), {"windows": windows, "points": points})
    where = Computed("share in one", share_in_one, {"places": "dots", "images": 64})
    drawings = [pictures.dots, pictures.reconstructions, pictures.traversals, pictures.columns]
    drawings.append(partial(pictures.numbers, words=WORDS))
    first, second = {"method": JL1}, {"method": BETA_VAE}
    return Plan(
        cases=cases(seeds, steps),
        measures=[where, local, Logged(["reconstruction"])],
        claims=[Higher(text, measure, first, second) for measure, text in CLAIMS.items()],
        figures=dict(zip(LOOK, drawings, strict=True)),
    )


def cases(seeds: str, steps: int) -> list[Case]:
    """β-VAE and JL1-VAE, which differ in the penalty on the Jacobian alone.

    The weights rise over all the steps, so that models learn to see the dots first. Where they rose within a sixth of
    such a short run, JL1-VAE used fewer latents, and its local scores were no higher.
    """
    objectives = {
        BETA_VAE: uw.methods.beta_vae(beta=BETA, anneal=steps),
        JL1: uw.methods.jl1_vae(beta=BETA, gamma=GAMMA, anneal=steps, every=2),
    }
    return [
        case(uw.Run(objective, DATASET, NETWORK, seeds=seeds, steps=steps, **SETTINGS), method=name)
        for name, objective in objectives.items()
    ]
