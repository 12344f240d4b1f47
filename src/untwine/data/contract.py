"""The contract that every dataset keeps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from untwine.data.factors import ArrayLike, FactorSpace
from untwine.errors import UntwineError

_CHUNK_BYTES = 2**26


class Dataset(ABC):
    """Training examples, and where they have factors, an image or vector for every state of the factors.

    `shape` is `(channels, height, width)` for images, which are uint8 with 0..255 standing for [0, 1], and
    `(n,)` for plain vectors, which are float32. `factors` is None for data of unknown origin: such a
    dataset trains as well as any other, it only cannot be scored. `spec` is the JSON from which `build`
    makes the dataset again.

    A new dataset defines `_batch`, `_factors_of` and `_observe` (or derives from `Unlabelled`), and gets
    arguments that are already checked; it overrides nothing else.

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
        """The training examples of these numbers."""

    @abstractmethod
    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        """The factors of these training examples."""

    @abstractmethod
    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        """What the states of these factors look like."""

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.spec.items() if key != "name")
        return f"{self.spec.get('name', type(self).__name__)}({arguments})"

    @property
    def complete(self) -> bool:
        """Whether `observe` shows every state, and all that it can look like. Interventions on factors need that."""
        return self.factors is not None

    @property
    def content(self) -> str | None:
        """A hash of what a dataset holds; None where its spec says all that there is to know."""
        return None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8 if len(self.shape) == 3 else np.float32)

    @property
    def nbytes(self) -> int:
        """The size of `examples()`, known before it is made: a trainer decides by it what fits where."""
        return len(self) * math.prod(self.shape) * self.dtype.itemsize

    def batch(self, indices: ArrayLike) -> Shaped[np.ndarray, "n ..."]:
        """The training examples `[n, *shape]` of these numbers, each from 0 to `len - 1`."""
        return self._batch(self._check(indices))

    def factors_of(self, indices: ArrayLike) -> Int64[np.ndarray, "n k"]:
        """The factors `[n, k]` of these training examples."""
        return self._factors_of(self._check(indices))

    def observe(self, factors: ArrayLike) -> Shaped[np.ndarray, "n ..."]:
        """What these states `[n, k]` look like: `[n, *shape]`. They need not be training examples."""
        return self._observe(np.asarray(factors) if self.factors is None else self.factors.check(factors))

    def examples(self) -> Shaped[np.ndarray, "n ..."]:
        """The whole training table, made once and then kept: it is the dataset's own, do not write to it."""
        if self._examples is None:
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

        Their standard deviation is the mean over the images of each image's own (unbiased), not that of
        all pixels together. Over all training examples, a part at a time, or over those of the given
        numbers. In `xy_squares` all pictures have the same constants, so any one of them is enough.

        >>> import untwine.datasets
        >>> mean, std = untwine.datasets.xy_squares().standardisation([0])
        >>> mean.tolist(), std.round(5).tolist()
        ([0.015625, 0.015625, 0.015625], [0.12403, 0.12403, 0.12403])
        """
        if len(self.shape) != 3:
            raise UntwineError(f"only images are standardised by channel; an example here is {list(self.shape)}")
        pixels = math.prod(self.shape[1:])
        numbers = np.arange(len(self)) if indices is None else self._check(indices)
        if not len(numbers) or pixels < 2:
            raise UntwineError("standardisation needs at least one image, of two or more pixels")
        mean, std = np.zeros(self.shape[0]), np.zeros(self.shape[0])
        for part in np.array_split(numbers, -(-len(numbers) * self.shape[0] * pixels * 8 // _CHUNK_BYTES)):
            # Whole numbers below 2^53, so these sums are exact. They are taken of 0..255.
            values = self._batch(part).reshape(len(part), self.shape[0], pixels).astype(np.float64)
            total, squares = values.sum(-1), np.einsum("ncp,ncp->nc", values, values)
            mean += total.sum(0) / pixels
            std += np.sqrt((pixels * squares - total**2) / (pixels * (pixels - 1))).sum(0)
        return mean / (255 * len(numbers)), std / (255 * len(numbers))

    def _check(self, indices: ArrayLike) -> Int64[np.ndarray, " n"]:
        array = np.asarray(indices)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise UntwineError(f"example numbers must be int64 [n]; got {array.dtype} {list(array.shape)}")
        outside = (array < 0) | (array >= len(self))
        if outside.any():
            raise UntwineError(f"there is no example {array[outside][0]}; they are 0 to {len(self) - 1}")
        return array.astype(np.int64)


class Unlabelled(Dataset):
    """Training examples of unknown origin. A concrete dataset defines only `_batch`."""

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        raise UntwineError(f"dataset {self.spec.get('name')!r} has no factors, so its examples have none")

    def _observe(self, factors: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "n ..."]:
        raise UntwineError(
            f"dataset {self.spec.get('name')!r} has no factors to observe; it can train a model, "
            "but scoring one needs a dataset with factors, such as 'three_dots'"
        )
