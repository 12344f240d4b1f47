"""Parts of a dataset, to train on one and to measure on another (rolinek2019, supplement 8.4)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Int64, Shaped

from untwine.arguments import Share
from untwine.data.contract import Dataset
from untwine.data.nested import Inner, built, settle_inner
from untwine.data.specs import dataset
from untwine.errors import UntwineError
from untwine.streams import np_uniform

PartName = Literal["train", "evaluation", "test"]


@dataset(settle=settle_inner, selecting=("part", "evaluation", "test", "seed"))
def split(dataset: Inner, part: PartName = "train", evaluation: Share = 0.1, test: Share = 0.1, seed: int = 0) -> Part:
    """A random part of another dataset: examples for training, for evaluation during development, or for tests.

    The three parts share no example and together are the whole dataset: 80, 10 and 10 percent of it, as in rolinek2019
    (8.4), unless other shares are given. `uw.evaluate(run, dataset=uw.datasets.split(..., part="test"))` scores models
    on a part that they did not see. Metrics take the examples of a part, as it does not have every state; those that
    need interventions are refused.

    Args:
        dataset: The dataset: a name such as mnist, a name with arguments such as "mnist(split=both)", a spec, or in
            Python a dataset.
        part: "train", "evaluation" or "test".
        evaluation: The share of the examples for evaluation.
        test: The share of the examples for tests.
        seed: The seed of the order in which examples go to the parts.

    >>> parts = [split("synthetic-linear(samples=1000)", name) for name in ("train", "evaluation", "test")]
    >>> [len(part) for part in parts], parts[0].factors.names
    ([800, 100, 100], ('w1', 'w2'))
    """
    inner = built(dataset)
    first, second = round(test * len(inner)), round((test + evaluation) * len(inner))
    start, end = {"test": (0, first), "evaluation": (first, second), "train": (second, len(inner))}[part]
    if end <= start:
        raise UntwineError(
            f"split: no example is left for the part {part!r} of {len(inner)} with test={test:g} and "
            f"evaluation={evaluation:g}"
        )
    order = np.argsort(np_uniform(seed, "split", len(inner)), kind="stable")
    return Part(inner, np.sort(order[start:end]))


class Part(Dataset):
    """Some examples of another dataset, by their numbers there."""

    def __init__(self, inner: Dataset, numbers: Int64[np.ndarray, " n"]) -> None:
        super().__init__(inner.shape, len(numbers), inner.factors)
        self._inner = inner
        self._numbers = numbers

    @property
    def complete(self) -> bool:
        """False: other states of the dataset can be observed, but are in other parts."""
        return False

    @property
    def content(self) -> str | None:
        return self._inner.content

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        return self._inner.batch(self._numbers[indices])

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        return self._inner.factors_of(self._numbers[indices])

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        return self._inner.observe(factors)
