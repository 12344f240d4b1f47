"""What every metric gives for codes that know nothing of the factors: the floor from which a score is to be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import untwine as uw
from untwine import metrics
from untwine.bench.rows import Row, Rows
from untwine.data import Dataset
from untwine.errors import UntwineError
from untwine.metrics import Score, designs, local, sampled
from untwine.metrics.forced import VALUE
from untwine.metrics.sampling import PAIRED
from untwine.scoring.collapse import active_counts
from untwine.scoring.requests import requests

LATENTS = 10
KINDS = ("noise", "collapsed", "untrained")
BETA = 100.0  # a weight on the KL under which every latent collapses


def run(
    wanted: tuple[str, ...] = (),
    seeds: int = 3,
    steps: int = 300,
    windows: int = 5,
    groups: int = 1_500,
    out: str | None = None,
    device: str = "auto",
) -> list[Row]:
    """Score noise, collapsed models and untrained networks on three_dots, by all metrics and their local forms.

    Noise is standard normal, the same for the same state; collapsed models were trained with a beta of 100. All have
    ten latents. Points are those of the defaults, but there are fewer windows and groups, which only adds noise.

    Args:
        wanted: Metrics, by default all: mig, local-mig.
        seeds: How many models of each kind, whose scores are averaged.
        steps: Training steps of collapsed models.
        windows: Windows of local metrics, of radius 0.1.
        groups: Groups of the scores that need interventions.
        out: A file for the rows; those of other metrics that it holds stay.
        device: auto, cpu, cuda or mps.
    """
    data = uw.datasets.three_dots()
    rows = Rows(out, ("metric", "part"), {"dataset": "three_dots", "latents": LATENTS, "seeds": seeds})
    models = {
        "collapsed": _trained(data, BETA, seeds, steps, 1e-3, device),
        "untrained": _trained(data, 1.0, seeds, 1, 1e-9, device),
    }
    if any(active_counts(models["collapsed"], data)):
        raise UntwineError(f"after {steps} steps a latent is still active: train longer (steps)")
    for name in wanted or _all():
        (request,) = requests([name])
        options = {"groups": groups} if isinstance(request.metric.design, designs.Groups) else {}
        scores = {kind: _score(name, models[kind], options, windows) for kind in models}
        noise = _noise(request.metric.__name__, request.local, data, seeds, options, windows)
        known = scores if noise is None else {"noise": noise, **scores}
        for part in (VALUE, *request.metric.parts):
            means = {kind: _mean(score, part) for kind, score in known.items()}
            rows.put({"metric": request.name, "part": part, **{kind: means.get(kind) for kind in KINDS}})
    return rows.new


class States(Dataset):
    """The states of another dataset, seen as they are: noise needs no pictures."""

    def __init__(self, data: Dataset) -> None:
        assert data.factors is not None
        super().__init__((len(data.factors),), 1, data.factors)
        self.spec = data.spec

    def _batch(self, indices: np.ndarray) -> np.ndarray:
        return self._observe(self._factors_of(indices))

    def _factors_of(self, indices: np.ndarray) -> np.ndarray:
        return np.zeros((len(indices), *self.shape), np.int64)

    def _observe(self, factors: np.ndarray) -> np.ndarray:
        return factors.astype(np.float32)


def noise(seeds: int, points: int, first: int = 0) -> np.ndarray:
    """Standard normal codes `[seeds, points, 10]`.

    Args:
        seeds: How many models.
        points: How many codes of each.
        first: The number of the first point.

    >>> noise(2, 5).shape
    (2, 5, 10)
    """
    return np.random.default_rng(first).normal(size=(seeds, points, LATENTS)).astype(np.float32)


def _all() -> list[str]:
    names = metrics.names()
    return [*names, *(f"local-{name}" for name in names if metrics.get(name).takes == PAIRED)]


def _trained(data: Dataset, beta: float, seeds: int, steps: int, lr: float, device: str) -> uw.Ensemble:
    method = uw.methods.beta_vae(beta)
    spec = uw.Run(method=method, dataset=data, latents=LATENTS, seeds=range(seeds), steps=steps, lr=lr)
    return uw.fit(spec, device=device)


def _score(name: str, ensemble: uw.Ensemble, options: dict[str, Any], windows: int) -> Score:
    arguments = ", ".join(f"{key}={value}" for key, value in options.items())
    (label,) = (scores := uw.evaluate(ensemble, [f"{name}({arguments})"], rho=0.1, windows=windows, progress=False))
    return scores[label]


def _noise(name: str, is_local: bool, data: Dataset, seeds: int, options: dict[str, Any], windows: int) -> Score | None:
    """The score of noise; None for metrics of what noise does not have, such as Jacobians."""
    metric = metrics.get(name)
    if metric.takes == ("codes",):
        return metric(list(noise(seeds, 10_000)) if metric.together else noise(seeds, 10_000))
    if metric.takes != PAIRED:
        return None
    encoded = 0

    def encode(states: np.ndarray) -> np.ndarray:
        nonlocal encoded
        encoded += len(states)
        return noise(seeds, len(states), encoded)

    score = local(name, 0.1, windows, **options) if is_local else sampled(name, **options)
    return score(encode, States(data))


def _mean(score: Score, part: str) -> float | None:
    values: Sequence[Any] | np.ndarray | None = score.values if part == VALUE else score.details[part]
    return None if values is None else round(float(np.mean(values)), 4)
