"""Sampling designs: what is held, how it is chosen, and that all of it is a pure function of the seed and the step."""

import numpy as np
import pytest
from scipy.stats import chisquare

from untwine.data.factors import FactorSpace
from untwine.data.windows import around
from untwine.errors import UntwineError
from untwine.metrics.designs import Groups, Independent, Pairs, among, chosen

GRID = FactorSpace(("x", "shape", "y", "one"), (16, 5, 9, 1), ("ordered", "categorical", "cyclic", "ordered"))
MOVABLE = [0, 1, 2]
DESIGNS = [Independent(), Groups(size=32), Pairs(size=32)]


def constant(states: np.ndarray) -> np.ndarray:
    """For each group of either design, in which factors its states agree, found state by state."""
    if states.ndim == 3:
        found = [[len(set(group[:, k].tolist())) == 1 for k in range(group.shape[1])] for group in states]
    else:
        found = [[all(pair[0, k] == pair[1, k] for pair in group) for k in range(group.shape[2])] for group in states]
    return np.array(found)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: type(design).__name__)
def test_states_are_a_pure_function_of_seed_and_step(design):
    again = type(design)(**design.__dict__)
    drawn = design.draw(GRID, 6400, 3, 5)
    assert design.count(GRID, 6400) == np.prod(drawn.shape[:-1])
    assert (drawn == again.draw(GRID, 6400, 3, 5)).all()
    assert (drawn != design.draw(GRID, 6400, 4, 5)).any() and (drawn != design.draw(GRID, 6400, 3, 6)).any()
    assert drawn.dtype == np.int64 and drawn.min() == 0 and (drawn < GRID.sizes).all()


@pytest.mark.parametrize("points", [2, 300, 719, 720, 721, 10_000])
def test_no_state_is_drawn_twice_and_no_more_than_there_are(points):
    drawn = Independent().draw(GRID, points, 3, 5)
    assert len({tuple(state) for state in drawn.tolist()}) == len(drawn) == min(points, 720)
    assert Independent().count(GRID, points) == len(drawn)


@pytest.mark.parametrize("design", [Groups(size=32, plain=True), Pairs(size=32, plain=True)], ids=["Groups", "Pairs"])
def test_groups_of_a_small_grid_are_formed_by_the_metric(design):
    small, large = design.suited(GRID, 720), design.suited(GRID, 719)
    assert (small.draw(GRID, 720, 0) == Independent().draw(GRID, 720, 0)).all()
    assert large is design and large.draw(GRID, 719, 0).shape[1] == 32
    assert large.count(GRID, 719) == np.prod(large.draw(GRID, 719, 0).shape[:-1])
    # as many as would have been drawn
    assert design.options(720) == {"groups": len(design.draw(GRID, 720, 0))}
    plain = type(design)(size=32)  # of a metric that takes groups alone
    assert plain.suited(GRID, 720) is plain


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: type(design).__name__)
def test_a_small_sample_begins_a_large_one(design):
    small, large = design.draw(GRID, 640, 1), design.draw(GRID, 6400, 1)
    assert len(small) < len(large) and (small == large[: len(small)]).all()


def test_shapes_and_how_many_states_a_design_has():
    assert Independent().draw(GRID, 101, 0).shape == (101, 4)
    assert Groups(size=10).draw(GRID, 101, 0).shape == (10, 10, 4)
    assert Pairs(size=10).draw(GRID, 101, 0).shape == (5, 10, 2, 4)
    # the literature's 10,000 training and 5,000 evaluation groups of 64
    assert Groups().points == 960_000 and Pairs().points == 1_920_000 and Groups().size == Pairs().size == 64


@pytest.mark.parametrize("design", [Groups(size=32), Pairs(size=32)], ids=["Groups", "Pairs"])
def test_exactly_one_factor_is_held_and_never_one_of_a_single_value(design):
    same = constant(design.draw(GRID, 32 * 400, 2))
    assert same[:, 3].all()  # it has no other value
    assert (same[:, MOVABLE].sum(1) == 1).all()
    held = same[:, MOVABLE].argmax(1)
    assert (held == chosen(GRID, len(held), 2, 0)).all()


@pytest.mark.parametrize("grid", [GRID, FactorSpace(("x", "y"), (2, 2), ("ordered",) * 2)], ids=["four", "two"])
def test_the_held_factor_is_uniform_among_those_that_can_move(grid):
    movable = np.flatnonzero(np.array(grid.sizes) > 1)
    counts = np.bincount(chosen(grid, 6000, 0, 0), minlength=len(grid))
    assert counts.sum() == counts[movable].sum() == 6000
    assert chisquare(counts[movable]).pvalue > 1e-3


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: type(design).__name__)
def test_every_factor_has_uniform_values_whether_held_or_not(design):
    states = design.draw(GRID, 32 * 4000, 0)
    if states.ndim == 2:
        parts = {"all": states}
    else:
        held = chosen(GRID, len(states), 0, 0)
        # one state of each group, as those that share a value are not independent
        first = states[:, 0] if states.ndim == 3 else states[:, 0, 1]
        parts = {f"{k} held": first[held == k] for k in MOVABLE}
    for name, part in parts.items():
        for k, size in enumerate(GRID.sizes):
            if size > 1:
                assert chisquare(np.bincount(part[:, k], minlength=size)).pvalue > 1e-4, (name, k)


def test_the_values_of_pairs_differ_within_a_group():
    states = Pairs(size=32).draw(GRID, 64 * 200, 0)
    held = chosen(GRID, len(states), 0, 0)
    several = [len(set(group[:, 0, k].tolist())) > 1 for group, k in zip(states, held, strict=True)]
    assert all(several)


def test_pooled_groups_have_the_distribution_of_the_data():
    """What factor_vae_score relies on where it takes the variance over all data from the groups."""
    states = Groups(size=16).draw(GRID, 16 * 4000, 0).reshape(-1, 4)
    uniform = [(size**2 - 1) / 12 for size in GRID.sizes]
    assert states.var(0) == pytest.approx(uniform, rel=0.05)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: type(design).__name__)
def test_a_window_is_sampled_like_a_grid(design):
    window = around(GRID, 0.2, seed=1, step=2)
    states = window.place(design.draw(window.grid, 6400, 0))
    low, widths = np.array(window.low), np.array(window.grid.sizes)
    assert ((states >= low) & (states < low + widths)).all()
    assert widths.tolist() != list(GRID.sizes) and widths[1] == 1  # categorical factors are frozen
    for k in range(4):
        assert len(np.unique(states[..., k])) == widths[k]
    if states.ndim > 2:
        moving = [k for k in range(4) if widths[k] > 1]
        assert (constant(states)[:, moving].sum(1) == 1).all()


def test_a_window_around_the_end_of_a_cyclic_factor():
    window = around(GRID, 0.3, centre=[8, 0, 0, 0], wrap=True)
    states = window.place(Groups(size=16).draw(window.grid, 1600, 0))
    assert sorted(np.unique(states[..., 2]).tolist()) == [0, 1, 2, 7, 8]


def test_errors():
    with pytest.raises(UntwineError, match="31 points are too few: a group alone has 32"):
        Groups(size=32).draw(GRID, 31, 0)
    with pytest.raises(UntwineError, match="63 points are too few: a group alone has 64"):
        Pairs(size=32).draw(GRID, 63, 0)
    with pytest.raises(UntwineError, match="the size of a group is 0; it must be a whole number, 1 or more"):
        Groups(size=0).draw(GRID, 10, 0)
    single = FactorSpace(("x",), (1,), ("ordered",))
    with pytest.raises(UntwineError, match="every factor has a single value"):
        Groups(size=2).draw(single, 10, 0)


# --- examples ---------------------------------------------------------------------------------------


def test_examples_are_drawn_without_repetition():
    small, large = among(50, 10, seed=1, step=2), among(50, 30, seed=1, step=2)
    assert (large[:10] == small).all() and len(set(large.tolist())) == 30
    assert (small == among(50, 10, 1, 2)).all()
    assert (small != among(50, 10, 1, 3)).any() and (small != among(50, 10, 2, 2)).any()
    assert (small != among(50, 10, 1, 2, purpose="centres")).any()
    assert sorted(among(50, 1000, seed=0).tolist()) == list(range(50))


def test_every_example_is_as_likely():
    drawn = np.concatenate([among(12, 4, seed) for seed in range(1500)])
    assert chisquare(np.bincount(drawn, minlength=12)).pvalue > 1e-3


def test_designs_say_whether_they_intervene():
    assert Groups().intervenes and Pairs().intervenes and not Independent().intervenes
    assert Independent(intervenes=True) == Independent()  # one sample serves both
