"""Checks of arrays and whole numbers that functions of arrays share."""

from __future__ import annotations

from typing import Any

import numpy as np

from untwine.errors import UntwineError

_LARGEST = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}  # bytes of a number, of those that tensors have


def as_array(value: Any) -> np.ndarray:
    """A NumPy array from an array, a list, or a tensor on any device and of any precision.

    >>> import torch
    >>> as_array(torch.ones(2, dtype=torch.bfloat16, requires_grad=True)).dtype
    dtype('float32')
    """
    if hasattr(value, "detach"):
        value = dense(value).detach().cpu()
        value = value.float() if value.is_floating_point() and value.element_size() < 4 else value
    try:
        return np.asarray(value)
    except ValueError:
        raise UntwineError("this is no array of numbers: its rows have different lengths") from None


def dense(tensor: Any, what: str = "this tensor") -> Any:
    """A tensor of torch, refused where its numbers are not simply there: sparse, nested, quantised, or without any.

    Args:
        tensor: The tensor.
        what: What it is, for the error.
    """
    if tensor.is_meta:
        raise UntwineError(f"{what} has no numbers: it is on the device 'meta'")
    if tensor.is_nested:
        raise UntwineError(f"{what} is nested: its rows have different lengths")
    if str(tensor.layout) != "torch.strided":
        raise UntwineError(f"{what} is sparse: give x.to_dense()")
    if tensor.is_quantized:
        raise UntwineError(f"{what} is quantised: give x.dequantize()")
    return tensor


def numbers(value: Any, what: str) -> np.ndarray:
    """A NumPy array of numbers from an array or lists; texts, objects and rows of different lengths are refused.

    Args:
        value: The array or lists.
        what: What its values are, for the error: "examples".

    >>> numbers("hello", "examples")
    Traceback (most recent call last):
    untwine.errors.UntwineError: examples must be an array of numbers, not 'hello'
    """
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        raise UntwineError(f"{what} must be an array of numbers: rows have different lengths") from None
    if array.dtype.kind not in "biufc":
        raise UntwineError(f"{what} must be an array of numbers, not {value!r:.80}")
    native = np.dtype(f"{array.dtype.kind}{min(array.dtype.itemsize, _LARGEST[array.dtype.kind])}")
    if array.dtype.char != native.char or not array.dtype.isnative:  # which tensors do not have
        array = array.astype(native)
    return np.ascontiguousarray(array) if array.ndim else array


def finite(array: np.ndarray, what: str) -> np.ndarray:
    """The array in float64; a NaN or an infinity is refused.

    Args:
        array: The array.
        what: What its values are, for the error: "codes".
    """
    if not np.isfinite(array).all():
        first = np.argwhere(~np.isfinite(array))[0].tolist()
        raise UntwineError(f"{what} hold a NaN or an infinity, first at {first}; did the model diverge?")
    return array.astype(np.float64)


def whole(name: str, value: Any, least: int, most: int | None = None, of: str = "") -> None:
    """Refuse a value that is not a whole number between bounds.

    Args:
        name: The name of the argument, for the error.
        value: The value.
        least: The lower bound.
        most: The upper bound; None sets none.
        of: What the upper bound is, for the error: " of the dataset".

    >>> whole("points", 1, 2)
    Traceback (most recent call last):
    untwine.errors.UntwineError: points must be a whole number, 2 or more, not 1
    """
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or not least <= value <= (2**63 - 1 if most is None else most):
        bounds = f"{least} or more" if most is None else f"from {least} to {most:,}{of}"
        raise UntwineError(f"{name} must be a whole number, {bounds}, not {value!r}")
