"""Arrays of pictures: where their channels are, and their values as bytes."""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt8

from untwine.errors import UntwineError

SHAPES = "[n, height, width], [n, height, width, 1 or 3], [n, 1 or 3, height, width], or [n, d] for vectors"


def refuse_values(array: np.ndarray, where: str) -> None:
    """Refuse an array that does not hold finite numbers.

    Args:
        array: The array.
        where: What error messages call it.
    """
    if array.dtype.kind not in "buif":
        raise UntwineError(f"images: {where} holds {array.dtype}; it must hold numbers, such as uint8 or float32")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UntwineError(f"images: {where} holds NaN or infinite values; remove or replace them first")


def channels_first(array: np.ndarray, where: str) -> np.ndarray:
    """Pictures as `[n, channels, height, width]`: the last axis is that of the channels if it has 1 or 3 entries.

    Args:
        array: Pictures, in three or four dimensions.
        where: What error messages call them.
    """
    if array.ndim == 3:
        return array[:, None]
    if array.shape[3] in (1, 3):
        return array.transpose(0, 3, 1, 2)
    if array.shape[1] in (1, 3):
        return array
    raise UntwineError(f"images: {where} has shape {list(array.shape)}; it must be {SHAPES}")


def as_bytes(array: np.ndarray, where: str) -> UInt8[np.ndarray, "..."]:
    """Floats and booleans in [0, 1] as 0 to 255, and integers as they are; what is beyond is refused.

    Args:
        array: Finite numbers.
        where: What error messages call the array.
    """
    low, high = array.min(), array.max()
    if array.dtype.kind == "f":
        # The tolerance is for values of [0, 1] that were rounded.
        if low < -1e-4 or high > 1 + 1e-4:
            raise UntwineError(
                f"images: {where} holds floats from {low:g} to {high:g}; they must be in [0, 1], or uint8 from 0 to 255"
            )
        return np.ascontiguousarray((array.astype(np.float64).clip(0, 1) * 255).round().astype(np.uint8))
    if array.dtype.kind != "b" and (low < 0 or high > 255):
        raise UntwineError(f"images: {where} holds integers from {low} to {high}; they must be from 0 to 255")
    return np.ascontiguousarray(array.astype(np.uint8) * np.uint8(255 if array.dtype.kind == "b" else 1))


def to_pixels(array: np.ndarray, where: str) -> UInt8[np.ndarray, "..."]:
    """Pictures as bytes; integers that are all 0 or 1 are black and white. Arguments as in `as_bytes`."""
    pixels = as_bytes(array, where)
    # Binary images (as dSprites stores them) would otherwise be almost black.
    return pixels * np.uint8(255) if array.dtype.kind in "ui" and pixels.max() <= 1 else pixels
