"""Principal components: the variances of a dataset along its leading directions."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

import untwine as uw
from untwine.data import moments as module
from untwine.data.moments import principal
from untwine.errors import UntwineError


def vectors(variances: list[float], n: int = 3_000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(len(variances), len(variances))))[0]
    return rng.normal(size=(n, len(variances))) * np.sqrt(variances) @ turn.T + 3.0


def expected(rows: np.ndarray, count: int) -> np.ndarray:
    return np.linalg.eigvalsh(np.cov(rows.reshape(len(rows), -1).T.astype(np.float64)))[::-1][:count]


def test_of_a_linear_square():
    """Sides 2 and 1 of uniform coordinates: variances 4/12 and 1/12, and nothing in the third direction."""
    square = uw.datasets.synthetic_linear(ratio=2.0)
    assert principal(square, 2) == pytest.approx((4 / 12, 1 / 12), rel=0.05)
    with pytest.raises(UntwineError, match=r"3 principal components were asked for.*vary in only 2 directions"):
        principal(square, 3)


@pytest.mark.parametrize("count", [1, 4, 6])
def test_against_the_covariance(count):
    rows = vectors([9.0, 4.0, 1.0, 0.5, 0.1, 0.01]).astype(np.float32)
    found = principal(uw.datasets.images(rows), count)
    assert found == pytest.approx(expected(rows, count), rel=1e-6)


def test_pictures_are_seen_as_the_network_sees_them():
    pictures = np.random.default_rng(0).integers(0, 256, size=(40, 8, 8, 1)).astype(np.uint8)
    dataset = uw.datasets.images(pictures)
    assert principal(dataset, 5) == pytest.approx(expected(dataset.examples() / 255, 5), rel=1e-6)
    # 40 pictures around their mean span 39 directions.
    assert len(principal(dataset, 39)) == 39
    with pytest.raises(UntwineError, match="only 39 directions"):
        principal(dataset, 40)
    with pytest.raises(UntwineError, match="only 39 directions"):
        principal(dataset, 64)


def test_many_directions_are_found_one_after_the_other(monkeypatch):
    """Both algorithms agree, and repeat their results exactly."""
    dots = uw.datasets.three_dots(size=33, examples=1_100)
    rows, floor = module._centred(dots, ())
    assert rows.dtype == np.float32 and rows.shape == (1_100, 1_089)
    few = module._leading(rows, floor, 10)
    assert few == module._leading(rows, floor, 10)
    assert few == pytest.approx(expected(dots.examples() / 255, 10), rel=1e-4)
    monkeypatch.setattr(module, "_DENSE", 2_000)
    assert module._leading(*module._centred(dots, ()), 10) == pytest.approx(few, rel=1e-4)


def test_of_few_directions_among_many():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(1_200, 3)) @ rng.normal(size=(3, 1_100))).astype(np.float32)
    rows -= rows.mean(0)
    assert len(module._leading(rows, 0.0, 3)) == 3
    with pytest.raises(UntwineError, match="only 3 directions"):
        module._leading(rows, 0.0, 5)


def test_what_does_not_vary_has_none():
    flat = uw.datasets.images(np.full((10, 8, 8, 1), 7, np.uint8))
    with pytest.raises(UntwineError, match="only 0 directions"):
        principal(flat, 1)
    with pytest.raises(UntwineError, match="1 or more"):
        principal(flat, 0)


def test_the_rounding_of_large_numbers_is_no_direction():
    """With a mean of a thousand, float32 rounds by 6e-5: the third direction is rounding alone."""
    rows = vectors([1.0, 0.1, 0.0]) + 1_000.0
    dataset = uw.datasets.images(rows.astype(np.float32))
    assert principal(dataset, 2) == pytest.approx((1.0, 0.1), rel=0.1)
    with pytest.raises(UntwineError, match="only 2 directions"):
        principal(dataset, 3)


def test_quick_and_found_once():
    dots = uw.datasets.three_dots(examples=6_000)
    start = time.perf_counter()
    found = principal(dots, 10)
    first, start = time.perf_counter() - start, time.perf_counter()
    assert principal(dots, 10) is found and time.perf_counter() - start < 0.1
    assert first < 10  # seconds: about one on a machine that is not busy
    assert found == principal(uw.datasets.three_dots(examples=6_000), 10)
    assert list(found) == sorted(found, reverse=True) and len(found) == 10


def test_without_torch():
    code = "import sys, untwine.data.moments; assert 'torch' not in sys.modules and 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
