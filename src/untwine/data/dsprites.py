"""dSprites: a white square, ellipse or heart on black (Matthey et al. 2017), from its file or drawn here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64, UInt8

from untwine.data import sprites, store
from untwine.data.archives import opened
from untwine.data.pictures import broken, mapped, save
from untwine.data.public import File, Public
from untwine.data.specs import dataset
from untwine.data.tabled import Tabled
from untwine.progress import track

SPACE = sprites.SPACE  # the file has one factor more: its colour is always white
SIDE = sprites.SIZE
_BYTES = SIDE * SIDE // 8  # that a picture takes, a bit for each pixel
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
_AT_ONCE = 4096  # pictures that are unpacked at a time: 16 MiB, where all of them are 3 GB
_HINT = (
    "A dSprites that is drawn here, on the same grid, needs no download: dsprites(rendered=True), "
    "or --dataset.rendered true on the command line."
)


def _files(rendered: bool = False) -> tuple[File, ...]:
    return () if rendered else FILES


PUBLIC = Public(files=_files, licence="Apache 2.0", examples=SPACE.states, shape=(1, SIDE, SIDE), factors=SPACE)


@dataset(public=PUBLIC)
def dsprites(rendered: bool = False) -> Tabled:
    """A square, an ellipse or a heart of six sizes, turned to 40 orientations, in 32 by 32 places: 737,280 pictures.

    Without `rendered` they are those of the published file. With it they are drawn (`untwine.data.sprites`) on the same
    grid: perceived distances and standardisation are those of michlo2023 (Tables A1 and A2) within 5 percent, but pixel
    by pixel they are not the published ones. On first use either is written to the data folder, a bit for each pixel
    (377 MB); from there only the pictures that are asked for are read.

    The last orientation is a whole turn, so it looks like the first.

    Args:
        rendered: Whether the pictures are drawn rather than read from the published file.

    >>> import untwine.data
    >>> untwine.data.complete({"name": "dsprites"})
    {'name': 'dsprites', 'rendered': False}
    >>> SPACE.names, SPACE.sizes
    (('shape', 'scale', 'orientation', 'x', 'y'), (3, 6, 40, 32, 32))
    """
    if rendered:
        space, path, what, parts = sprites.SPACE, "dsprites/rendered-1.npy", "drawing dSprites", _drawn
    else:
        space, path, what, parts = SPACE, "dsprites/packed-1.npy", f"packing {_NAME}", _packed
    shape = (space.states, _BYTES)
    made = store.derived(path, lambda new: save(new, shape, parts(what)), what, math.prod(shape))
    return Tabled(space, (1, SIDE, SIDE), partial(_rows, mapped(made, shape)))


def _rows(table: UInt8[np.ndarray, "states bytes"], numbers: Int64[np.ndarray, " n"]) -> UInt8[np.ndarray, "n 1 h w"]:
    return (np.unpackbits(table[numbers], axis=1) * 255).reshape(-1, 1, SIDE, SIDE)


def _drawn(what: str) -> Iterable[np.ndarray]:
    return track(sprites.packed(), what, math.prod(sprites.SPACE.sizes[:3]))


# --- the file -------------------------------------------------------------------------------------------


def _packed(what: str) -> Iterator[UInt8[np.ndarray, "n bytes"]]:
    """The pictures of the file, a bit for each pixel. It is fetched if need be, and unpacked a part at a time."""
    path = store.fetch(FILES[0], _HINT)
    try:
        _check_order(path)
        with opened(path, "imgs.npy") as stream:
            _check_header(path, stream)
            starts = range(0, SPACE.states, _AT_ONCE)
            for start in track(starts, what, len(starts)):
                count = min(_AT_ONCE, SPACE.states - start)
                part = np.frombuffer(stream.read(count * SIDE * SIDE), np.uint8)
                if len(part) < count * SIDE * SIDE:
                    raise broken(path, f"its array 'imgs' ends within picture {start + len(part) // SIDE**2}")
                if part.max() > 1:
                    raise broken(path, f"a pixel of its array 'imgs' is {part.max()}, neither 0 nor 1")
                yield np.packbits(part.reshape(count, -1), axis=1)
            if stream.read(1):  # at its end the archive's own checksum is compared, too
                raise broken(path, "its array 'imgs' is longer than it says")
    except ValueError as error:  # from NumPy: no array, one that is cut off, or pickled objects
        raise broken(path, error) from None


def _check_order(path: Path) -> None:
    """Refuse a file whose pictures do not come in the order of their states, the last factor fastest."""
    with opened(path, "latents_classes.npy") as stream:
        found = np.lib.format.read_array(stream, allow_pickle=False)
    expected = np.zeros((SPACE.states, len(SPACE) + 1), np.int64)
    expected[:, 1:] = SPACE.factors(np.arange(SPACE.states))
    if found.shape != expected.shape or found.dtype.kind not in "iu":
        got = f"{found.dtype} {list(found.shape)} instead of int64 {list(expected.shape)}"
        raise broken(path, f"its array 'latents_classes' is {got}")
    wrong = (found != expected).any(1)
    if wrong.any():
        row = int(wrong.argmax())
        got = f"{found[row].tolist()} instead of {expected[row].tolist()}"
        raise broken(path, f"row {row} of its array 'latents_classes' is {got}")


def _check_header(path: Path, stream: Any) -> None:
    """Read what comes before the pictures, and refuse them if they are not as published."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(stream)
    if (shape, fortran_order, dtype) != ((SPACE.states, SIDE, SIDE), False, np.uint8):
        order = " in Fortran's order" if fortran_order else ""
        expected = f"uint8 {[SPACE.states, SIDE, SIDE]}"
        raise broken(path, f"its array 'imgs' is {dtype} {list(shape)}{order} instead of {expected}")
