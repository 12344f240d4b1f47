"""How long metrics take on this machine, on one core."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from untwine import metrics
from untwine.bench.rows import Row, write_rows
from untwine.data import FactorSpace
from untwine.data.windows import around
from untwine.errors import UntwineError, refuse_unknown
from untwine.metrics.designs import Groups
from untwine.streams import np_uniform

_GROUPS = 1_500
_MODELS = 5


def run(
    samples: int = 10_000,
    latents: int = 10,
    factors: int = 6,
    values: int = 64,
    repeats: int = 3,
    only: tuple[str, ...] = (),
    out: str | None = None,
) -> list[Row]:
    """Milliseconds of each metric on one core, encoding aside: the best of several calls.

    Codes are the factors with noise, in a random mixture. `local_mig` is on 20 windows of as many samples each; scores
    of groups are on 1,500 groups of 64; dto on 1,000 Jacobians; udr on five models; decomposition on all samples.

    Args:
        samples: How many samples.
        latents: Codes of each sample.
        factors: How many factors.
        values: Values of each factor.
        repeats: Timed calls of each metric, after one that is not timed; metrics that take seconds are not repeated.
        only: The names of the metrics to time; by default all.
        out: A JSON file to write the rows to, with what they were measured on.
    """
    if min(samples, latents, factors, repeats) < 1 or values < 2:
        raise UntwineError("a benchmark needs one sample, latent, factor and call or more, and two values or more")
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
    """The least milliseconds of several calls."""

    def once() -> float:
        start = time.perf_counter()
        task()
        return 1e3 * (time.perf_counter() - start)

    first = once()  # imports, and caches of the processor
    return first if first > 5_000 else min(once() for _ in range(repeats))


def _tasks(space: FactorSpace, samples: int, latents: int) -> dict[str, Callable[[], Any]]:
    """A call of each metric, on arrays that are made once."""
    mixture = _normal("mixture", (len(space), latents)) / len(space) ** 0.5
    scale = max(space.sizes)

    def encode(states: np.ndarray, purpose: str) -> np.ndarray:
        return states / scale @ mixture + 0.05 * _normal(purpose, (*states.shape[:-1], latents))

    states = space.sample(samples, seed=0)
    codes = encode(states, "codes")
    windows = [around(space, 0.1, 0, step).sample(samples, 0, step) for step in range(20)]
    in_windows = [(encode(window, f"window {i}"), window) for i, window in enumerate(windows)]

    def local_mig() -> None:
        for window_codes, window_states in in_windows:
            metrics.mig(window_codes, window_states, bins=5)

    posterior, prior = _posterior(codes)
    arrays = {
        "codes": codes,
        "factors": states,
        "means": codes,
        "variances": np.full_like(codes, 0.1),
        "jacobians": _normal("jacobians", (1_000, latents, 64)),
        "posterior": posterior,
        "prior": prior,
    }
    tasks: dict[str, Callable[[], Any]] = {"local_mig": local_mig}
    for name in metrics.names():
        metric = metrics.get(name)
        if metric.together:
            tasks[name] = partial(metric, [encode(states, f"model {i}") for i in range(_MODELS)])
        elif isinstance(metric.design, Groups):
            grouped = metric.design.draw(space, _GROUPS * metric.design.states, 0)
            tasks[name] = partial(metric, encode(grouped, name), grouped)
        else:
            tasks[name] = partial(metric, *(arrays[array] for array in metric.takes))
    return dict(sorted(tasks.items()))


def _posterior(codes: np.ndarray) -> tuple[Any, Any]:
    """Posteriors with these means, and a standard normal prior."""
    import torch
    from torch import distributions as D

    from untwine.model.posteriors import DiagonalQ

    means = torch.from_numpy(codes).float()
    normal = D.Normal(torch.zeros(means.shape[1]), torch.ones(means.shape[1]))
    return DiagonalQ(means, torch.full_like(means, -2.0)), D.Independent(normal, 1)


def _normal(purpose: str, shape: tuple[int, ...]) -> np.ndarray:
    from scipy.special import ndtri

    return ndtri(np_uniform(0, f"bench {purpose}", shape))
