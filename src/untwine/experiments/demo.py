"""A first look: beta-VAE beside JL1-VAE on a small three-dots, in a few minutes on two CPU cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import untwine as uw
from untwine.scoring import results
from untwine.scoring.compare import comparisons
from untwine.train.loop import Interrupted

METRICS = ("local-mig", "local-modularity")


def run_demo(
    out: str | Path = "runs/demo", steps: int = 1_000, windows: int = 20, points: int = 10_000, device: str = "auto"
) -> dict[str, Any]:
    """Train two seeds of each method, score them locally, and return their results.

    Both methods have beta = 1, and JL1-VAE gamma = 0.1 besides; the weights rise over all the steps. (The
    models begin to see the dots after some 500 steps; had the weights risen by then, some would never see them.)

    Args:
        out: The folder of the results. Methods that are trained there already are not trained again.
        steps: Training steps of each method.
        windows: How many windows local scores are averaged over.
        points: Pictures in each window.
        device: auto, cpu, cuda or mps.
    """
    out = Path(out)
    data = uw.datasets.three_dots(size=32, positions=32, examples=50_000)
    methods = {
        "beta_vae": uw.methods.beta_vae(beta=1.0, anneal=steps),
        "jl1_vae": uw.methods.jl1_vae(beta=1.0, gamma=0.1, anneal=steps, columns=2, estimator="exact"),
    }
    for name, method in methods.items():
        spec = uw.Run(
            method=method,
            dataset=data,
            network=uw.networks.conv(channels=(16, 32, 32), log_variance=-3.0),
            latents=6,
            seeds=[0, 1],
            steps=steps,
            batch_size=64,
            lr=1e-3,
            watch=("jacobian_l1",),  # in full for both: what JL1-VAE trains on is a sample of two columns
        )
        try:
            uw.fit(spec, folder(out, name), device)
        except Interrupted:
            raise Interrupted("interrupted; what was trained is kept: start the demo again to resume") from None
    settings = {"windows": windows, "points": points, "device": device}
    scores = {name: uw.evaluate(folder(out, name), METRICS, **settings) for name in methods}
    return {
        "methods": outcome(out),
        "scores": {name: method_scores.summary() for name, method_scores in scores.items()},
        "comparisons": comparisons({name.replace("_", "-"): method_scores for name, method_scores in scores.items()}),
    }


def folder(out: str | Path, method: str) -> Path:
    """The folder of a method's run."""
    return Path(out) / method.replace("_", "-")


def outcome(out: str | Path) -> dict[str, dict[str, Any]]:
    """The results that a demo's folder holds so far, by method and member."""
    return {name: results.members(folder(out, name)) for name in ("beta_vae", "jl1_vae")}
