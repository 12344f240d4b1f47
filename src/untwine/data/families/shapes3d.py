"""3D Shapes: a shape in a room, in all hues (Burgess & Kim 2018): from the public file, or drawn."""

from __future__ import annotations

import colorsys
import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64, UInt8, UInt16

from untwine.data.factors import FactorSpace
from untwine.data.families import room
from untwine.data.files import store
from untwine.data.files.pictures import broken, gathered
from untwine.data.files.public import File, Public
from untwine.data.specs import dataset
from untwine.data.states import Rows, Tabled, kept
from untwine.progress import counter

if TYPE_CHECKING:
    import h5py

SPACE = FactorSpace(
    ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"),
    (10, 10, 10, 8, 4, 15),
    ("cyclic", "cyclic", "cyclic", "ordered", "categorical", "ordered"),
)
SCALES, TURNS = (0.75, 1.25), (-30.0, 30.0)  # the ends; a turn is in degrees
FILES = (
    File(
        "shapes3d/3dshapes.h5",
        ("https://storage.googleapis.com/3d-shapes/3dshapes.h5",),
        "sha256:0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
        267_573_662,
    ),
)
SHAPE = (3, room.SIDE, room.SIDE)
HINT = (
    "A drawn 3D Shapes, of the same factors, needs no file: shapes3d(rendered=True), "
    "or --dataset.rendered true on the command line."
)
_AT_ONCE = 2**26  # bytes that are unpacked at a time
_TOGETHER = 16  # pictures that are painted at a time: they stay in the cache


def _files(rendered: bool = False) -> tuple[File, ...]:
    return () if rendered else FILES


PUBLIC = Public(files=_files, licence="Apache 2.0", examples=SPACE.states, shape=SHAPE, factors=SPACE, hint=HINT)


@dataset(public=PUBLIC)
def shapes3d(rendered: bool = False) -> Tabled:
    """A cube, cylinder, sphere or capsule in a room: hues of floor, wall and object, scale, shape, orientation.

    All 480,000 colour pictures, 64 x 64. Hues go around the colour circle in steps of a tenth, scales from 0.75 to
    1.25, and the camera turns around the shape from -30 to 30 degrees. The public file (268 MB) is unpacked when it
    is first used, into a table of 5.9 GB of which only what is asked for is read.

    With `rendered`, pictures of the same factors are drawn instead, by a ray caster of our own: nothing is fetched.
    They agree with what michlo2023 reports of the public ones: the factors have the same order of importance, with
    perceived distances within 7 percent (Table A1), and the means and deviations of pixels are within 4 (Table A2).

    Args:
        rendered: Draw the pictures.

    >>> drawn = shapes3d(rendered=True)
    >>> drawn.shape, len(drawn), drawn.factors.names
    ((3, 64, 64), 480000, ('floor_hue', 'wall_hue', 'object_hue', 'scale', 'shape', 'orientation'))
    """
    return Tabled(SPACE, SHAPE, _drawn(SPACE) if rendered else _table(SPACE))


# --- the public file ------------------------------------------------------------------------------------


def _table(space: FactorSpace) -> Rows:
    shape = (space.states, *SHAPE)
    name = FILES[0].name
    parts = lambda: _unpacked(store.fetch(FILES[0], HINT), space)
    table = kept("shapes3d/images-1.npy", shape, parts, f"unpacking {name}", HINT)
    return functools.partial(gathered, table)


def _unpacked(path: Path, space: FactorSpace) -> Iterator[np.ndarray]:
    """The pictures in parts, channels first."""
    import h5py

    _, *sides = SHAPE
    try:
        with h5py.File(path, "r") as file:
            images = _array(path, file, "images", (space.states, *sides, SHAPE[0]), np.uint8)
            _check(path, _array(path, file, "labels", (space.states, len(space)), np.float64)[:], space)
            # A part holds whole chunks of the file: a chunk that two parts share would be unpacked twice.
            chunk = images.chunks[0] if images.chunks else 1
            size = chunk * max(1, _AT_ONCE // (chunk * math.prod(SHAPE)))
            with counter(f"unpacking {path.name}", space.states) as count:
                for start in range(0, space.states, size):
                    part = images[start : start + size]
                    yield part.transpose(0, 3, 1, 2)
                    count(len(part))
    except OSError as error:
        raise broken(path, error) from None


def _array(path: Path, file: h5py.File, key: str, shape: tuple[int, ...], dtype: type) -> h5py.Dataset:
    """One of the file's arrays, which is what it should be."""
    import h5py

    found = file.get(key)
    if not isinstance(found, h5py.Dataset):
        raise broken(path, f"it has no array {key!r}; in it is {', '.join(file) or 'nothing':.200}")
    if found.shape != shape or found.dtype != dtype:
        expected = f"{np.dtype(dtype)} {list(shape)}"
        raise broken(path, f"its array {key!r} is {found.dtype} {list(found.shape or ())} instead of {expected}")
    return found


def _check(path: Path, labels: Float64[np.ndarray, "states k"], space: FactorSpace) -> None:
    """Refuse pictures that are in another order than that of the grid's numbers, the last factor fastest."""
    expected = space.factors(np.arange(space.states))
    for column, (name, size) in enumerate(zip(space.names, space.sizes, strict=True)):
        values, found = np.unique(labels[:, column], return_inverse=True)
        if len(values) != size:
            raise broken(path, f"its labels have {len(values)} values of {name} instead of {size}")
        wrong = np.flatnonzero(found != expected[:, column])
        if len(wrong):
            row = wrong[0]
            instead = f"{name} is {labels[row, column]:g} in row {row} instead of {values[expected[row, column]]:g}"
            raise broken(path, f"its labels are not in the order of the grid: {instead}")


# --- drawn ----------------------------------------------------------------------------------------------


def _drawn(space: FactorSpace) -> Rows:
    """Views are cast, or read if they once were, when the first picture is asked for."""
    *hues, scales, shapes, turns = space.sizes
    views = scales * shapes * turns

    def views_once() -> list[np.ndarray]:
        sizes, angles = np.linspace(*SCALES, scales).tolist(), np.linspace(*TURNS, turns).tolist()
        return [room.cast(sizes, room.SHAPES[:shapes], angles)]

    @functools.cache
    def painter() -> Painter:
        shape = (views, len(room.MATERIALS), *SHAPE[1:])
        return Painter(kept("shapes3d/rendered-1.npy", shape, views_once, "drawing 3D Shapes"), hues)

    def rows(numbers: Int64[np.ndarray, " n"]) -> UInt8[np.ndarray, "n 3 h w"]:
        return painter()(numbers % views, space.factors(numbers)[:, : len(hues)])

    return rows


class Painter:
    """Gives every material of a view its colour: floor, wall and shape by their hues, then the sky's, and white.

    Whole numbers of 16 bits are enough, as the weights of a pixel sum to 255 at most; and so any machine and any part
    of a batch gives the same pixels.

    >>> one = np.zeros((1, 5, 64, 64), np.uint8)
    >>> one[:, 0] = 255
    >>> Painter(one, [10, 10, 10])(np.array([0]), np.array([[0, 5, 5]]))[0, :, 0, 0].tolist()
    [255, 0, 0]
    """

    def __init__(self, weights: UInt8[np.ndarray, "views 5 h w"], hues: list[int]):
        self._hues = [_whole([colorsys.hsv_to_rgb(k / size, 1.0, 1.0) for k in range(size)]) for size in hues]
        self._weights = np.ascontiguousarray(weights[:, : len(hues)])
        # What no hue changes, with the half that makes the last division round.
        colours = _whole([room.SCENE.sky, (1.0, 1.0, 1.0)])
        fixed = np.einsum("vmhw,mc->vchw", weights[:, len(hues) :], colours, dtype=np.uint16)
        self._fixed: UInt16[np.ndarray, "views 3 h w"] = fixed + np.uint16(128)

    def __call__(self, views: Int64[np.ndarray, " n"], hues: Int64[np.ndarray, "n 3"]) -> UInt8[np.ndarray, "n 3 h w"]:
        pictures = np.empty((len(views), *self._fixed.shape[1:]), np.uint8)
        colours = [colour[hue][:, :, None, None] for colour, hue in zip(self._hues, hues.T, strict=True)]
        for start in range(0, len(views), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            sums = self._fixed[views[part]]
            weights = self._weights[views[part]].astype(np.uint16)
            for material, colour in enumerate(colours):
                sums += weights[:, material, None] * colour[part]
            # (v + v / 256) / 256 in whole numbers is (v - 128) / 255 rounded, for all that occur.
            sums += sums >> 8
            np.right_shift(sums, 8, out=pictures[part], casting="unsafe")
        return pictures


def _whole(colours: list[tuple[float, float, float]]) -> UInt16[np.ndarray, "n 3"]:
    return np.rint(255 * np.array(colours)).astype(np.uint16)
