"""Squares, ellipses and hearts on the grid of dSprites (Matthey et al. 2017), drawn by a renderer of our own.

Nothing here was taken from the published pictures. The sizes below were fitted to what michlo2023 says of them: mean
and deviation of pixels (Table A2), and how far apart they are along each factor (Table A1).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from jaxtyping import Bool, Float64, UInt8
from numpy.lib.stride_tricks import sliding_window_view

from untwine.data.factors import ArrayLike, FactorSpace

SPACE = FactorSpace(
    ("shape", "scale", "orientation", "x", "y"),
    (3, 6, 40, 32, 32),
    ("categorical", "ordered", "cyclic", "ordered", "ordered"),
)
SHAPES = ("square", "ellipse", "heart")
SIZE = 64

# Pixels, at scale 1. The ellipse's axes are as two to one, and the heart has right angles and half-circles: that leaves
# one size for each shape, and all of the tables' means are met within 3 percent.
SQUARE = 18.1  # its side
ELLIPSE = (11.9, 5.95)  # half of its axes, the long one across
HEART = 13.7  # the side of a square on its corner, which has a half-circle on each of its upper sides

SCALES = np.linspace(0.5, 1, SPACE.sizes[1])
# From 0 to 2 pi, both included; the last is written as the first, so that their pictures agree to the bit.
ANGLES = 2 * np.pi * (np.arange(40) % 39) / 39
# The place of the first sprite's centre; each next one is a pixel further. It misses the middle of a pixel (16.5) by a
# third: the pixels' own symmetry would make equal pictures of small squares that are turned by different angles.
FIRST = 16.85


def draw(factors: ArrayLike) -> UInt8[np.ndarray, "n 1 64 64"]:
    """The pictures of these states `[n, 5]`: white (255) on black, no shades between.

    A pixel is white where its middle lies in the sprite. x goes to the right, y downwards. At orientation 0 the heart
    is upright and the ellipse lies on its side; from there they turn clockwise, about the centre of the box that they
    fill at first. No sprite comes near the border, and all pictures differ, but that the last orientation is the first.

    >>> square, heart = draw([[0, 0, 0, 0, 0], [2, 5, 0, 31, 31]])[:, 0]
    >>> square.sum() // 255, square[16, 16], heart[16, 16], heart.max()
    (np.uint64(81), np.uint8(255), np.uint8(0), np.uint8(255))
    """
    return _views()[tuple(SPACE.check(factors).T)][:, None]


def packed() -> Iterator[UInt8[np.ndarray, "1024 512"]]:
    """All pictures in the order of their numbers, a bit for each pixel; a part for each turned and scaled shape."""
    views = _views()
    for sprite in np.ndindex(*SPACE.sizes[:3]):
        yield np.packbits(views[sprite].reshape(-1, SIZE * SIZE), axis=1)


@cache
def _views() -> UInt8[np.ndarray, "3 6 40 32 32 64 64"]:
    """All pictures as views of 720 larger ones: a sprite moves by whole pixels, so its pictures are parts of one.

    The larger picture has the sprite where it is in the last place of both axes; earlier places look at it from further
    to the right and further down.
    """
    last = SPACE.sizes[3] - 1
    middles = np.arange(SIZE + last) + 0.5 - (FIRST + last)
    whole = np.where(inside(middles, middles), 255, 0).astype(np.uint8)
    windows = sliding_window_view(whole, (SIZE, SIZE), axis=(3, 4))[:, :, :, ::-1, ::-1]
    return windows.swapaxes(3, 4)


def inside(
    right: Float64[np.ndarray, " w"], down: Float64[np.ndarray, " h"], scales: ArrayLike = SCALES
) -> Bool[np.ndarray, "3 s 40 h w"]:
    """Whether points lie in the sprite: all shapes, at these scales, turned by all angles.

    `right` and `down` are where the points lie, counted from the centre of the sprite.
    """
    cos, sin = np.cos(ANGLES)[:, None, None], np.sin(ANGLES)[:, None, None]
    shrunk = np.asarray(scales)[:, None, None, None]
    # The sprite turns clockwise where the points turn back, in coordinates that go downwards.
    u, v = (right * cos + down[:, None] * sin) / shrunk, (down[:, None] * cos - right * sin) / shrunk
    return np.stack([_square(u, v), _ellipse(u, v), _heart(u, v)])


def _square(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(u), np.abs(v)) <= SQUARE / 2


def _ellipse(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (u / ELLIPSE[0]) ** 2 + (v / ELLIPSE[1]) ** 2 <= 1


def _heart(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    corner, radius = HEART / np.sqrt(2), HEART / 2  # from the centre of the square to its corners, and of the circles
    # The box reaches from the top of the circles to the lowest corner: its centre is above that of the square.
    v = v - (radius - corner / 2) / 2
    u = np.abs(u)
    return (u + np.abs(v) <= corner) | ((u - corner / 2) ** 2 + (v + corner / 2) ** 2 <= radius**2)
