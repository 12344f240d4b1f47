"""What a part may know when it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Info:
    """What a part may know of the model and the data when it is built.

    Args:
        latents: The number of latents.
        shape: The shape of an example.
        data_size: The number of training examples.
        standard: The mean and the standard deviation of each channel; None if images are not standardised.
        principal: `principal(count)` gives the variances along the data's leading principal components; None where
            stored weights are loaded, since the data may be missing then.
    """

    latents: int
    shape: tuple[int, ...]
    data_size: int = 0
    standard: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    principal: Callable[[int], tuple[float, ...]] | None = field(default=None, compare=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Info:
        """The same object: it is frozen, and `principal` may know all the data, which a copied model must not copy."""
        return self
