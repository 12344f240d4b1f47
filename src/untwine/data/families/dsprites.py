"""dSprites: a white square, ellipse or heart on black (Matthey et al. 2017), from its file or drawn here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from untwine.data.families import sprites
from untwine.data.files import npz, store
from untwine.data.files.pictures import broken, gathered
from untwine.data.files.public import File, Public
from untwine.data.specs import dataset
from untwine.data.states import Tabled, kept
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
HINT = (
    "A dSprites that is drawn here, on the same grid, needs no download: dsprites(rendered=True), "
    "or --dataset.rendered true on the command line."
)


def _files(rendered: bool = False) -> tuple[File, ...]:
    return () if rendered else FILES


PUBLIC = Public(
    files=_files, licence="Apache 2.0", examples=SPACE.states, shape=(1, SIDE, SIDE), factors=SPACE, hint=HINT
)


@dataset(public=PUBLIC)
def dsprites(rendered: bool = False) -> Tabled:
    """A square, an ellipse or a heart of six sizes, turned to 40 orientations, in 32 by 32 places: 737,280 pictures.

    Without `rendered` they are those of the published file. With it they are drawn (`sprites.py`) on the same grid:
    perceived distances and standardisation are those of michlo2023 (Tables A1 and A2) within 5 percent, but pixel
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
        space, path, what, parts, hint = sprites.SPACE, "dsprites/rendered-1.npy", "drawing dSprites", _drawn, ""
    else:
        space, path, what, parts, hint = SPACE, "dsprites/packed-1.npy", f"packing {_NAME}", _packed, HINT
    shape = (space.states, _BYTES)
    return Tabled(space, (1, SIDE, SIDE), partial(_rows, kept(path, shape, parts, what, hint)))


def _rows(table: UInt8[np.ndarray, "states bytes"], numbers: Int64[np.ndarray, " n"]) -> UInt8[np.ndarray, "n 1 h w"]:
    return (np.unpackbits(gathered(table, numbers), axis=1) * 255).reshape(-1, 1, SIDE, SIDE)


def _drawn() -> Iterable[np.ndarray]:
    return track(sprites.packed(), "drawing dSprites", math.prod(sprites.SPACE.sizes[:3]))


# --- the file -------------------------------------------------------------------------------------------


def _packed() -> Iterator[UInt8[np.ndarray, "n bytes"]]:
    """The pictures of the file, a bit for each pixel. It is fetched if need be, and unpacked a part at a time."""
    path = store.fetch(FILES[0], HINT)
    _check_order(path)
    for part in npz.pixels(path, "imgs", (SPACE.states, SIDE, SIDE), _AT_ONCE * SIDE * SIDE):
        pictures = np.frombuffer(part, np.uint8).reshape(-1, SIDE * SIDE)
        if pictures.max() > 1:
            raise broken(path, f"a pixel of its array 'imgs' is {pictures.max()}, neither 0 nor 1")
        yield np.packbits(pictures, axis=1)


def _check_order(path: Path) -> None:
    """Refuse a file whose pictures do not come in the order of their states, the last factor fastest."""
    found = npz.small(path, "latents_classes")
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
