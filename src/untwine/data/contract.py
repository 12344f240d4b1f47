"""The contract of every dataset."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from untwine.data.factors import ArrayLike, FactorSpace
from untwine.errors import UntwineError
from untwine.room import refuse_larger

_CHUNK_BYTES = 2**26


class Dataset(ABC):
    """Training examples and, if their factors are known, an image or vector for every state of the factors.

    `shape` is `(channels, height, width)` for images, which are uint8 with 0..255 standing for [0, 1], and
    `(n,)` for plain vectors, which are float32. `factors` is None if the factors are unknown: models train on
    such a dataset as well, but cannot be scored. `spec` is the JSON from which `build` makes the dataset again.

    A subclass defines `_batch`, `_factors_of` and `_observe`, whose arguments are already checked, or derives
    from `Unlabelled` and defines `_batch` alone. It overrides nothing else.

    >>> import untwine.datasets
    >>> dots = untwine.datasets.three_dots(examples=100)
    >>> dots.shape, len(dots), dots.batch([0, 1]).dtype
    ((1, 64, 64), 100, dtype('uint8'))
    >>> bool((dots.observe(dots.factors_of([7])) == dots.batch([7])).all())
    True
    """

    spec: dict[str, Any]

    def __init__(self, shape: tuple[int, ...], length: int, factors: FactorSpace | None) -> None:
        self.spec = {}
        self.shape = shape
        self.factors = factors
        self._length = length
        self._examples: np.ndarray | None = None

    @abstractmethod
    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        """The training examples with these indices."""

    @abstractmethod
    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        """The factors of these training examples."""

    @abstractmethod
    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        """The images or vectors of these states."""

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.spec.items() if key != "name")
        return f"{self.spec.get('name', type(self).__name__)}({arguments})"

    @property
    def complete(self) -> bool:
        """Whether `observe` has an image for every state, and each state looks only one way.

        Interventions on factors need a complete dataset.
        """
        return self.factors is not None

    @property
    def content(self) -> str | None:
        """A hash of the examples; None where the spec alone identifies them."""
        return None

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint8 for images, float32 for vectors."""
        return np.dtype(np.uint8 if len(self.shape) == 3 else np.float32)

    @property
    def nbytes(self) -> int:
        """The size of `examples()` in bytes, without computing it; a trainer decides by it what fits on a device."""
        return len(self) * math.prod(self.shape) * self.dtype.itemsize

    @property
    def in_memory(self) -> bool:
        """Whether `examples()` returns what is in memory already, without computing it."""
        return self._examples is not None

    def batch(self, indices: ArrayLike) -> Shaped[np.ndarray, "n ..."]:
        """The training examples `[n, *shape]` with these indices, from 0 to `len - 1`."""
        numbers = self._check_indices(indices)
        self._refuse_larger(len(numbers))
        return self._batch(numbers)

    def factors_of(self, indices: ArrayLike) -> Int64[np.ndarray, "n k"]:
        """The factors `[n, k]` of these training examples."""
        return self._factors_of(self._check_indices(indices))

    def observe(self, factors: ArrayLike) -> Shaped[np.ndarray, "n ..."]:
        """The images or vectors `[n, *shape]` of these states `[n, k]`, which need not be training examples."""
        states = np.asarray(factors) if self.factors is None else self.factors.check(factors)
        self._refuse_larger(len(states) if states.ndim else 0)
        return self._observe(states)

    def examples(self) -> Shaped[np.ndarray, "n ..."]:
        """All training examples in one array, computed once and kept. Do not write to it."""
        if self._examples is None:
            self._refuse_larger(len(self))
            table = np.empty((len(self), *self.shape), self.dtype)
            chunk = max(1, _CHUNK_BYTES // max(1, math.prod(self.shape) * self.dtype.itemsize))
            for start in range(0, len(self), chunk):
                stop = min(start + chunk, len(self))
                table[start:stop] = self._batch(np.arange(start, stop))
            self._examples = table
        return self._examples

    def standardisation(
        self, indices: ArrayLike | None = None
    ) -> tuple[Float64[np.ndarray, " channels"], Float64[np.ndarray, " channels"]]:
        """Mean and standard deviation of each channel of the images in [0, 1], as Michlo et al. 2023, Table A2.

        The standard deviation is the mean over images of each image's (unbiased) standard deviation, not that of
        all pixels together. `indices` selects training examples; None takes all of them. In `xy_squares` all images
        have the same constants, so a single one is enough.

        >>> import untwine.datasets
        >>> mean, std = untwine.datasets.xy_squares().standardisation([0])
        >>> mean.tolist(), std.round(5).tolist()
        ([0.015625, 0.015625, 0.015625], [0.12403, 0.12403, 0.12403])
        """
        if len(self.shape) != 3:
            raise UntwineError(f"only images are standardised by channel; an example here is {list(self.shape)}")
        pixels = math.prod(self.shape[1:])
        selected = np.arange(len(self)) if indices is None else self._check_indices(indices)
        if not len(selected) or pixels < 2:
            raise UntwineError("standardisation needs at least one image, of two or more pixels")
        mean, std = np.zeros(self.shape[0]), np.zeros(self.shape[0])
        for part in np.array_split(selected, -(-len(selected) * self.shape[0] * pixels * 8 // _CHUNK_BYTES)):
            # The sums are over integers 0..255 and stay below 2^53, so they are exact.
            values = self._batch(part).reshape(len(part), self.shape[0], pixels).astype(np.float64)
            total, squares = values.sum(-1), np.einsum("ncp,ncp->nc", values, values)
            mean += total.sum(0) / pixels
            std += np.sqrt((pixels * squares - total**2) / (pixels * (pixels - 1))).sum(0)
        return mean / (255 * len(selected)), std / (255 * len(selected))

    def _refuse_larger(self, count: int) -> None:
        """Refuse to make more examples at once than fit into memory."""
        needed = count * math.prod(self.shape) * self.dtype.itemsize
        examples = f"{count:,} example{'s' * (count != 1)} of {list(self.shape)}"
        refuse_larger(needed, f"{self.spec.get('name', 'data')}: {examples}", "take fewer, or smaller ones")

    def _check_indices(self, indices: ArrayLike) -> Int64[np.ndarray, " n"]:
        """The indices as int64 `[n]`; those outside the dataset are refused."""
        array = np.asarray(indices)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise UntwineError(f"example numbers must be int64 [n]; got {array.dtype} {list(array.shape)}")
        outside = (array < 0) | (array >= len(self))
        if outside.any():
            raise UntwineError(f"there is no example {array[outside][0]}; they are 0 to {len(self) - 1}")
        return array.astype(np.int64)


class Unlabelled(Dataset):
    """A dataset without factors. A subclass defines only `_batch`."""

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        raise UntwineError(f"dataset {self.spec.get('name')!r} has no factors, so its examples have none")

    def _observe(self, factors: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "n ..."]:
        raise UntwineError(
            f"dataset {self.spec.get('name')!r} has no factors to observe; it can train a model, "
            "but scoring one needs a dataset with factors, such as 'three_dots'"
        )
