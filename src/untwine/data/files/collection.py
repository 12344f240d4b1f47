"""Pictures that a program holds, in a list or a torch Dataset: read once, one by one, into a table of bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8

from untwine.checks import dense
from untwine.data.files.folders import eight_bits, square, uniform, upright
from untwine.data.files.pixels import as_bytes, channels_first, refuse_values
from untwine.errors import UntwineError
from untwine.progress import track

if TYPE_CHECKING:
    from PIL.Image import Image

FROM_FILES = 64  # the size of pictures from files, as in folders
_KINDS = "pictures are arrays, tensors, pictures of Pillow, or the paths of files"


@runtime_checkable
class Collection(Protocol):
    """A list, a tensor, a torch Dataset, or whatever else has a length and items by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


def to_array(value: Any) -> Any:
    """A tensor as an array; anything else as it is. Torch is not imported for it."""
    if not (hasattr(value, "detach") and hasattr(value, "numpy")):
        return value
    plain = dense(value, "images: this tensor").detach().cpu()
    return (plain.float() if "bfloat16" in str(plain.dtype) else plain).numpy()


def gather(source: Any, size: int | None) -> tuple[np.ndarray, list[Any]]:
    """The pictures of a collection, `[n, height, width, channels]` or vectors `[n, d]`, and the labels beside them.

    An item is a picture, or a tuple of a picture and labels. Every item is read once. Nothing but the table is kept.

    Args:
        source: The collection; anything else is refused.
        size: Width and height in pixels; None keeps those of the pictures, and makes 64 x 64 of files.
    """
    if isinstance(source, Mapping) or not isinstance(source, Collection):
        raise UntwineError(
            f"images: a source is a folder, a file, an array, or a list or torch Dataset with a length and pictures by "
            f"number, which this {type(source).__name__} is not; if it yields pictures, use list(...)"
        )
    count = len(source)
    if not count:
        raise UntwineError(f"images: this {type(source).__name__} has no pictures")
    table = _Table(count)
    labels = []
    for number in track(range(count), "pictures", count):
        where = f"item {number}"
        try:
            item = source[number]
        except UntwineError:
            raise
        except Exception as error:  # whatever a user's dataset raises
            raise UntwineError(f"images: {where} cannot be read: {type(error).__name__}: {error}") from error
        picture, label = _parted(item)
        table.put(number, _pixels(picture, size, where), where)
        labels.append(label)
    return table.finished(), labels


class _Table:
    """Pictures of one size; grey ones get three channels when the first one with colour comes."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.pixels: np.ndarray[Any, Any] = np.empty(0)
        self.whole = True  # whether no picture was made of floats or bits, so that 1 may stand for white

    def put(self, number: int, picture: tuple[np.ndarray, bool], where: str) -> None:
        values, whole = picture
        if number == 0:
            self.pixels = np.empty((self.count, *values.shape), values.dtype)
        mine: tuple[int, ...] = self.pixels.shape[1:]
        if values.ndim == len(mine) == 3 and values.shape[2] > mine[2]:
            self.pixels = np.repeat(self.pixels, values.shape[2], axis=3)
        if values.ndim != len(mine) or values.shape[:2] != mine[:2]:
            shapes = " x ".join(map(str, values.shape[:2])), " x ".join(map(str, mine[:2]))
            raise UntwineError(
                f"images: {where} has {shapes[0]} pixels, and item 0 has {shapes[1]}: with size=64, say, all become "
                "squares of one size"
            )
        self.pixels[number] = values
        self.whole &= whole

    def finished(self) -> np.ndarray:
        """The table; almost black pictures that were no integers are floats, since integers of 0 and 1 mean others."""
        if self.whole or self.pixels.ndim == 2 or self.pixels.max() > 1:
            return self.pixels
        return (self.pixels / 255).astype(np.float32)


def _parted(item: Any) -> tuple[Any, Any]:
    """A picture and what stands beside it: an item of a torch Dataset is often a tuple of both."""
    if isinstance(item, tuple | list) and item and _is_picture(item[0]):
        rest = list(item[1:])
        return item[0], rest[0] if len(rest) == 1 else rest or None
    return item, None


def _is_picture(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) or _is_pillow(value) or getattr(value, "ndim", 0) >= 1


def _is_pillow(value: Any) -> bool:
    return hasattr(value, "convert") and hasattr(value, "getbands")


def _pixels(picture: Any, size: int | None, where: str) -> tuple[np.ndarray, bool]:
    """A picture `[height, width, channels]`, or a vector, and whether its values were integers."""
    if isinstance(picture, str | os.PathLike):
        try:
            return _of_pillow(square(upright(Path(picture).expanduser()), size or FROM_FILES)), False
        except (OSError, SyntaxError, ValueError, EOFError, UntwineError) as error:
            raise UntwineError(f"images: {where}, {os.fspath(picture)!r}, cannot be read: {error}") from None
    if _is_pillow(picture):
        return _of_pillow(square(uniform(picture), size)), False
    try:
        array = np.asarray(to_array(picture))
    except (TypeError, ValueError) as error:
        raise UntwineError(f"images: {where} is no picture ({error}); {_KINDS}") from None
    if array.dtype.kind not in "buif" or array.ndim not in (1, 2, 3) or not array.size:
        raise UntwineError(
            f"images: {where} is {type(picture).__name__}, {array.dtype} {list(array.shape)}, and no picture; {_KINDS}"
        )
    refuse_values(array, where)
    if array.ndim == 1:
        return array.astype(np.float32), False
    first = channels_first(array[None], where)[0]
    return _resized(as_bytes(first, where).transpose(1, 2, 0), size), array.dtype.kind in "ui"


def _resized(pixels: UInt8[np.ndarray, "h w c"], size: int | None) -> UInt8[np.ndarray, "h2 w2 c"]:
    if size is None or pixels.shape[:2] == (size, size):
        return pixels
    from PIL import Image

    plain = np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    return _of_pillow(square(Image.fromarray(plain), size))


def _of_pillow(picture: Image) -> UInt8[np.ndarray, "h w c"]:
    """A grey or coloured picture as an array."""
    values = np.asarray(eight_bits(picture))
    return values[..., None] if values.ndim == 2 else values


# --- labels -----------------------------------------------------------------------------------------


def columns_of(labels: Sequence[Any]) -> dict[str, list[Any]]:
    """The columns of labels by name: `label`, or `label0`, `label1`, ... where each item has several.

    >>> columns_of([3, 1]), columns_of([np.array([0, 2]), (1, 5)])
    ({'label': [3, 1]}, {'label0': [0, 1], 'label1': [2, 5]})
    """
    if any(label is None for label in labels):
        raise UntwineError("images: labels=True takes the labels beside pictures, but an item has none")
    rows = [to_array(label) for label in labels]
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    if isinstance(rows[0], Mapping):
        return {str(name): [_plain(row[name]) for row in rows] for name in rows[0]}
    if not isinstance(rows[0], list | tuple):
        return {"label": [_plain(row) for row in rows]}
    return {f"label{i}": [_plain(row[i]) for row in rows] for i in range(len(rows[0]))}


def _plain(value: Any) -> Any:
    """A number or a text, from a tensor or a scalar of NumPy."""
    value = to_array(value)
    return value.item() if hasattr(value, "item") else value
