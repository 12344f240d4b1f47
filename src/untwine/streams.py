"""Random numbers as a pure function of (seed, purpose, step, index).

Every random number in Untwine is an output of Philox4x32-10 (Salmon et al. 2011, "Parallel random
numbers: as easy as 1, 2, 3"): key = seed, counter = (index, purpose, step). No generator with state
exists, so a member's numbers cannot depend on its pack, on what ran before, or on where a run was
interrupted. The same code serves NumPy arrays and torch tensors: only integer `* >> & ^ +` on int64
are used, whose wrap-around is the same in both.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine.room import refuse_larger

if TYPE_CHECKING:
    from torch import Tensor

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_CACHED = 2**14  # blocks of words that stay in the processor's cache, which triples the speed


def hashed(name: str) -> int:
    """A 32-bit hash of a name, the same in every process and on every platform.

    >>> hashed("posterior") == hashed("posterior") != hashed("batch")
    True
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any]) -> tuple[Any, Any, Any, Any]:
    """Philox4x32-10 on int64 arrays or tensors that hold 32-bit words; broadcasts.

    >>> zero = np.zeros(1, dtype=np.int64)
    >>> [f"{int(word[0]):08x}" for word in philox((zero,) * 4, (zero, zero))]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (p1 >> 32 & _WORD) ^ c1 ^ k0, p1 & _WORD, (p0 >> 32 & _WORD) ^ c3 ^ k1, p0 & _WORD
        k0, k1 = k0 + _WEYL[0] & _WORD, k1 + _WEYL[1] & _WORD
    return c0, c1, c2, c3


def _words(seeds: Any, purpose: str, steps: Any, index: Any) -> tuple[Any, Any, Any, Any]:
    """Four random words for every (step, seed, index): tensors `[steps, seeds, indices]`."""
    seeds, steps, index = seeds[None, :, None], steps[:, None, None], index[None, None, :]
    counter = (index, steps * 0 + hashed(purpose), steps & _WORD, steps >> 32 & _WORD)
    return philox(counter, _key(seeds))


def _key(seeds: Any) -> tuple[Any, Any]:
    return seeds & _WORD, seeds >> 32 & _WORD


# --- torch: for many seeds and many steps at once -----------------------------------------------


def bits(seeds: Tensor, purpose: str, steps: Tensor, count: int) -> Tensor:
    """`count` random 32-bit words for every step and seed: int64 `[steps, seeds, count]`."""
    import torch

    blocks = torch.arange(-(-count // 4), device=seeds.device)
    words = torch.stack(torch.broadcast_tensors(*_words(seeds, purpose, steps, blocks)), -1)
    return words.flatten(2)[..., :count]


def _unit(seeds: Tensor, purpose: str, steps: Tensor, count: int) -> Tensor:
    """Uniforms strictly inside (0, 1), float64 (23 bits, symmetric about a half)."""
    return ((bits(seeds, purpose, steps, count) >> 9).double() + 0.5).mul_(2.0**-23)


def uniform(seeds: Tensor, purpose: str, steps: Tensor, count: int) -> Tensor:
    """Uniforms strictly inside (0, 1), float32 `[steps, seeds, count]`."""
    return _unit(seeds, purpose, steps, count).float()


def normal(seeds: Tensor, purpose: str, steps: Tensor, count: int) -> Tensor:
    """Standard normals by Box-Muller, float32 `[steps, seeds, count]`.

    Computed in float64 and rounded: the vectorised and the scalar code of a logarithm differ in the last
    bit, and which of them serves an element depends on how many steps are filled at once.
    """
    import torch

    u = _unit(seeds, purpose, steps, count + count % 2)
    radius, angle = (-2.0 * u[..., 0::2].log()).sqrt(), (2.0 * math.pi) * u[..., 1::2]
    return torch.stack((radius * angle.cos(), radius * angle.sin()), -1).flatten(2)[..., :count].float()


def integers(seeds: Tensor, purpose: str, steps: Tensor, count: int, below: int) -> Tensor:
    """Integers uniform in [0, below), int64 `[steps, seeds, count]` (bias under below / 2^32)."""
    return bits(seeds, purpose, steps, count) * below >> 32


def permutation(seeds: Tensor, purpose: str, step: int, count: int) -> Tensor:
    """A random permutation of `range(count)` for each seed, int64 `[seeds, count]`."""
    import torch

    words = bits(seeds, purpose, torch.tensor([step], device=seeds.device), 2 * count)[0]
    return torch.sort(words[:, 0::2] << 31 ^ words[:, 1::2], stable=True).indices


# --- NumPy: for datasets and metrics --------------------------------------------------------------


def np_bits(seed: int, purpose: str, count: int, step: int = 0) -> np.ndarray:
    """`count` random 32-bit words, int64 `[count]`; the same numbers as `bits`."""
    refuse_larger(8 * count, f"{count:,} random numbers", "take fewer examples or samples")
    words = np.empty((-(-count // 4), 4), np.int64)
    for start in range(0, len(words), _CACHED):
        blocks = np.arange(start, min(start + _CACHED, len(words)))
        for i, word in enumerate(_words(np.array([seed]), purpose, np.array([step]), blocks)):
            words[start : start + _CACHED, i] = word
    return words.reshape(-1)[:count]


def np_uniform(seed: int, purpose: str, shape: int | tuple[int, ...], step: int = 0) -> np.ndarray:
    """Uniforms strictly inside (0, 1), float64 of the given shape.

    >>> np_uniform(0, "doctest", (2, 3)).shape
    (2, 3)
    """
    shape = (shape,) if isinstance(shape, int) else shape
    return ((np_bits(seed, purpose, math.prod(shape), step) >> 9) + 0.5).reshape(shape) * 2.0**-23


def np_bits_of(seed: int, purpose: str, rows: np.ndarray) -> np.ndarray:
    """A random 32-bit word for each row `[n, k]` of whole numbers, int64 `[n]`: equal rows have equal words.

    It follows from what is in a row, not from its place: rows that are left out change no other's word.

    >>> rows = np.array([[1, 2], [2, 1], [1, 2]])
    >>> words = np_bits_of(0, "doctest", rows)
    >>> bool(words[0] == words[2] != words[1]), bool((np_bits_of(0, "doctest", rows[1:]) == words[1:]).all())
    (True, True)
    """
    zero = np.zeros(len(rows), np.int64)
    words: tuple[Any, ...] = (zero, zero + hashed(purpose), zero, zero)
    for column in rows.T:
        words = philox((words[0] ^ column & _WORD, words[1] ^ column >> 32 & _WORD, *words[2:]), _key(seed))
    return words[0]
