"""Examples that a user gives to a model: checked once, where they come in."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from untwine.checks import dense, numbers
from untwine.errors import UntwineError
from untwine.model.info import Info

SLACK = 1e-4  # by which rounding may move pixels out of [0, 1]
_FEW = 64  # examples that are looked at first


def as_examples(x: Any, info: Info) -> Shaped[Tensor, "n ..."]:
    """Examples as a tensor, refused if they are not like those that the model was trained on.

    A model of images was trained on [0, 1], for which uint8 from 0 to 255 stands (if it standardises images, it does so
    itself). So its examples are uint8, booleans, or floats in [0, 1]; other integers are ambiguous. A model of vectors
    takes any finite numbers but uint8.

    Args:
        x: Examples `[n, *shape]`: an array, a tensor or lists.
        info: What the model knows of its data.

    >>> as_examples([[0.5, -3.0]], Info(latents=1, shape=(2,))).dtype
    torch.float64
    >>> as_examples(torch.full((5, 1, 8, 8), 200), Info(latents=1, shape=(1, 8, 8)))
    Traceback (most recent call last):
    untwine.errors.UntwineError: examples are int64 from 200 to 200; this model takes images as uint8 from 0 to 255, \
or as floats in [0, 1]: if these are from 0 to 255, use x.astype(np.uint8)
    """
    examples = _tensor(x)
    if tuple(examples.shape[1:]) != info.shape or len(examples) == 0:
        raise UntwineError(
            f"examples must have shape [n, {', '.join(map(str, info.shape))}], not {list(examples.shape)}"
        )
    if len(info.shape) == 3:
        _check_pixels(examples, info)
    else:
        _check_numbers(examples)
    return examples


def _tensor(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return dense(x, "this tensor of examples")
    return torch.from_numpy(numbers(x, "examples"))


def _check_pixels(images: Tensor, info: Info) -> None:
    if images.dtype == torch.bool:
        return
    if images.dtype == torch.uint8:
        # Most images show in the first few that they are not all 0 and 1. A GPU is not made to wait for it.
        if images.device.type == "cpu" and images[:_FEW].max() == 1 and images.max() == 1:
            warnings.warn(
                "all pixels of these uint8 images are 0 or 1, and 255 is white: if 1 is meant to be white, "
                "multiply them by 255",
                stacklevel=5,
            )
        return
    low, high = _range(images)
    given = f"examples are {_name(images)} from {low:.6g} to {high:.6g}"
    if not images.is_floating_point():
        raise UntwineError(
            f"{given}; this model takes images as uint8 from 0 to 255, or as floats in [0, 1]: if these are from 0 to "
            "255, use x.astype(np.uint8)"
        )
    if low >= -SLACK and high <= 1 + SLACK:  # false if there is a NaN
        return
    itself = ""
    if not math.isfinite(low + high):
        cure = "remove or replace what is not finite"
    elif low >= -SLACK and 2 < high <= 255 * (1 + SLACK):
        cure = "divide them by 255, or give them as uint8"
    else:
        cure = "map them to [0, 1], or clip them if they are reconstructions"
        itself = "; this model standardises images itself" if info.standard is not None else ""
    raise UntwineError(f"{given}, but the model was trained on images in [0, 1]: {cure}{itself}")


def _check_numbers(vectors: Tensor) -> None:
    if vectors.dtype == torch.uint8:
        raise UntwineError(
            "examples are uint8, but the model was trained on vectors of floats: give them as floats, on the scale of "
            "the training data"
        )
    low, high = _range(vectors)
    if not math.isfinite(low + high):
        raise UntwineError(f"examples are {_name(vectors)} from {low:g} to {high:g}; they must be finite")


def _range(x: Tensor) -> tuple[float, float]:
    """The smallest and the largest number; both are NaN if there is a NaN."""
    if x.is_complex():
        raise UntwineError(f"examples are {_name(x)}; they must be real numbers")
    # Not every version of torch has minima of short floats, or of integers without a sign.
    low, high = (x if x.dtype.is_signed and x.element_size() >= 4 else x.double()).aminmax()
    return low.item(), high.item()


def _name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
