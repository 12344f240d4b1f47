"""three_dots(style="opencv") against OpenCV itself: checksums of what it draws, and its pixels where it is installed.

The checksums were made by OpenCV 4.10, 4.14 and 5.0, which agree. To make them again with another version:
`pip install opencv-python-headless`, then print `checksum(opencv_counts(settings))` for each of the settings below.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from untwine.datasets import get, three_dots

# Over all positions of one dot: how many of the hundred subpixels of each pixel it covers.
CHECKSUMS: dict[tuple[int, int, float], str] = {
    (64, 64, 0.08): "9baae1761d858662775b103633991ac9",
    (32, 32, 0.08): "0767658d4958acb0b38c440b859d2878",
    (20, 7, 0.2): "a052d1550f0236a2a341b4c57bbd39b3",
    (4, 17, 0.125): "9422090ebcf8ecf6a0e6731c1d1101e7",
    (9, 2, 0.7): "524da31762d98c4e42a4792683c0e8e2",
    (8, 5, 0.02): "53f78061b57aa1d0d9fcf9b03a377814",
    (32, 9, 0.04): "e7244ca290a1e721ea13f8985487599a",
}


def opencv_picture(state: np.ndarray, size: int, positions: int, radius: float) -> np.ndarray:
    """The share of white of each pixel: circles in fixed point at ten times the size, averaged down."""
    cv2: Any = pytest.importorskip("cv2")
    canvas = np.ones((10 * size, 10 * size, 1))
    for centre in state.reshape(-1, 2) / (positions - 1):
        x, y = (int(value) for value in np.floor(size * centre * 10 * 1024))
        cv2.circle(canvas, (x, y), int(size * radius * 10 * 1024), color=0, thickness=-1, shift=10)
    return cv2.resize(canvas, (size, size), interpolation=cv2.INTER_AREA)


def all_positions(positions: int) -> np.ndarray:
    return np.stack(np.meshgrid(np.arange(positions), np.arange(positions)), -1).reshape(-1, 2)


def opencv_counts(settings: tuple[int, int, float]) -> np.ndarray:
    pictures = [opencv_picture(state, *settings) for state in all_positions(settings[1])]
    return np.round(100 * (1 - np.stack(pictures))).astype(np.uint8)


def our_counts(settings: tuple[int, int, float]) -> np.ndarray:
    size, positions, radius = settings
    data = three_dots(size, 1, positions, radius, examples=1, style="opencv")
    pictures = data.observe(all_positions(positions))[:, 0]
    return np.round((255.0 - pictures) / 2.55).astype(np.uint8)  # shades are 2.55 apart


def checksum(counts: np.ndarray) -> str:
    return hashlib.sha256(counts.tobytes()).hexdigest()[:32]


@pytest.mark.parametrize("settings", CHECKSUMS, ids=str)
def test_every_position_of_a_dot_is_opencvs(settings):
    """Every subpixel, dots that are cut by the border included."""
    assert checksum(our_counts(settings)) == CHECKSUMS[settings]


def test_pictures_are_those_of_the_paper():
    """To 1/255, and in fact to the rounding of a shade, on the paper's setting; only where OpenCV is installed."""
    pytest.importorskip("cv2")
    data = three_dots(examples=300, style="opencv")
    states = data.factors_of(np.arange(300))
    expected = np.stack([opencv_picture(state, 64, 64, 0.08) for state in states])
    assert np.abs(data.observe(states)[:, 0] / 255 - expected).max() < 0.501 / 255


def test_how_it_differs_from_exact_circles():
    """The numbers of a comparison with the authors' code: radius, centre, and mean absolute difference."""
    exact, opencv = three_dots(examples=2000), three_dots(examples=2000, style="opencv")
    states = exact.factors_of(np.arange(2000))
    difference = np.abs(exact.observe(states) / 255 - opencv.observe(states) / 255).mean()
    assert difference == pytest.approx(0.0011, abs=0.00005)
    inner = all_positions(64)
    inner = inner[((inner >= 7) & (inner <= 56)).all(1)]
    dot = 1 - three_dots(dots=1, examples=1, style="opencv").observe(inner)[:, 0] / 255
    area = dot.sum((1, 2))
    assert np.sqrt(area.mean() / np.pi) == pytest.approx(5.165, abs=0.005)
    middle = np.arange(64) + 0.5
    for axis, across in ((1, 0), (2, 1)):  # columns, then rows
        centres = (dot.sum(axis) * middle).sum(1) / area
        assert (centres - 64 * inner[:, across] / 63).mean() == pytest.approx(0.05, abs=0.005)


def test_stored_runs_keep_their_spec():
    """The style is written down only where it is not the one that there was before."""
    assert "style" not in three_dots(examples=1).spec
    styled = three_dots(examples=1, style="opencv")
    assert styled.spec["style"] == "opencv"
    again = get("three_dots")(**{key: value for key, value in styled.spec.items() if key != "name"})
    assert np.array_equal(again.observe([[3] * 6]), styled.observe([[3] * 6]))
