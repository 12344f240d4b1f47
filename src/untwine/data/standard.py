"""The constants that standardise a dataset's images, channel by channel (michlo2023, B.4 and Table A2)."""

from __future__ import annotations

import weakref
from typing import TypeAlias

from untwine.data.contract import Dataset
from untwine.data.principal import chosen
from untwine.errors import UntwineError

# Mean and standard deviation of each channel.
Standard: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]

MOST = 20_000  # examples
_known: weakref.WeakKeyDictionary[Dataset, Standard] = weakref.WeakKeyDictionary()


def standard(dataset: Dataset) -> Standard:
    """`dataset.standardisation` over all examples, or 20,000 of them that are always the same; found once.

    >>> import untwine.datasets
    >>> [round(value, 5) for value in standard(untwine.datasets.xy_squares(spacing=2, size=16, square=2))[0]]
    [0.01562, 0.01562, 0.01562]
    """
    if dataset not in _known:
        mean, std = dataset.standardisation(chosen(dataset, MOST))
        if not (std > 0).all():
            raise UntwineError("these images cannot be standardised: a channel is constant in every one of them")
        _known[dataset] = tuple(mean.tolist()), tuple(std.tolist())
    return _known[dataset]
