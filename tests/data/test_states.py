"""Datasets of labelled examples in memory: completeness, lookups of states, and their hash."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from untwine.data import FactorSpace
from untwine.data.states import Labelled
from untwine.errors import UntwineError


def labelled(rows: list[tuple[int, ...]], sizes: tuple[int, ...]) -> Labelled:
    """A dataset in which each example is its own index."""
    space = FactorSpace(tuple("abcdefgh"[: len(sizes)]), sizes, ("ordered",) * len(sizes))
    return Labelled(np.arange(len(rows), dtype=np.float32)[:, None], np.array(rows, np.int64), space)


def test_a_dataset_is_complete_if_every_state_has_exactly_one_example():
    every = list(product(range(3), range(2)))
    assert labelled(every[::-1], (3, 2)).complete
    assert not labelled(every[1:], (3, 2)).complete  # one is missing
    assert not labelled([*every, every[0]], (3, 2)).complete  # one is there twice
    assert not labelled([*every[1:], every[1]], (3, 2)).complete  # as many as there are states, but not all
    assert not labelled(every, (3, 3)).complete


def test_observing_shows_the_first_example_of_a_state():
    rows = [(2, 1), (0, 1), (2, 1), (1, 0), (0, 1)]
    data = labelled(rows, (3, 2))
    wanted = [(1, 0), (2, 1), (0, 1), (2, 1)]
    assert data.observe(wanted)[:, 0].tolist() == [rows.index(row) for row in wanted]
    with pytest.raises(UntwineError, match=r"no example has the factors a=1, b=1: there are examples of 3 of the 6"):
        data.observe([(1, 0), (1, 1)])
    with pytest.raises(UntwineError, match="its values are 0 to 2"):
        labelled([(3, 0)], (3, 2))


def test_there_may_be_more_states_than_64_bits_number():
    sizes = (2**20, 300, 2**20, 2**20, 256)
    rows = [
        (2**20 - 1, 299, 2**20 - 1, 2**20 - 1, 255),
        (0, 0, 0, 0, 0),
        (0, 0, 0, 0, 1),
        (0, 0, 0, 1, 0),
        (1, 0, 0, 0, 0),
    ]
    data = labelled(rows, sizes)
    assert data.factors is not None and data.factors.states > 2**63 and not data.complete
    assert data.observe(rows[::-1])[:, 0].tolist() == [4, 3, 2, 1, 0]
    for missing in ([0, 0, 0, 0, 255], [0, 0, 0, 1, 1], [*rows[0][:-1], 254]):
        with pytest.raises(UntwineError, match="no example has the factors"):
            data.observe([missing])


def test_lookups_agree_with_a_dictionary():
    space = FactorSpace(("a", "b", "c"), (7, 300, 5), ("ordered",) * 3)
    rows = [tuple(row) for row in space.sample(500, seed=0).tolist()]
    data = labelled(rows, space.sizes)
    first = {row: i for i, row in reversed(list(enumerate(rows)))}
    assert data.observe(rows)[:, 0].tolist() == [first[row] for row in rows]


def test_only_what_a_user_may_change_has_a_content():
    table, labels = np.zeros((2, 1, 4, 4), np.uint8), np.array([[0], [1]])
    space = FactorSpace(("digit",), (2,), ("categorical",))
    assert Labelled(table, labels, space).content is None
    own = Labelled(table, labels, space, mutable=True).content
    assert own == Labelled(table.copy(), labels, space, mutable=True).content
    others = [
        Labelled(table + np.uint8(1), labels, space, mutable=True),
        Labelled(table, labels[::-1].copy(), space, mutable=True),
        Labelled(table, labels, FactorSpace(("digit",), (3,), ("categorical",)), mutable=True),
        Labelled(table, labels, FactorSpace(("figure",), (2,), ("categorical",)), mutable=True),
    ]
    assert len({own, *(one.content for one in others)}) == 5


def test_the_names_of_values_are_no_part_of_the_content():
    """Runs on a table that was numbered before its values had names are still known; the number is theirs."""
    table, labels = np.arange(32, dtype=np.uint8).reshape(2, 1, 4, 4), np.array([[0], [1]])
    before = "sha256:90cbf77bf59b8dadc994c0bbb1d5ee6120b819e95e0bf6727e2031ad2f3f02b0"
    for values in (None, (("one", "two"),), ((10, 20),)):
        space = FactorSpace(("digit",), (2,), ("categorical",), values)
        assert Labelled(table, labels, space, mutable=True).content == before
