"""What every metric gives where nothing was learned: the floor from which a score is to be read."""

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
from untwine.scoring.requests import Request, requests

LATENTS = 10
KINDS = ("noise", "collapsed", "untrained")
BETA = 100.0  # a weight on the KL under which every latent collapses


def run(
    wanted: tuple[str, ...] = (),
    seeds: int = 3,
    steps: int = 200,
    windows: int = 3,
    groups: int = 300,
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
    asked = requests(wanted or _all())
    data = uw.datasets.three_dots()
    rows = Rows(out, ("metric", "part"), {"dataset": "three_dots", "latents": LATENTS, "seeds": seeds})
    models = {
        "collapsed": _trained(data, BETA, seeds, steps, 1e-3, device),
        "untrained": _trained(data, 1.0, seeds, 1, 1e-9, device),
    }
    if any(active_counts(models["collapsed"], data)):
        raise UntwineError(f"after {steps} steps a latent is still active: train longer (steps)")
    names = [_named(request, groups) for request in asked]
    scores = {
        kind: uw.evaluate(ensemble, names, rho=0.1, windows=windows, progress=False)
        for kind, ensemble in models.items()
    }
    for request, name in zip(asked, names, strict=True):
        known = {kind: of_kind[name] for kind, of_kind in scores.items()}
        if (of_noise := _score_noise(request, data, seeds, windows, groups)) is not None:
            known["noise"] = of_noise
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


def _options(request: Request, groups: int) -> dict[str, Any]:
    """The number of groups, where the default would take hours; windows have few."""
    return {"groups": groups} if isinstance(request.metric.design, designs.Groups) and not request.local else {}


def _named(request: Request, groups: int) -> str:
    """The request as text, with the number of groups where it has such."""
    return request.name + "".join(f"({key}={value})" for key, value in _options(request, groups).items())


def _score_noise(request: Request, data: Dataset, seeds: int, windows: int, groups: int) -> Score | None:
    """The score of noise; None for metrics of what noise does not have, such as Jacobians."""
    metric = request.metric
    if metric.takes == ("codes",):
        return metric(list(noise(seeds, 10_000)) if metric.together else noise(seeds, 10_000))
    if metric.takes != PAIRED:
        return None
    encoded = 0

    def encode(states: np.ndarray) -> np.ndarray:
        nonlocal encoded
        encoded += len(states)
        return noise(seeds, len(states), encoded)

    score = local(metric, 0.1, windows) if request.local else sampled(metric, **_options(request, groups))
    return score(encode, States(data))


def _mean(score: Score, part: str) -> float | None:
    values: Sequence[Any] | np.ndarray | None = score.values if part == VALUE else score.details[part]
    return None if values is None else round(float(np.mean(values)), 4)
