"""Every metric that is given arrays of wrong shapes says which shapes it was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import untwine as uw
from untwine.data import FactorSpace
from untwine.model.encoded import DiagonalQ

SPACE = FactorSpace(("a", "b"), (5, 5), ("ordered", "ordered"))


def right(name: str) -> dict[str, Any]:
    """Arrays of shapes that a metric takes, for one model."""
    metric = uw.metrics.get(name)
    design = type(metric.design)(**({"size": 4} if hasattr(metric.design, "size") else {}))
    factors = design.draw(SPACE, 160, seed=0)
    samples = factors.shape[:-1] if "factors" in metric.takes else (160,)
    normals = np.random.default_rng(0).normal
    arrays = {
        "factors": factors,
        "codes": normals(size=(*samples, 3)),
        "means": normals(size=(160, 3)),
        "variances": np.ones((160, 3)),
        "jacobians": normals(size=(160, 3, 7)),
    }
    return {key: arrays[key] for key in metric.takes}


def wrong(array: np.ndarray) -> dict[str, np.ndarray]:
    """The same numbers in other shapes."""
    return {
        "none": array.ravel()[0],
        "flat": array.ravel(),
        "empty": array[:0],
        "more": array.reshape(*(1,) * 6, *array.shape),
    }


OF_ONE_MODEL = [name for name in uw.metrics.names() if name not in ("udr", "decomposition")]


@pytest.mark.parametrize("name", OF_ONE_MODEL)
def test_the_shape_that_was_given_is_named(name):
    arrays, metric = right(name), uw.metrics.get(name)
    for key, array in arrays.items():
        for shape, odd in wrong(array).items():
            with pytest.raises(uw.UntwineError, match=name) as error:
                metric(**arrays | {key: odd})
            assert f"{list(odd.shape)}" in str(error.value), (key, shape)


@pytest.mark.parametrize("name", [name for name in OF_ONE_MODEL if len(uw.metrics.get(name).takes) > 1])
def test_arrays_that_do_not_go_together_are_named_with_their_shapes(name):
    arrays, metric = right(name), uw.metrics.get(name)
    for key, array in arrays.items():
        odd = arrays | {key: array[:-1]}
        with pytest.raises(uw.UntwineError, match=name) as error:
            metric(**odd)
        assert all(str(list(value.shape)) in str(error.value) for value in odd.values())
    if "factors" not in arrays:  # one of several members beside one of one
        first, second = arrays
        with pytest.raises(uw.UntwineError, match=r"\[2, 160, 3\].*\[160, 3\]"):
            metric(**arrays | {first: np.stack([arrays[first]] * 2)})
        with pytest.raises(uw.UntwineError, match=r"\[2, 160, 3\].*\[3, 160, 3\]"):
            metric(**{first: np.stack([arrays[first]] * 2), second: np.stack([arrays[second]] * 3)})


@pytest.mark.parametrize(
    "codes", [np.zeros((9, 2)), torch.zeros(9, 2), np.zeros((1, 9, 2)), np.zeros((2, 2, 9, 2)), np.zeros(5)]
)
def test_metrics_of_several_models_name_the_shape_of_the_array(codes):
    with pytest.raises(uw.UntwineError) as error:
        uw.metrics.udr(codes)
    assert f"codes of shape {list(codes.shape)}" in str(error.value)


def test_posteriors_of_another_shape_are_named():
    posterior = DiagonalQ(torch.zeros(2, 9, 3), torch.zeros(2, 9, 3))
    prior = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(3), torch.ones(3)), 1)
    with pytest.raises(uw.UntwineError, match=r"shape \[2, 9, 3\]; they must be \[n, d\]"):
        uw.metrics.decomposition(posterior, prior)
