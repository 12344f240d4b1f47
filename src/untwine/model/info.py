"""What a part may know when it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Info:
    """The size of the latent space, the shape of an example, and the number of training examples.

    `principal(count)` gives the variances along the data's leading principal components; it is None where
    only stored weights are put back, since then the data need not be there. `standard` has the mean and the
    standard deviation of each channel where images are standardised.
    """

    latents: int
    shape: tuple[int, ...]
    data_size: int = 0
    standard: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    principal: Callable[[int], tuple[float, ...]] | None = field(default=None, compare=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Info:
        """The same object: it is frozen, and `principal` may know all the data, which a copied model must not copy."""
        return self
