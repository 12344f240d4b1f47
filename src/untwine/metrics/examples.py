"""Sampling of training examples, for datasets that do not have exactly one image of every state."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int64

from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.windows import Window, around
from untwine.errors import UntwineError
from untwine.metrics.arrays import varying
from untwine.metrics.score import metrics
from untwine.streams import np_bits_of

LEAST = 20  # examples that a window must hold, and states that a sample must have to be split
TRIES = 1000  # states around which windows are tried


def inside(window: Window, labels: Int64[np.ndarray, "n k"]) -> Int64[np.ndarray, " some"]:
    """The numbers of the examples whose factors are in a window.

    Args:
        window: The window.
        labels: The factors of all examples.

    >>> space = FactorSpace(("x",), (10,), ("cyclic",))
    >>> inside(around(space, 0.2, centre=[0]), np.arange(10)[:, None]).tolist()
    [0, 1, 2, 8, 9]
    """
    return np.flatnonzero(((labels - np.array(window.low)) % window.space.sizes < window.grid.sizes).all(1))


def centres(states: Int64[np.ndarray, "n k"], count: int, seed: int) -> Int64[np.ndarray, "some k"]:
    """States to be centres of windows, in random order; a state that is left out changes nothing for the others.

    Args:
        states: Different states.
        count: How many are needed.
        seed: Seed of their order.
    """
    return states[np.argsort(np_bits_of(seed, "centres of windows", states), kind="stable")[:count]]


def windows_among(
    space: FactorSpace, labels: Int64[np.ndarray, "n k"], radius: float, samples: int, seed: int, **rules: Any
) -> list[Window]:
    """Windows around different states of random examples, with 20 examples or more and a factor that varies among them.

    A window of fewer states counts if it has one example of each, as if the whole grid were complete. At most 1,000
    states are tried, so there may be fewer windows than asked for; if there are none, that is an error.

    Args:
        space: The factors.
        labels: The factors of all examples.
        radius: The radius of a window, as a fraction of each factor's values.
        samples: How many windows.
        seed: Seed of the states that are tried.
        **rules: Further arguments of `data.windows.around`.

    >>> space = FactorSpace(("x", "y"), (10, 10), ("ordered", "ordered"))
    >>> len(windows_among(space, space.sample(200, seed=0), 0.2, 5, seed=0))
    5
    """
    windows = []
    fullest = 0
    states = centres(np.unique(labels, axis=0), TRIES, seed)
    for state in states:
        window = around(space, radius, centre=state, **rules)
        held = inside(window, labels)
        fullest = max(fullest, len(held))
        if _enough(window, labels[held]) and varying(labels[held]).any():
            windows.append(window)
        if len(windows) == samples:
            break
    if not windows:
        raise UntwineError(
            f"no window of radius {radius:g} holds {LEAST} examples of different factors: the fullest, of those around "
            f"{len(states):,} states of the {len(labels):,} examples, holds {fullest}; take a larger radius (rho)"
        )
    return windows


def _enough(window: Window, labels: Int64[np.ndarray, "n k"]) -> bool:
    """Whether a window holds enough examples: 20, or exactly one of each of its states."""
    return len(labels) >= LEAST or len(labels) == len(np.unique(labels, axis=0)) == window.grid.states


def refuse_interventions(metric: str, dataset: Dataset, labels: Int64[np.ndarray, "n k"]) -> None:
    """Raise the error for a metric that intervenes on factors, on data whose factors are only observed.

    Args:
        metric: The name of the metric.
        dataset: The data.
        labels: The factors of all examples.
    """
    assert dataset.factors is not None
    name, states = dataset.spec.get("name", "this dataset"), dataset.factors.states
    seen = len(np.unique(labels, axis=0))
    if seen < states:
        have = f"only {seen:,} of the {states:,} states of {name} have an example"
    else:
        have = f"the {states:,} states of {name} have {len(labels):,} examples: no look stands for a state"
    able = [name for name in metrics if _takes_examples(metrics[name])]
    raise UntwineError(
        f"{metric} needs interventions: it compares states that agree in one factor while all others vary freely, but "
        f"{have}. Metrics that take the examples as they are: {', '.join(able)}"
    )


def _takes_examples(metric: Any) -> bool:
    return "factors" in metric.takes and not metric.design.intervenes
