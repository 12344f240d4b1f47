"""The windows of local scores, and samples of windows: of states, or of training examples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from untwine import checks
from untwine.data.factors import FactorSpace
from untwine.data.windows import Window, around
from untwine.errors import UntwineError
from untwine.metrics.designs import Design, among
from untwine.metrics.encoder import Encoder
from untwine.metrics.examples import centres, inside, windows_among

_FEW = 10_000  # states that can be put in order


@dataclass(frozen=True)
class Windows:
    """The windows that a local score is averaged over.

    `freeze_below`, `wrap` and `vary_categorical` are those of `data.windows.around`.
    """

    radius: float = 0.1
    count: int = 20
    freeze_below: int | None = None
    wrap: bool = True
    vary_categorical: bool = False

    @property
    def rules(self) -> dict[str, Any]:
        return {"freeze_below": self.freeze_below, "wrap": self.wrap, "vary_categorical": self.vary_categorical}

    def choose(self, encoder: Encoder, seed: int) -> list[Window]:
        """The windows of a seed: around random states, or those of random examples.

        Where there are few states, centres are all different, and the same as among examples of all of them.
        """
        checks.whole("samples (windows)", self.count, 1)
        space = encoder.space
        if self.freeze_below is None and not self.vary_categorical and not has_windows(space):
            raise UntwineError(
                f"there are no windows: every factor ({', '.join(space.names)}) is categorical, and so keeps its value "
                "in a window, or has a single one; uw.metrics.local(metric, vary_categorical=True) lets them vary"
            )
        if not encoder.dataset.complete:
            return windows_among(space, encoder.labels, self.radius, self.count, seed, **self.rules)
        if space.states > _FEW:
            return [around(space, self.radius, seed, step, **self.rules) for step in range(self.count)]
        states = centres(space.factors(np.arange(space.states)), self.count, seed)
        return [around(space, self.radius, centre=state, **self.rules) for state in states]


def has_windows(space: FactorSpace) -> bool:
    """Whether a factor can vary in a window: by default categorical factors are constant in all of them."""
    return any(size > 1 and kind != "categorical" for size, kind in zip(space.sizes, space.kinds, strict=True))


@dataclass(frozen=True)
class Sample:
    """States of a window, or examples in it, and their codes."""

    window: Window
    codes: np.ndarray
    factors: np.ndarray

    def __len__(self) -> int:
        return math.prod(self.factors.shape[:-1])

    @property
    def unwrapped(self) -> np.ndarray:
        """The factors, for metrics that know no circles: beyond the end of one, values go on counting."""
        low = np.array(self.window.low)
        return low + (self.factors - low) % self.window.space.sizes


def draw_samples(
    windows: Iterable[Window], design: Design, points: int, encoder: Encoder, seed: int
) -> Iterator[Sample]:
    """A sample of each window, encoded.

    Args:
        windows: The windows, in their order: the place of a window is part of its sample's seed.
        design: Which states to draw where there is an image of every state.
        points: The most states or examples in a sample; each is in it at most once, unless the design draws groups.
        encoder: The codes of states and of examples.
        seed: Seed of the samples.
    """
    for step, window in enumerate(windows):
        if encoder.dataset.complete:
            drawn = design.suited(window.grid, points).draw(window.grid, points, seed, step)
            factors = window.place(drawn)
            yield Sample(window, encoder(factors), factors)
        else:
            held = _held(window, encoder)
            numbers = held[among(len(held), points, seed, step)]
            yield Sample(window, encoder.of_examples(numbers), encoder.labels[numbers])


def count_samples(windows: Iterable[Window], design: Design, points: int, encoder: Encoder) -> int:
    """How many states or examples the samples of all windows have together; see `draw_samples` for the arguments."""
    if encoder.dataset.complete:
        return sum(design.suited(window.grid, points).count(window.grid, points) for window in windows)
    return sum(min(points, len(_held(window, encoder))) for window in windows)


def _held(window: Window, encoder: Encoder) -> Int64[np.ndarray, " some"]:
    """The numbers of the examples in a window, without copies."""
    held = inside(window, encoder.labels)
    return held[encoder.originals[held]]
