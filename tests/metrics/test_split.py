"""The split of a sample into what is trained on and what is tested on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from untwine.metrics.groups import form_groups, grouped, paired
from untwine.metrics.learners.split import split

GRID = np.indices((20, 30)).reshape(2, -1).T


def parts(factors: np.ndarray, seed: int = 0, test: float = 1 / 3) -> tuple[set[int], set[int]]:
    train, tested = split(np.zeros((len(factors), 1)), factors, test, seed)
    return set(train.tolist()), set(tested.tolist())


def test_every_row_is_in_one_part():
    train, tested = parts(GRID)
    assert len(train) == 400 and len(tested) == 200 and train | tested == set(range(600))
    assert parts(GRID, seed=1)[1] != tested


@pytest.mark.parametrize("row", [0, 7, 300, 599])
def test_a_row_that_is_left_out_moves_at_most_one_other(row):
    """So that scores are nearly the same: the parts are those of the other rows."""
    _, tested = parts(GRID)
    _, without = parts(np.delete(GRID, row, 0))
    moved = {number + (number >= row) for number in without} ^ (tested - {row})
    assert len(moved) <= 1


def test_scales_of_factors_do_not_matter():
    assert parts(GRID * 0.37 - 1.5) == parts(GRID) == parts(GRID * 3)


def test_rows_of_equal_factors_are_split_too():
    factors = np.zeros((300, 1), np.int64)
    codes = np.random.default_rng(0).normal(size=(300, 2))
    train, tested = split(codes, factors, 0.5)
    order = np.random.default_rng(1).permutation(300)
    _, again = split(codes[order], factors[order], 0.5)
    assert len(train) == len(tested) == 150 and set(order[again].tolist()) == set(tested.tolist())


def test_every_row_is_tested_as_often():
    factors = GRID[:60]
    counts = np.bincount([row for seed in range(300) for row in parts(factors, seed, 0.5)[1]], minlength=60)
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("form", [grouped, paired])
def test_groups_to_test_on_have_rows_of_their_own(form):
    codes = np.random.default_rng(0).normal(size=(600, 2))
    rows, held, (train, tested) = form_groups(form, codes, GRID, 90, 16, 1 / 3, 0, "a score")
    assert not set(rows[train].ravel().tolist()) & set(rows[tested].ravel().tolist())
    assert len(train) == 60 and len(tested) == 30
    assert np.bincount(held[train]).tolist() == [30, 30] and np.bincount(held[tested]).tolist() == [15, 15]
