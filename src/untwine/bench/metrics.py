"""How long metrics take on this machine, on one core."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from untwine import metrics
from untwine.bench.rows import write_rows
from untwine.data import FactorSpace
from untwine.data.windows import around
from untwine.errors import UntwineError, refuse_unknown
from untwine.streams import np_uniform


def run(
    samples: int = 10_000,
    latents: int = 10,
    factors: int = 6,
    values: int = 64,
    repeats: int = 3,
    only: tuple[str, ...] = (),
    out: str | None = None,
) -> list[dict[str, Any]]:
    """Milliseconds for each metric, encoding aside: the best of some repetitions, on one core.

    Codes are the factors with noise, in a random mixture. `local_mig` is on 20 windows of as many samples each; scores
    of groups are on 1,500 groups of 64; dto on 1,000 Jacobians; udr on five models; decomposition on all samples.

    Args:
        samples: How many codes.
        latents: Codes of each sample.
        factors: How many factors.
        values: Values of each factor.
        repeats: Of each metric, after a first call that is not timed; those that take seconds are not repeated.
        only: The names of some metrics, instead of all.
        out: A JSON file to write the rows to, with what they were measured on.
    """
    if min(samples, latents, factors, repeats) < 1 or values < 2:
        raise UntwineError("a benchmark needs one sample, latent, factor and repetition or more, of two values or more")
    from threadpoolctl import threadpool_limits

    space = FactorSpace(tuple(f"factor{i}" for i in range(factors)), (values,) * factors, ("ordered",) * factors)
    tasks = _tasks(space, samples, latents)
    chosen = [name.replace("-", "_") for name in only] or list(tasks)
    refuse_unknown("metric", chosen, tasks)
    with threadpool_limits(1):
        rows = [{"metric": name, "milliseconds": _best(tasks[name], repeats)} for name in chosen]
    if out is not None:
        write_rows(out, rows, {"samples": samples, "latents": latents, "factors": factors, "values": values})
    return rows


def _best(task: Callable[[], Any], repeats: int) -> float:
    def once() -> float:
        start = time.perf_counter()
        task()
        return 1e3 * (time.perf_counter() - start)

    first = once()  # imports, and caches of the processor
    return first if first > 5_000 else min(once() for _ in range(repeats))


def _tasks(space: FactorSpace, samples: int, latents: int) -> dict[str, Callable[[], Any]]:
    mixture = _normal("mixture", (len(space), latents)) / len(space) ** 0.5
    scale = max(space.sizes)

    def encode(states: np.ndarray, purpose: str) -> np.ndarray:
        return states / scale @ mixture + 0.05 * _normal(purpose, (*states.shape[:-1], latents))

    states = space.sample(samples, seed=0)
    codes = encode(states, "codes")
    windows = [around(space, 0.1, 0, step).sample(samples, 0, step) for step in range(20)]
    in_windows = [(encode(window, f"window {i}"), window) for i, window in enumerate(windows)]

    def local_mig() -> None:
        for there, window in in_windows:
            metrics.mig(there, window, bins=5)

    tasks: dict[str, Callable[[], Any]] = {}
    for name in metrics.names():
        metric = metrics.get(name)
        if metric.takes == ("codes", "factors"):
            drawn = metric.design.draw(space, min(metric.design.points, _POINTS.get(name, samples)), 0)
            sample = (encode(drawn, name), drawn) if drawn.ndim > 2 else (codes, states)
            tasks[name] = partial(metric, *sample)
    tasks["local_mig"] = local_mig
    others = {
        "hoyer": partial(metrics.hoyer, codes),
        "delta_kl": partial(metrics.delta_kl, codes, np.full_like(codes, 0.1)),
        "dto": partial(metrics.dto, _normal("jacobians", (1_000, latents, 64))),
        "udr": partial(metrics.udr, [encode(states, f"model {i}") for i in range(5)]),
        "decomposition": partial(metrics.decomposition, *_posterior(codes)),
    }
    return tasks | others


_POINTS = {"factor_vae_score": 1_500 * 64, "beta_vae_score": 1_500 * 64 * 2}


def _posterior(codes: np.ndarray) -> tuple[Any, Any]:
    import torch
    from torch import distributions as D

    from untwine.model.posteriors import DiagonalQ

    means = torch.from_numpy(codes).float()
    normal = D.Normal(torch.zeros(means.shape[1]), torch.ones(means.shape[1]))
    return DiagonalQ(means, torch.full_like(means, -2.0)), D.Independent(normal, 1)


def _normal(purpose: str, shape: tuple[int, ...]) -> np.ndarray:
    from scipy.special import ndtri

    return ndtri(np_uniform(0, f"bench {purpose}", shape))
