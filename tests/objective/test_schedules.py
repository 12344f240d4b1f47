"""Schedules: values by hand, on numbers and on arrays of steps."""

from __future__ import annotations

import json

import numpy as np
import pytest

import untwine as uw
from untwine.errors import UntwineError
from untwine.objective.schedules import (
    Constant,
    Cyclic,
    Join,
    Product,
    Ramp,
    Schedule,
    constant,
    cyclic,
    join,
    product,
    ramp,
    schedule,
)
from untwine.parts import each, from_json, resolve, to_json

# Each with its values at steps 0, 1, 2, ..., worked out by hand, and the step at which it comes to rest.
BY_HAND: dict[str, tuple[Schedule, list[float], int]] = {
    "constant": (constant(4.0), [4, 4, 4, 4, 4, 4], 0),
    "ramp": (ramp(4.0, 4), [0, 1, 2, 3, 4, 4], 4),
    "ramp from": (ramp(1.0, 2, start=3.0), [3, 2, 1, 1, 1, 1], 2),
    "ramp at once": (ramp(4.0, 0), [4, 4, 4, 4, 4, 4], 0),
    "cyclic": (cyclic(ramp(2.0, 2), 3), [0, 1, 2, 0, 1, 2, 0], -1),
    "cyclic of one step": (cyclic(ramp(2.0, 2), 1), [0, 0, 0], -1),
    "join": (join([ramp(2.0, 2), 5.0, ramp(9.0, 1, start=8.0)], [3, 5]), [0, 1, 2, 5, 5, 8, 9, 9], 6),
    "join before the ramp is done": (join([ramp(4.0, 4), 0.5], [2]), [0, 1, 0.5, 0.5], 2),
    "join of one": (join([3.0], []), [3, 3], 0),
    "join to a cycle": (join([1.0, cyclic(ramp(2.0, 2), 3)], [1]), [1, 0, 1, 2, 0, 1], -1),
    "product": (ramp(4.0, 4) * ramp(1.0, 2), [0, 0.5, 2, 3, 4, 4], 4),
    "product with a number": (3.0 * ramp(4.0, 4) * 0.5, [0, 1.5, 3, 4.5, 6], 4),
    "product with a cycle": (ramp(1.0, 4) * cyclic(ramp(2.0, 2), 3), [0, 0.25, 1, 0, 1, 2, 0], -1),
    "ramp at once to a schedule": (ramp(ramp(2.0, 2), 0), [0, 1, 2, 2], 2),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_values_by_hand(name):
    made, values, rest = BY_HAND[name]
    assert np.array_equal(made(np.arange(len(values))), values)
    assert [float(made(step)) for step in range(len(values))] == values
    assert made.ends() == rest
    if rest >= 0:
        assert float(made(rest)) == float(made(rest + 1)) == float(made(10**9))
        assert rest == 0 or float(made(rest - 1)) != float(made(rest))


@pytest.mark.parametrize("name", BY_HAND)
def test_arrays_of_any_shape(name):
    made, values, _ = BY_HAND[name]
    for steps in (np.zeros((2, 3), int), [0, 1], np.array(1), np.array([], int)):
        found = made(steps)
        assert found.shape == np.shape(steps) and found.dtype == np.float64
    assert made(np.array([[0, 1], [1, 0]])).tolist() == [values[:2], values[1::-1]]


@pytest.mark.parametrize("name", BY_HAND)
def test_json_round_trip(name):
    made = BY_HAND[name][0]
    again = from_json(json.loads(json.dumps(to_json(made))))
    assert again == made and np.array_equal(again(np.arange(9)), made(np.arange(9)))


def test_rhodes_ramps():
    """Section 5.2: from 0 to 4 over 100,000 steps."""
    steps = np.array([0, 1, 25_000, 99_999, 100_000, 299_999])
    assert ramp(4.0, 100_000)(steps) == pytest.approx([0, 4e-5, 1, 3.99996, 4, 4])


def test_any_number_is_a_schedule():
    assert schedule(3) == constant(3.0) == Constant(3.0)
    assert schedule([1, 2]) == schedule((1, 2)) == Constant(each(1, 2))
    made = ramp(1.0, 2)
    assert schedule(made) is made and constant(made) is made


def test_products_of_plain_numbers_are_folded():
    assert product(2.0, 3.0) == Constant(6.0)
    assert product(2, 3) == Constant(6.0)
    assert product(1.0, ramp(2.0, 3)) == product(ramp(2.0, 3), 1) == ramp(2.0, 3)
    assert product(2.0, each(1, 3)) == product(each(1, 3), 2.0) == Constant(each(2, 6))
    assert product(1.0, each(1, 3)) == Constant(each(1, 3))
    assert isinstance(product(2.0, ramp(2.0, 3)), Product)
    assert product(product(2.0, 3.0), each(1, 2)) == Constant(each(6, 12))


def test_one_value_for_each_member():
    def of(made: Schedule, member: int) -> list[float]:
        return from_json(resolve(to_json(made), member))(np.arange(5)).tolist()

    made = ramp([4.0, 8.0], 4, start=[0.0, 4.0])
    assert isinstance(made, Ramp)
    assert of(made, 0) == [0, 1, 2, 3, 4] and of(made, 1) == [4, 5, 6, 7, 8]
    assert of(each(2, 3) * ramp(4.0, 4), 1) == of(ramp(4.0, 4) * each(2, 3), 1) == [0, 3, 6, 9, 12]
    assert of(product(each(2, 3), each(10, 100)), 0) == [20] * 5 and of(product(each(2, 3), each(10, 100)), 1)[0] == 300
    assert of(join([each(1, 2), ramp([1.0, 2.0], 1)], [2]), 1) == [2, 2, 0, 2, 2]
    assert of(cyclic(ramp([4.0, 8.0], 2), 3), 1) == [0, 4, 8, 0, 4]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ramp(1.0, -1), "0 or more, not -1"),
        (lambda: ramp(ramp(1.0, 2), 3), "a schedule already cannot be annealed too: set anneal=0"),
        (lambda: cyclic(1.0, 0), "period of schedule 'cyclic' must be a whole number, 1 or more, not 0"),
        (lambda: join([1.0, 2.0], []), "n schedules and n - 1 rising boundaries"),
        (lambda: join([1.0, 2.0, 3.0], [5, 2]), "n schedules and n - 1 rising boundaries"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(UntwineError, match=message):
        make()


def test_the_surface_offers_them():
    assert (uw.ramp, uw.cyclic, uw.join, uw.constant) == (ramp, cyclic, join, constant)
    assert isinstance(uw.cyclic(1.0, 2), Cyclic) and isinstance(uw.join([1.0], []), Join)
