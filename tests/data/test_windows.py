"""Windows against their rule, value by value: which values of a factor are within a radius of the centre's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from untwine.data.circle import on_circle, shorter_way
from untwine.data.factors import KINDS, FactorSpace
from untwine.data.windows import Window, around
from untwine.errors import UntwineError


def values(window: Window, factor: int) -> list[int]:
    """The values of a factor in a window, in its order."""
    columns = np.zeros((window.grid.sizes[factor], len(window.space)), np.int64)
    columns[:, factor] = np.arange(len(columns))
    return window.place(columns)[:, factor].tolist()


def away(a: int, b: int, size: int, kind: str, wrap: bool) -> float:
    """Steps from one value to another, counted one at a time."""
    if kind == "categorical":
        return 0 if a == b else math.inf
    if kind == "ordered" or not wrap:
        return abs(a - b)
    forwards = next(steps for steps in range(size) if (a + steps) % size == b)
    backwards = next(steps for steps in range(size) if (a - steps) % size == b)
    return min(forwards, backwards)


@st.composite
def windows(draw: Any) -> Any:
    sizes = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    kinds = tuple(draw(st.sampled_from(KINDS)) for _ in sizes)
    radius = draw(st.sampled_from((0.1, 0.25, 0.34, 0.5, 1.0)))
    assume(any(radius * size >= 1 < size and kind != "categorical" for size, kind in zip(sizes, kinds, strict=True)))
    return sizes, kinds, [draw(st.integers(0, size - 1)) for size in sizes], radius


@given(windows(), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_window_has_the_values_within_its_radius_once_each(case, wrap, vary_categorical):
    sizes, kinds, centre, radius = case
    space = FactorSpace(tuple("abc"[: len(sizes)]), sizes, kinds)
    window = around(space, radius, centre=centre, wrap=wrap, vary_categorical=vary_categorical)
    for factor, (size, kind) in enumerate(zip(sizes, kinds, strict=True)):
        found = values(window, factor)
        if kind == "categorical" and vary_categorical:
            expected = list(range(size))
        else:
            reach = math.floor(radius * size + 1e-9)
            expected = [v for v in range(size) if away(centre[factor], v, size, kind, wrap) <= reach]
        assert sorted(found) == expected
        assert 0 <= window.low[factor] < size
        assert (np.diff(found) % size == 1).all()  # neighbours follow each other


@given(windows(), st.integers(0, 11))
@settings(max_examples=100, deadline=None)
def test_a_turn_of_a_circle_turns_its_windows(case, turn):
    sizes, _, centre, radius = case
    space = FactorSpace(tuple("abc"[: len(sizes)]), sizes, ("cyclic",) * len(sizes))
    turned = [(value + turn) % size for value, size in zip(centre, sizes, strict=True)]
    before, after = (around(space, radius, centre=c) for c in (centre, turned))
    for factor, size in enumerate(sizes):
        assert [(v + turn) % size for v in values(before, factor)] == values(after, factor)


def test_categorical_factors_vary_if_asked_to():
    space = FactorSpace(("shape", "x"), (5, 20), ("categorical", "ordered"))
    assert values(around(space, 0.1, centre=[3, 9]), 0) == [3]
    varied = around(space, 0.1, centre=[3, 9], vary_categorical=True)
    assert values(varied, 0) == [0, 1, 2, 3, 4] and values(varied, 1) == [7, 8, 9, 10, 11]
    digits = FactorSpace(("digit",), (10,), ("categorical",))
    assert values(around(digits, 0.1, vary_categorical=True), 0) == list(range(10))
    with pytest.raises(UntwineError, match="freeze_below says by size which factors vary"):
        around(space, 0.1, vary_categorical=True, freeze_below=10)


def test_the_windows_of_the_reference_are_still_there():
    """rhodes2021's code: factors of 10 values or more vary, whatever their kind, and windows end at the bounds."""
    space = FactorSpace(("angle", "turn", "label"), (40, 8, 12), ("cyclic", "cyclic", "categorical"))
    theirs = around(space, 0.1, centre=[1, 0, 11], freeze_below=10, wrap=False)
    assert [values(theirs, factor) for factor in range(3)] == [[0, 1, 2, 3, 4, 5], [0], [10, 11]]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9])
def test_the_shorter_way_round(size):
    for a in range(size):
        for b in range(size):
            expected = away(a, b, size, "cyclic", True)
            assert shorter_way(np.array([a - b]), size).tolist() == [expected]
            (x, y), (u, v) = on_circle(np.array([a]), size)[:, 0], on_circle(np.array([b]), size)[:, 0]
            chord = 2 * math.sin(math.pi * expected / size)
            assert math.hypot(x - u, y - v) == pytest.approx(chord, abs=1e-12)
