"""A share of the data that no member is trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64, Shaped

from untwine.data import Dataset
from untwine.data.contract import Unlabelled
from untwine.errors import UntwineError
from untwine.streams import np_bits


@dataclass(frozen=True)
class Holdout:
    """The numbers of the examples to train on, and of those that are held out, which are in random order."""

    training: Int64[np.ndarray, " n"]
    held_out: Int64[np.ndarray, " m"]


def split(size: int, share: float) -> Holdout:
    """Hold out a share of the examples: which ones depends on nothing but their number.

    Args:
        size: The number of examples.
        share: The share to hold out; it is at least one example.

    >>> few = split(10, 0.2)
    >>> few.held_out.tolist(), few.training.tolist()
    ([9, 1], [0, 2, 3, 4, 5, 6, 7, 8])
    """
    count = max(1, round(share * size))
    if count >= size:
        raise UntwineError(f"holdout is {share!r}: of {size:,} examples that leaves none to train on")
    order = np.argsort(np_bits(0, "holdout", size), kind="stable")
    return Holdout(np.sort(order[count:]), order[:count])


class Selection(Unlabelled):
    """Some examples of a dataset, without their factors.

    Args:
        dataset: The dataset.
        numbers: The numbers of the examples.
    """

    def __init__(self, dataset: Dataset, numbers: Int64[np.ndarray, " n"]) -> None:
        super().__init__(dataset.shape, len(numbers), None)
        self.spec = dataset.spec
        self._dataset, self._numbers = dataset, numbers

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        return self._dataset.batch(self._numbers[indices])
