"""The grid of factors: its numbering, and the exactness of its sampling."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from untwine.data import FactorSpace
from untwine.data.windows import around
from untwine.errors import UntwineError

MIXED = FactorSpace(("shape", "angle", "x"), (3, 12, 5), ("categorical", "cyclic", "ordered"))
DOTS = FactorSpace(tuple("abcdef"), (64,) * 6, ("ordered",) * 6)


def window(space: FactorSpace, n: int, radius: float, seed: int, step: int = 0, **rules) -> np.ndarray:
    return around(space, radius, seed, step, **rules).sample(n, seed, step)


def chi_square(counts: np.ndarray) -> float:
    """How many standard deviations Pearson's statistic lies above what uniform counts would give."""
    expected = counts.sum() / counts.size
    freedom = counts.size - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom)


# --- the grid ---------------------------------------------------------------------------------------


def test_index_and_factors_are_a_bijection_in_row_major_order():
    everything = MIXED.factors(np.arange(MIXED.states))
    assert np.array_equal(MIXED.index(everything), np.arange(MIXED.states))
    assert np.array_equal(everything, np.argwhere(np.ones(MIXED.sizes)))


def test_index_of_a_large_space():
    states = DOTS.sample(1000, seed=3)
    assert np.array_equal(DOTS.factors(DOTS.index(states)), states)
    assert DOTS.index([[63] * 6]).tolist() == [64**6 - 1]
    assert DOTS.states == 64**6 and len(DOTS) == 6


def test_more_states_than_64_bits_can_number():
    huge = FactorSpace(tuple(map(str, range(11))), (64,) * 11, ("ordered",) * 11)
    assert huge.states == 64**11 and huge.sample(2, seed=0).shape == (2, 11)
    with pytest.raises(UntwineError, match="too many to number"):
        huge.index(huge.sample(2, seed=0))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 0, 5]], r"'x' is 5 in row 0; its values are 0 to 4"),
        ([[0, 0, 0], [0, -1, 0]], r"'angle' is -1 in row 1"),
        ([[0, 0]], r"must be \[n, 3\]"),
        ([0, 0, 0], r"must be \[n, 3\]"),
        ([[0.0, 0.0, 0.5]], "float64; they must be whole numbers"),
    ],
)
def test_factors_off_the_grid_are_refused(rows, message):
    with pytest.raises(UntwineError, match=message):
        MIXED.index(rows)


@pytest.mark.parametrize("index", [[-1], [180], [0, 10**12]])
def test_states_off_the_grid_are_refused(index):
    with pytest.raises(UntwineError, match=r"there is no state .*0 to 179"):
        MIXED.factors(index)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((("x", "y"), (4,), ("ordered", "ordered")), "2 names, 1 sizes, 2 kinds"),
        ((("x",), (0,), ("ordered",)), "'x' has size 0"),
        ((("x",), (True,), ("ordered",)), "'x' has size True"),
        ((("x",), (4,), ("orderd",)), "did you mean 'ordered'"),
        ((("x", "x"), (4, 4), ("ordered", "ordered")), "strings that differ"),
        (((), (), ()), "at least one factor"),
    ],
)
def test_spaces_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(UntwineError, match=message):
        FactorSpace(*arguments)


def test_names_are_looked_up_with_a_suggestion():
    assert MIXED.position("angle") == MIXED.position(1) == 1
    with pytest.raises(UntwineError, match="did you mean 'angle'"):
        MIXED.position("angel")
    with pytest.raises(UntwineError, match="no factor 3"):
        MIXED.position(3)


def test_json_round_trip():
    again = FactorSpace.from_json(json.loads(json.dumps(MIXED.to_json())))
    assert again == MIXED and hash(again) == hash(MIXED)
    wrong = ({"more": 1}, {"names": "abc"}, {"values": "abc"}, {"values": ["abc", "ab", "c"]}, {"values": [[1], [2]]})
    for broken in ({}, *({**MIXED.to_json(), **part} for part in wrong)):
        with pytest.raises(UntwineError):
            FactorSpace.from_json(broken)


def test_values_have_names():
    values = (("star", "disc", "box"), tuple(range(0, 360, 30)), tuple(np.linspace(0, 1, 5)))
    named = FactorSpace(MIXED.names, MIXED.sizes, MIXED.kinds, values)
    assert named.values == (("star", "disc", "box"), tuple(range(0, 360, 30)), (0.0, 0.25, 0.5, 0.75, 1.0))
    assert named.named("shape", [2, 0]) == ["box", "star"] and named.named(1, np.array([11])) == [330]
    assert named.describe([1, 2, 3]) == "shape='disc', angle=60, x=0.75"
    assert MIXED.named("shape", np.array([2, 0])) == [2, 0] and MIXED.describe([1, 2, 3]) == "shape=1, angle=2, x=3"
    again = FactorSpace.from_json(json.loads(json.dumps(named.to_json())))
    assert again == named and hash(again) == hash(named) and again.to_json() == named.to_json()
    assert named != MIXED and "values" not in MIXED.to_json()  # as it was written before values had names
    assert np.array_equal(named.sample(20, seed=0), MIXED.sample(20, seed=0))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((("a", "b"),), "a factor space of 2 factors has values of 1"),
        ((("a", "b"), (1, 2)), "factor 'y' needs 3 values that differ"),
        ((("a", "a"), (1, 2, 3)), "factor 'x' needs 2 values that differ"),
        ((("a", None), (1, 2, 3)), "values of a factor are texts or numbers; 'x' has"),
        ((("a", "b"), (1, 2, math.nan)), "values of a factor are texts or numbers; 'y' has"),
    ],
)
def test_values_that_name_nothing_are_refused(values, message):
    with pytest.raises(UntwineError, match=message):
        FactorSpace(("x", "y"), (2, 3), ("ordered", "ordered"), values)


# --- sampling ---------------------------------------------------------------------------------------


def test_sample_is_uniform_over_states():
    counts = np.bincount(MIXED.index(MIXED.sample(90_000, seed=1)), minlength=MIXED.states)
    assert chi_square(counts) < 5
    assert chi_square(counts[:-1] + np.arange(179)) > 5  # the bound can be missed


def test_sampling_is_a_pure_function_of_seed_and_step():
    for draw in (
        lambda n, seed, step: MIXED.sample(n, seed, step),
        lambda n, seed, step: window(MIXED, n, 0.4, seed, step),
        lambda n, seed, step: MIXED.fixed(n, "x", seed, step),
    ):
        rows = draw(200, 1, 0)
        assert rows.dtype == np.int64 and rows.shape == (200, 3)
        assert np.array_equal(rows, draw(200, 1, 0))
        assert np.array_equal(rows[:50], draw(50, 1, 0))
        assert not np.array_equal(rows, draw(200, 2, 0))
        assert not np.array_equal(rows, draw(200, 1, 1))
        assert draw(0, 1, 0).shape == (0, 3)
    with pytest.raises(UntwineError, match="-1 samples"):
        MIXED.sample(-1, seed=0)


def test_centroids_are_uniform():
    space = FactorSpace(("x", "y"), (4, 3), ("ordered", "categorical"))
    centres = np.stack([space.centroid(seed=0, step=step) for step in range(1200)])
    assert chi_square(np.bincount(space.index(centres), minlength=12)) < 5


def test_window_is_exactly_the_inclusive_window():
    centre = [1, 6, 3]
    rows = window(MIXED, 4000, radius=0.25, seed=0, centre=centre)
    # floor(.25 * 12) = 3 and floor(.25 * 5) = 1; the shape is categorical
    assert [sorted(set(column)) for column in rows.T.tolist()] == [[1], list(range(3, 10)), [2, 3, 4]]
    assert chi_square(np.bincount(rows[:, 1] - 3, minlength=7)) < 5


@pytest.mark.parametrize("step", range(20))
def test_window_is_cut_at_the_bounds_around_its_centroid(step):
    centre = DOTS.centroid(seed=5, step=step)
    rows = window(DOTS, 3000, radius=0.1, seed=5, step=step)
    assert np.array_equal(rows.min(axis=0), np.maximum(centre - 6, 0))
    assert np.array_equal(rows.max(axis=0), np.minimum(centre + 6, 63))


@pytest.mark.parametrize(
    ("radius", "size", "half"),
    [(0.3, 10, 3), (0.29, 100, 29), (0.1, 64, 6), (1 / 3, 3, 1), (0.7, 10, 7), (0.57, 100, 57)],
)
def test_window_width_does_not_suffer_from_floating_point(radius, size, half):
    space = FactorSpace(("x",), (3 * size,), ("ordered",))
    rows = window(space, 20_000, radius / 3, seed=0, centre=[size + size // 2])[:, 0] - size - size // 2
    assert (rows.min(), rows.max()) == (max(-half, -size - size // 2), half)


def test_window_of_radius_one_is_everything():
    rows = window(MIXED, 2000, radius=1.0, seed=0, centre=[2, 0, 4])
    assert [len(set(column)) for column in rows.T.tolist()] == [1, 12, 5]


def test_wrapping_windows_of_cyclic_factors():
    cut = window(MIXED, 2000, radius=0.25, seed=0, centre=[0, 1, 0])
    wrapped = window(MIXED, 2000, radius=0.25, seed=0, centre=[0, 1, 0], wrap=True)
    assert set(cut[:, 1].tolist()) == {0, 1, 2, 3, 4}
    assert set(wrapped[:, 1].tolist()) == {10, 11, 0, 1, 2, 3, 4}
    assert set(wrapped[:, 2].tolist()) == {0, 1}  # ordered: still cut
    whole = window(MIXED, 12_000, radius=0.8, seed=0, centre=[0, 1, 0], wrap=True)
    assert chi_square(np.bincount(whole[:, 1], minlength=12)) < 5


def test_the_rule_of_the_reference_freezes_by_size_alone():
    space = FactorSpace(("shape", "small", "x"), (12, 8, 64), ("categorical", "ordered", "ordered"))
    ours = window(space, 2000, radius=0.5, seed=0, centre=[6, 4, 32])
    theirs = window(space, 2000, radius=0.5, seed=0, centre=[6, 4, 32], freeze_below=10)
    assert [len(set(column)) for column in ours.T.tolist()] == [1, 8, 64]
    assert [len(set(column)) for column in theirs.T.tolist()] == [12, 1, 64]


def test_a_constant_window_is_refused_with_the_radius_needed():
    with pytest.raises(UntwineError, match=r"radius 0.01; it must be at least 1/64 \(0.0157\)"):
        window(DOTS, 10, radius=0.01, seed=0)
    assert len(set(window(DOTS, 100, radius=0.0157, seed=0)[:, 0].tolist())) > 1
    with pytest.raises(UntwineError, match=r"at least 1/12"):
        window(MIXED, 10, radius=0.05, seed=0)
    with pytest.raises(UntwineError, match="all are frozen"):
        window(FactorSpace(("shape",), (3,), ("categorical",)), 10, radius=1.0, seed=0)
    for radius in (-0.1, math.nan, math.inf):
        with pytest.raises(UntwineError, match="must be 0 or more"):
            window(DOTS, 10, radius=radius, seed=0)
    with pytest.raises(UntwineError, match="'angle' is 12"):
        window(MIXED, 10, radius=0.5, seed=0, centre=[0, 12, 0])


def test_fixed_holds_one_factor_and_varies_the_others():
    values = set()
    for step in range(100):
        rows = MIXED.fixed(300, "x", seed=2, step=step)
        assert len(set(rows[:, 2].tolist())) == 1
        assert len(set(rows[:, 0].tolist())) == 3 and len(set(rows[:, 1].tolist())) == 12
        values.add(int(rows[0, 2]))
    assert values == {0, 1, 2, 3, 4}
    assert np.array_equal(MIXED.fixed(9, 2, seed=2), MIXED.fixed(9, "x", seed=2))
    # Neither the other factors' designs nor plain samples of the same seed repeat these rows.
    for other in (MIXED.fixed(50, 1, seed=0), MIXED.sample(50, seed=0)):
        assert not np.array_equal(MIXED.fixed(50, 2, seed=0)[:, 0], other[:, 0])
    rows = MIXED.fixed(36_000, 2, seed=0)
    assert chi_square(np.bincount(rows[:, 0] * 12 + rows[:, 1], minlength=36)) < 5
