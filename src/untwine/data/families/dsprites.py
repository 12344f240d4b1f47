"""dSprites: a white square, ellipse or heart on black (Matthey et al. 2017), from the published file or drawn.

Our own renderer draws it. Nothing was taken from the published images: the sizes below were fitted to the mean and
deviation of their pixels (michlo2023, Table A2) and to their perceived distances along each factor (Table A1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt8
from numpy.lib.stride_tricks import sliding_window_view

from untwine.data.factors import ArrayLike, FactorSpace
from untwine.data.files import store
from untwine.data.files.formats import npz
from untwine.data.files.public import File, Public, broken
from untwine.data.files.tables import cached_table, gathered
from untwine.data.specs import dataset
from untwine.data.states import TabledStates
from untwine.progress import track

# The file has one more factor: the colour, which is always white.
SPACE = FactorSpace(
    ("shape", "scale", "orientation", "x", "y"),
    (3, 6, 40, 32, 32),
    ("categorical", "ordered", "cyclic", "ordered", "ordered"),
)
SHAPES = ("square", "ellipse", "heart")
SIDE = 64
Size = Literal[16, 32, 64]  # of 8 px, the smallest sprites would be about one pixel
_BYTES = SIDE * SIDE // 8  # of an image, with a bit for each pixel
_NAME = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
FILES = (
    File(
        f"dsprites/{_NAME}",
        (
            f"https://github.com/google-deepmind/dsprites-dataset/raw/master/{_NAME}",
            f"https://github.com/deepmind/dsprites-dataset/raw/master/{_NAME}",
        ),
        "md5:7da33b31b13a06f4b04a70402ce90c2e",
    ),
)
_CHUNK = 4096  # images that are unpacked at a time: 16 MiB, where all of them are 3 GB
HINT = (
    "A drawn dSprites with the same factors needs no download: dsprites(rendered=True), "
    "or --dataset.rendered true on the command line."
)


def _files(rendered: bool = False, size: Size = SIDE) -> tuple[File, ...]:
    return () if rendered else FILES


PUBLIC = Public(
    files=_files, licence="Apache 2.0", examples=SPACE.states, shape=(1, SIDE, SIDE), factors=SPACE, hint=HINT
)


@dataset(public=PUBLIC, added=["size"])
def dsprites(rendered: bool = False, size: Size = SIDE) -> TabledStates:
    """A square, ellipse or heart in six sizes, 40 orientations and 32 by 32 positions: 737,280 images.

    By default the images are those of the published file (Matthey et al. 2017). With `rendered` they are drawn on the
    same grid: perceived distances and standardisation agree with michlo2023 (Tables A1 and A2) within 3 percent
    (`untwine perceive dsprites --dataset.rendered true`), but pixel by pixel the images differ from the published ones.
    On first use either is written to the data folder, with a bit for each pixel (377 MB); from there, only the images
    of a batch are read.

    Images of 32 or 16 px are those of 64 px averaged over squares of 2 or 4 px, so they have shades of grey where an
    outline crosses a pixel. Drawn ones need no file.

    The last orientation is a full turn, so it looks like the first.

    Args:
        rendered: Whether the images are drawn rather than read from the published file.
        size: Width and height in pixels.

    >>> import untwine.data
    >>> untwine.data.full_spec({"name": "dsprites"})
    {'name': 'dsprites', 'rendered': False}
    >>> SPACE.names, SPACE.sizes
    (('shape', 'scale', 'orientation', 'x', 'y'), (3, 6, 40, 32, 32))
    >>> dsprites(rendered=True, size=16).observe([[0, 0, 0, 0, 0]])[0, 0, 3:6, 3:6].tolist()
    [[255, 255, 64], [255, 255, 64], [64, 64, 16]]
    """
    shape = (SPACE.states, _BYTES)
    if rendered and size < SIDE:
        return TabledStates(SPACE, (1, size, size), lambda numbers: draw(SPACE.factors(numbers), size))
    if rendered:
        table = cached_table("dsprites/rendered-1.npy", shape, _drawn, "drawing dSprites")
    else:
        table = cached_table("dsprites/packed-1.npy", shape, _read, f"packing {_NAME}", HINT)
    return TabledStates(SPACE, (1, size, size), partial(_unpack, table, size))


def _unpack(
    table: UInt8[np.ndarray, "states bytes"], size: Size, numbers: Int64[np.ndarray, " n"]
) -> UInt8[np.ndarray, "n 1 h w"]:
    step = SIDE // size
    pixels = np.unpackbits(gathered(table, numbers), axis=1)
    return _shades(pixels.reshape(-1, 1, size, step, size, step).sum((3, 5), dtype=np.uint8), step)


def _shades(white: UInt8[np.ndarray, "*shape"], step: int) -> UInt8[np.ndarray, "*shape"]:
    """The shades of pixels by the number of white ones among the `step * step` that they stand for, half to even.

    Args:
        white: The numbers of white pixels.
        step: The width of the square that a pixel stands for.
    """
    return np.round(255 * np.arange(step**2 + 1) / step**2).astype(np.uint8)[white]


# --- the published file ---------------------------------------------------------------------------------


def _read() -> Iterator[UInt8[np.ndarray, "n bytes"]]:
    """The images of the file, with a bit for each pixel. It is fetched if needed, and unpacked a part at a time."""
    path = store.fetch(FILES[0], HINT)
    _check_order(path)
    for part in npz.pixels(path, "imgs", (SPACE.states, SIDE, SIDE), _CHUNK * SIDE * SIDE):
        images = np.frombuffer(part, np.uint8).reshape(-1, SIDE * SIDE)
        if images.max() > 1:
            raise broken(path, f"a pixel of its array 'imgs' is {images.max()}, neither 0 nor 1")
        yield np.packbits(images, axis=1)


def _check_order(path: Path) -> None:
    """Refuse a file whose images are not in the order of their state numbers, in which the last factor runs fastest."""
    classes = npz.small(path, "latents_classes")
    expected = np.zeros((SPACE.states, len(SPACE) + 1), np.int64)
    expected[:, 1:] = SPACE.factors(np.arange(SPACE.states))
    if classes.shape != expected.shape or classes.dtype.kind not in "iu":
        got = f"{classes.dtype} {list(classes.shape)} instead of int64 {list(expected.shape)}"
        raise broken(path, f"its array 'latents_classes' is {got}")
    wrong = (classes != expected).any(1)
    if wrong.any():
        row = int(wrong.argmax())
        got = f"{classes[row].tolist()} instead of {expected[row].tolist()}"
        raise broken(path, f"row {row} of its array 'latents_classes' is {got}")


# --- the renderer ---------------------------------------------------------------------------------------

# In pixels, at scale 1. The ellipse's axes are two to one, and the heart has right angles and half-circles. That leaves
# one size for each shape, and meets all means of the tables within 3 percent.
SQUARE = 18.1  # side
ELLIPSE = (11.9, 5.95)  # semi-axes, the long one horizontal
HEART = 13.7  # side of a square that stands on its corner, with a half-circle on each of its upper sides

SCALES = np.linspace(0.5, 1, SPACE.sizes[1])
# From 0 to 2 pi, both included; the last is written as the first, so that their images agree to the bit.
ANGLES = 2 * np.pi * (np.arange(40) % 39) / 39
# The first position of a sprite's centre; each next one is a pixel further. It is a third of a pixel off the middle of
# a pixel (16.5): there, the symmetry of the pixels would give small squares at different angles the same image.
FIRST = 16.85


def draw(factors: ArrayLike, size: Size = SIDE) -> UInt8[np.ndarray, "n 1 size size"]:
    """The images of these states `[n, 5]`: white (255) on black; at 64 px without shades between.

    A pixel is white where its middle lies in the sprite. x goes to the right, y downwards. At orientation 0 the heart
    is upright and the ellipse lies on its side; from there they turn clockwise, about the centre of the box that they
    fill at orientation 0. No sprite comes near the border. All images differ, except those of the first and the last
    orientation. Smaller images are those of 64 px, averaged.

    Args:
        factors: The states.
        size: Width and height in pixels.

    >>> square, heart = draw([[0, 0, 0, 0, 0], [2, 5, 0, 31, 31]])[:, 0]
    >>> square.sum() // 255, square[16, 16], heart[16, 16], heart.max()
    (np.uint64(81), np.uint8(255), np.uint8(0), np.uint8(255))
    """
    return _views(size)[tuple(SPACE.check(factors).T)][:, None]


def _drawn() -> Iterator[UInt8[np.ndarray, "1024 512"]]:
    """All images in the order of their state numbers, with a bit for each pixel; a part for each sprite."""
    views = _views(SIDE)
    sprites = np.ndindex(*SPACE.sizes[:3])
    for sprite in track(sprites, "drawing dSprites", math.prod(SPACE.sizes[:3])):
        yield np.packbits(views[sprite].reshape(-1, SIDE * SIDE), axis=1)


@cache
def _views(size: Size) -> UInt8[np.ndarray, "3 6 40 32 32 size size"]:
    """All images as views of 720 larger ones: a sprite moves by whole pixels, so its images are parts of one.

    The larger image has the sprite in the last position of both axes; earlier positions are views from further to the
    right and further down. For small images, each of its pixels is the mean of a square of pixels that begins there,
    and views take the pixels of every `step`-th row and column.
    """
    last, step = SPACE.sizes[3] - 1, SIDE // size
    middles = np.arange(SIDE + last) + 0.5 - (FIRST + last)
    white = inside(middles, middles)
    squares = sliding_window_view(white, (step, step), axis=(3, 4)).sum((-2, -1), dtype=np.uint8)
    windows = sliding_window_view(_shades(squares, step), (SIDE - step + 1,) * 2, axis=(3, 4))
    return windows[:, :, :, ::-1, ::-1, ::step, ::step].swapaxes(3, 4)


def inside(
    right: Float64[np.ndarray, " w"], down: Float64[np.ndarray, " h"], scales: ArrayLike = SCALES
) -> Bool[np.ndarray, "3 s 40 h w"]:
    """Whether points lie in the sprite, for all shapes, these scales and all angles.

    Args:
        right: Horizontal coordinates of the points, from the centre of the sprite.
        down: Vertical coordinates, from the centre of the sprite.
        scales: The scales.
    """
    cos, sin = np.cos(ANGLES)[:, None, None], np.sin(ANGLES)[:, None, None]
    scale = np.asarray(scales)[:, None, None, None]
    # The sprite turns clockwise where the points turn back, in coordinates that go downwards.
    u, v = (right * cos + down[:, None] * sin) / scale, (down[:, None] * cos - right * sin) / scale
    return np.stack([_square(u, v), _ellipse(u, v), _heart(u, v)])


def _square(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(u), np.abs(v)) <= SQUARE / 2


def _ellipse(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (u / ELLIPSE[0]) ** 2 + (v / ELLIPSE[1]) ** 2 <= 1


def _heart(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    corner = HEART / np.sqrt(2)  # from the centre of the square to its corners
    radius = HEART / 2
    # The box reaches from the top of the circles to the lowest corner: its centre is above that of the square.
    v = v - (radius - corner / 2) / 2
    u = np.abs(u)
    return (u + np.abs(v) <= corner) | ((u - corner / 2) ** 2 + (v + corner / 2) ** 2 <= radius**2)
