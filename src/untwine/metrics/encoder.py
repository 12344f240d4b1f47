"""From states to codes: observe, encode, and encode no state twice where it can be remembered."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from untwine.checks import as_array
from untwine.data.dataset import Dataset
from untwine.data.factors import FactorSpace
from untwine.errors import UntwineError

# Images `[n, *shape]` to codes `[n, d]`, or `[members, n, d]` of several models: arrays or tensors.
Encode = Callable[[np.ndarray], Any]

_IMAGES = 2**25  # bytes of images that are observed at once
_TABLE = 2**29  # bytes of codes that are kept


class Encoder:
    """The codes of a dataset's states, `[*samples, d]` or `[members, *samples, d]`.

    States that occur twice are encoded once. Where all states of the dataset fit into memory, their codes are
    kept: windows, radii and metrics that share states share the work.

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
    """

    def __init__(self, encode: Encode, dataset: Dataset, on_images: Callable[[int], Any] | None = None):
        self.encode, self.dataset, self.on_images = encode, dataset, on_images
        self._table: np.ndarray | None = None  # [states, members, d]
        self._known: np.ndarray | None = None
        self._pack: bool | None = None

    @property
    def space(self) -> FactorSpace:
        if self.dataset.factors is None:
            raise UntwineError(
                f"{self.dataset!r} has no factors, so a model's codes cannot be compared with them; "
                "metrics that need none (hoyer, dto, delta_kl, udr, decomposition) work"
            )
        return self.dataset.factors

    def __call__(self, factors: Int64[np.ndarray, "*samples k"]) -> Float32[np.ndarray, "*more d"]:
        space = self.space
        flat = factors.reshape(-1, len(space))
        if space.states > np.iinfo(np.int64).max:
            codes = self._encoded(flat)
        else:
            index, back = np.unique(space.index(flat), return_inverse=True)
            codes = self._remembered(index, space)[back]
        whole = np.moveaxis(codes, 1, 0).reshape(codes.shape[1], *factors.shape[:-1], codes.shape[2])
        return whole if self._pack else whole[0]

    def _remembered(self, index: Int64[np.ndarray, " n"], space: FactorSpace) -> Float32[np.ndarray, "n members d"]:
        if self._table is None:
            codes = self._encoded(space.factors(index))
            if space.states * codes[0].nbytes <= _TABLE:
                self._table = np.empty((space.states, *codes.shape[1:]), np.float32)
                self._known = np.zeros(space.states, bool)
                self._table[index], self._known[index] = codes, True
            return codes
        assert self._known is not None
        new = index[~self._known[index]]
        if len(new):
            self._table[new], self._known[new] = self._encoded(space.factors(new)), True
        return self._table[index]

    def _encoded(self, factors: Int64[np.ndarray, "n k"]) -> Float32[np.ndarray, "n members d"]:
        bytes_each = math.prod(self.dataset.shape) * self.dataset.dtype.itemsize
        parts = []
        for part in np.array_split(factors, -(-len(factors) * bytes_each // _IMAGES)):
            made = self.encode(self.dataset.observe(part))
            if isinstance(made, tuple):
                raise UntwineError("encode gave a tuple: it must give the codes alone, such as the posterior means")
            codes = as_array(made).astype(np.float32)
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
