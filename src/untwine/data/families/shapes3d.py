"""3D Shapes: a shape in a room, in all hues (Burgess & Kim 2018), from the published file or drawn."""

from __future__ import annotations

import colorsys
import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64, UInt8, UInt16

from untwine.data.drawing import shapes3d_renderer as renderer
from untwine.data.factors import FactorSpace
from untwine.data.files import store
from untwine.data.files.public import File, Public, broken
from untwine.data.files.tables import cached_table, gathered
from untwine.data.specs import dataset
from untwine.data.states import Rows, TabledStates
from untwine.progress import counter

if TYPE_CHECKING:
    import h5py

SPACE = FactorSpace(
    ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation"),
    (10, 10, 10, 8, 4, 15),
    ("cyclic", "cyclic", "cyclic", "ordered", "categorical", "ordered"),
)
SCALES = (0.75, 1.25)  # the smallest and the largest
TURNS = (-30.0, 30.0)  # the first and the last, in degrees
FILES = (
    File(
        "shapes3d/3dshapes.h5",
        ("https://storage.googleapis.com/3d-shapes/3dshapes.h5",),
        "sha256:0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
        267_573_662,
    ),
)
SHAPE = (3, renderer.SIDE, renderer.SIDE)
HINT = (
    "A drawn 3D Shapes with the same factors needs no download: shapes3d(rendered=True), "
    "or --dataset.rendered true on the command line."
)
_CHUNK = 2**26  # bytes that are unpacked at a time
_PAINTED = 16  # images that are painted at a time, so that they stay in the processor's cache


def _files(rendered: bool = False) -> tuple[File, ...]:
    return () if rendered else FILES


PUBLIC = Public(files=_files, licence="Apache 2.0", examples=SPACE.states, shape=SHAPE, factors=SPACE, hint=HINT)


@dataset(public=PUBLIC)
def shapes3d(rendered: bool = False) -> TabledStates:
    """A cube, cylinder, sphere or capsule in a room: hues of floor, wall and object, scale, shape, orientation.

    Burgess & Kim 2018. All 480,000 colour images, 64 x 64. Hues go around the colour circle in steps of a tenth, scales
    from 0.75 to 1.25, and the camera turns around the shape from -30 to 30 degrees. On first use the published file
    (268 MB) is unpacked into a table of 5.9 GB, of which only the images of a batch are read.

    With `rendered`, our own ray caster draws images of the same factors, and nothing is downloaded. They agree with
    what michlo2023 reports of the published ones: the factors have the same order of importance, with perceived
    distances within 7 percent (Table A1), and means and deviations of pixels within 4 percent (Table A2).

    Args:
        rendered: Whether the images are drawn rather than read from the published file.

    >>> drawn = shapes3d(rendered=True)
    >>> drawn.shape, len(drawn), drawn.factors.names
    ((3, 64, 64), 480000, ('floor_hue', 'wall_hue', 'object_hue', 'scale', 'shape', 'orientation'))
    """
    return TabledStates(SPACE, SHAPE, _drawn(SPACE) if rendered else _read(SPACE))


# --- the published file ---------------------------------------------------------------------------------


def _read(space: FactorSpace) -> Rows:
    """A function that reads images from the unpacked file."""
    shape = (space.states, *SHAPE)
    name = FILES[0].name
    parts = lambda: _unpacked(store.fetch(FILES[0], HINT), space)
    table = cached_table("shapes3d/images-1.npy", shape, parts, f"unpacking {name}", HINT)
    return functools.partial(gathered, table)


def _unpacked(path: Path, space: FactorSpace) -> Iterator[np.ndarray]:
    """The images of the file in parts, channels first."""
    import h5py

    _, *sides = SHAPE
    try:
        with h5py.File(path, "r") as file:
            images = _array(path, file, "images", (space.states, *sides, SHAPE[0]), np.uint8)
            _check_order(path, _array(path, file, "labels", (space.states, len(space)), np.float64)[:], space)
            # A part consists of complete chunks of the file: a chunk that two parts share would be unpacked twice.
            chunk = images.chunks[0] if images.chunks else 1
            size = chunk * max(1, _CHUNK // (chunk * math.prod(SHAPE)))
            with counter(f"unpacking {path.name}", space.states) as count:
                for start in range(0, space.states, size):
                    part = images[start : start + size]
                    yield part.transpose(0, 3, 1, 2)
                    count(len(part))
    except OSError as error:
        raise broken(path, error) from None


def _array(path: Path, file: h5py.File, key: str, shape: tuple[int, ...], dtype: type) -> h5py.Dataset:
    """An array of the file, which must have this shape and type."""
    import h5py

    array = file.get(key)
    if not isinstance(array, h5py.Dataset):
        raise broken(path, f"it has no array {key!r}; in it is {', '.join(file) or 'nothing':.200}")
    if array.shape != shape or array.dtype != dtype:
        expected = f"{np.dtype(dtype)} {list(shape)}"
        raise broken(path, f"its array {key!r} is {array.dtype} {list(array.shape or ())} instead of {expected}")
    return array


def _check_order(path: Path, labels: Float64[np.ndarray, "states k"], space: FactorSpace) -> None:
    """Refuse images that are not in the order of their state numbers, in which the last factor runs fastest."""
    expected = space.factors(np.arange(space.states))
    for column, (name, size) in enumerate(zip(space.names, space.sizes, strict=True)):
        values, index = np.unique(labels[:, column], return_inverse=True)
        if len(values) != size:
            raise broken(path, f"its labels have {len(values)} values of {name} instead of {size}")
        wrong = np.flatnonzero(index != expected[:, column])
        if len(wrong):
            row = wrong[0]
            instead = f"{name} is {labels[row, column]:g} in row {row} instead of {values[expected[row, column]]:g}"
            raise broken(path, f"its labels are not in the order of the grid: {instead}")


# --- drawn ----------------------------------------------------------------------------------------------


def _drawn(space: FactorSpace) -> Rows:
    """A function that draws images. The views are cast, or read from the data folder, for the first image."""
    *hues, scales, shapes, turns = space.sizes
    views = scales * shapes * turns

    def cast() -> list[np.ndarray]:
        sizes, angles = np.linspace(*SCALES, scales).tolist(), np.linspace(*TURNS, turns).tolist()
        return [renderer.cast(sizes, renderer.SHAPES[:shapes], angles)]

    @functools.cache
    def painter() -> Painter:
        shape = (views, len(renderer.MATERIALS), *SHAPE[1:])
        return Painter(cached_table("shapes3d/rendered-1.npy", shape, cast, "drawing 3D Shapes"), hues)

    def rows(numbers: Int64[np.ndarray, " n"]) -> UInt8[np.ndarray, "n 3 h w"]:
        return painter()(numbers % views, space.factors(numbers)[:, : len(hues)])

    return rows


class Painter:
    """Colours the materials of a view: floor, wall and shape by their hues, then the sky, and white for the gleam.

    Integers of 16 bits are enough, as the weights of a pixel sum to 255 at most. So every machine draws the same
    pixels, whatever the batch.

    >>> weights = np.zeros((1, 5, 64, 64), np.uint8)
    >>> weights[:, 0] = 255
    >>> Painter(weights, [10, 10, 10])(np.array([0]), np.array([[0, 5, 5]]))[0, :, 0, 0].tolist()
    [255, 0, 0]
    """

    def __init__(self, weights: UInt8[np.ndarray, "views 5 h w"], hues: list[int]):
        self._hues = [_bytes([colorsys.hsv_to_rgb(k / size, 1.0, 1.0) for k in range(size)]) for size in hues]
        self._weights = np.ascontiguousarray(weights[:, : len(hues)])
        # The part that no hue changes, plus a half, so that the last division rounds.
        colours = _bytes([renderer.SCENE.sky, (1.0, 1.0, 1.0)])
        fixed = np.einsum("vmhw,mc->vchw", weights[:, len(hues) :], colours, dtype=np.uint16)
        self._fixed: UInt16[np.ndarray, "views 3 h w"] = fixed + np.uint16(128)

    def __call__(self, views: Int64[np.ndarray, " n"], hues: Int64[np.ndarray, "n 3"]) -> UInt8[np.ndarray, "n 3 h w"]:
        images = np.empty((len(views), *self._fixed.shape[1:]), np.uint8)
        colours = [colour[hue][:, :, None, None] for colour, hue in zip(self._hues, hues.T, strict=True)]
        for start in range(0, len(views), _PAINTED):
            part = slice(start, start + _PAINTED)
            sums = self._fixed[views[part]]
            weights = self._weights[views[part]].astype(np.uint16)
            for material, colour in enumerate(colours):
                sums += weights[:, material, None] * colour[part]
            # (v + v / 256) / 256 in integers is (v - 128) / 255 rounded, for all values that occur.
            sums += sums >> 8
            np.right_shift(sums, 8, out=images[part], casting="unsafe")
        return images


def _bytes(colours: list[tuple[float, float, float]]) -> UInt16[np.ndarray, "n 3"]:
    return np.rint(255 * np.array(colours)).astype(np.uint16)
