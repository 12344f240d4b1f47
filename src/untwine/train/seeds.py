"""Seeds, from lists, ranges and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from untwine.errors import UntwineError

Integer: TypeAlias = int | np.integer
Seeds: TypeAlias = str | Sequence[Integer] | np.ndarray

_MOST = 10_000  # seeds in a range that is written as text


def parse_seeds(seeds: Any) -> tuple[int, ...]:
    """The seeds of a list, a range, or a text such as `"0-3,7"`.

    >>> parse_seeds("0-3,7")
    (0, 1, 2, 3, 7)
    """
    if isinstance(seeds, str):
        seeds = _from_text(seeds)
    if hasattr(seeds, "tolist"):
        seeds = seeds.tolist()
    if not isinstance(seeds, Sequence) or not seeds:
        raise UntwineError(f"seeds are a list such as [0, 1, 2] or '0-9', not {seeds!r}")
    seeds = [seed.tolist() if hasattr(seed, "tolist") else seed for seed in seeds]
    for seed in seeds:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**62:
            raise UntwineError(f"a seed is a whole number from 0, not {seed!r}")
    return tuple(seeds)


def _from_text(text: str) -> list[int]:
    seeds: list[int] = []
    try:
        for piece in text.replace(" ", "").split(","):
            first, dash, last = piece.partition("-")
            numbers = range(int(first), int(last) + 1) if dash else [int(first)]
            if not 0 < len(numbers) <= _MOST:
                raise UntwineError(f"{piece} is not a range of 1 to {_MOST:,} seeds")
            seeds += numbers
    except ValueError:
        raise UntwineError(f"seeds are written as 0-9 or 0,1,5, not {text!r}") from None
    return seeds


def seeds_in_words(seeds: Sequence[int]) -> str:
    """Seeds as `parse_seeds` reads them: three or more in a row as a range.

    >>> seeds_in_words([0, 1, 2, 3, 7, 8]), seeds_in_words([0, 0])
    ('0-3,7,8', '0,0')
    """
    pieces: list[list[int]] = []
    for seed in seeds:
        if pieces and seed == pieces[-1][-1] + 1:
            pieces[-1].append(seed)
        else:
            pieces.append([seed])
    texts = [[f"{piece[0]}-{piece[-1]}"] if len(piece) > 2 else map(str, piece) for piece in pieces]
    return ",".join(text for several in texts for text in several)
