"""The codes of states or examples: observed, encoded, and cached where there is room."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64

from untwine.checks import as_array
from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.errors import UntwineError
from untwine.metrics.score import metrics

# Images `[n, *shape]` to codes `[n, d]`, or `[members, n, d]` of several models: arrays or tensors.
Encode = Callable[[np.ndarray], Any]
# Numbers of states or examples, or rows of factors, to their images: an array, or a tensor on a GPU.
Images = Callable[[np.ndarray], Any]

_IMAGES = 2**25  # bytes of images that are observed at once
_TABLE = 2**29  # bytes of codes that are cached


class Encoder:
    """The codes of a dataset's states, `[*samples, d]` or `[members, *samples, d]`, and those of its examples.

    States that occur twice are encoded once. Where the codes of all states of the dataset (or of all examples) fit into
    memory, they are cached: windows, radii and metrics that share states share the work. Where `encode` is a method of
    an object on a GPU (with `takes_tensors_on`), and the dataset can draw there, images of states never leave it.

    Args:
        encode: A function from images to codes, such as `ensemble.encode`.
        dataset: The data whose states and examples are encoded.

    >>> import untwine.datasets
    >>> squares = untwine.datasets.xy_squares()
    >>> calls = []
    >>> def encode(images):
    ...     calls.append(len(images))
    ...     return images.mean((1, 2))
    >>> states = squares.factors.sample(1000, seed=0) // 4
    >>> encoder = Encoder(encode, squares)
    >>> encoder(states).shape, sum(calls) <= 64, encoder(states[:7]).shape, len(calls)
    ((1000, 64), True, (7, 64), 1)
    >>> encoder.of_examples(np.arange(5)).shape
    (5, 64)
    """

    def __init__(self, encode: Encode, dataset: Dataset):
        self.encode = encode
        self.dataset = dataset
        self.on_images: Callable[[int], Any] | None = None  # called with the number of images that were encoded
        self._states = _Cache()
        self._examples = _Cache()
        self._pack: bool | None = None
        # An ensemble says that it takes tensors of its device; any other model gets arrays.
        self._observe = _images_on(getattr(getattr(encode, "__self__", None), "takes_tensors_on", None), dataset)

    @property
    def space(self) -> FactorSpace:
        if self.dataset.factors is None:
            raise UntwineError(
                f"{self.dataset!r} has no factors, so a model's codes cannot be compared with them; metrics that need "
                f"none ({', '.join(name for name in metrics if 'factors' not in metrics[name].takes)}) work"
            )
        return self.dataset.factors

    @functools.cached_property
    def labels(self) -> Int64[np.ndarray, "n k"]:
        """The factors of all training examples."""
        return self.dataset.factors_of(np.arange(len(self.dataset)))

    @functools.cached_property
    def originals(self) -> Bool[np.ndarray, " n"]:
        """Which training examples equal no earlier one, factors included: a picture that is there twice counts once."""
        _, state, counts = np.unique(self.labels, axis=0, return_inverse=True, return_counts=True)
        state = state.reshape(-1)
        original, seen = np.ones(len(state), bool), set[tuple[int, bytes]]()
        for part in self._portions(np.flatnonzero(counts[state] > 1)):  # no others can be equal
            for number, image in zip(part.tolist(), self.dataset.batch(part), strict=True):
                content = int(state[number]), hashlib.blake2b(image.tobytes(), digest_size=16).digest()
                original[number] = content not in seen
                seen.add(content)
        return original

    def __call__(self, factors: Int64[np.ndarray, "*samples k"]) -> Float32[np.ndarray, "*more d"]:
        space = self.space
        flat = factors.reshape(-1, len(space))
        if space.states > np.iinfo(np.int64).max:
            codes = self._encoded(flat, self._observe)
        else:
            index, back = _distinct(space.index(flat), space.states)

            def observe(numbers: np.ndarray) -> Any:
                return self._observe(space.factors(numbers))

            codes = self._cached(index, self._states, space.states, observe)[back]
        return self._members(codes, factors.shape[:-1])

    def of_examples(self, numbers: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "*members n d"]:
        """The codes of training examples, whose numbers differ."""
        codes = self._cached(numbers, self._examples, len(self.dataset), self.dataset.batch)
        return self._members(codes, numbers.shape)

    def _members(self, codes: Float32[np.ndarray, "n members d"], samples: tuple[int, ...]) -> np.ndarray:
        by_member = np.moveaxis(codes, 1, 0).reshape(codes.shape[1], *samples, codes.shape[2])
        return by_member if self._pack else by_member[0]

    def _cached(
        self, numbers: Int64[np.ndarray, " n"], cache: _Cache, count: int, images: Images
    ) -> Float32[np.ndarray, "n members d"]:
        """The codes of states or examples, of which there are `count`; the numbers differ."""
        if cache.table is None:
            codes = self._encoded(numbers, images)
            if count * codes[0].nbytes <= _TABLE:
                cache.table, cache.known = np.empty((count, *codes.shape[1:]), np.float32), np.zeros(count, bool)
                cache.table[numbers], cache.known[numbers] = codes, True
            return codes
        new = numbers[~cache.known[numbers]]
        if len(new):
            cache.table[new], cache.known[new] = self._encoded(new, images), True
        return cache.table[numbers]

    def _portions(self, things: Int64[np.ndarray, "n ..."]) -> list[Int64[np.ndarray, "some ..."]]:
        """States or examples in portions whose images fit into memory."""
        bytes_each = math.prod(self.dataset.shape) * self.dataset.dtype.itemsize
        return np.array_split(things, max(1, -(-len(things) * bytes_each // _IMAGES)))

    def _encoded(self, things: Int64[np.ndarray, "n ..."], images: Images) -> Float32[np.ndarray, "n members d"]:
        parts = []
        for part in self._portions(things):
            encoded = self.encode(images(part))
            if isinstance(encoded, tuple):
                raise UntwineError("encode gave a tuple: it must give the codes alone, such as the posterior means")
            codes = as_array(encoded).astype(np.float32)
            changed = bool(parts) and codes.size != parts[0][0].size * len(part)
            if codes.ndim not in (2, 3) or codes.shape[-2] != len(part) or changed:
                raise UntwineError(
                    f"encode gave codes of shape {list(codes.shape)} for {len(part)} examples; they must be "
                    f"[{len(part)}, d], or [members, {len(part)}, d]"
                )
            self._pack = codes.ndim == 3
            parts.append(np.moveaxis(codes if self._pack else codes[None], 0, 1))
            if self.on_images is not None:
                self.on_images(len(part))
        return np.concatenate(parts)


def _distinct(numbers: Int64[np.ndarray, " n"], count: int) -> tuple[Int64[np.ndarray, " m"], Int64[np.ndarray, " n"]]:
    """The different numbers below `count` in order, and the place of each number among them.

    >>> [part.tolist() for part in _distinct(np.array([7, 3, 7]), 10)]
    [[3, 7], [1, 0, 1]]
    """
    if count > 8 * len(numbers):
        return np.unique(numbers, return_inverse=True)
    occurs = np.zeros(count, bool)  # a table is faster than sorting where it has few gaps
    occurs[numbers] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[numbers]


def _images_on(device: Any, dataset: Dataset) -> Images:
    """How images of states are made: on the device of the model where the dataset can draw there, else by `observe`."""
    draw = getattr(dataset, "draw", None)
    if draw is None or getattr(device, "type", None) != "cuda":
        return dataset.observe
    import torch

    return lambda factors: draw(torch.from_numpy(factors).to(device))


class _Cache:
    """Codes `[things, members, d]`, and which of them are known."""

    table: np.ndarray | None = None
    known: np.ndarray = np.zeros(0, bool)
