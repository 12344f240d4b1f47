"""Tiles against pictures put together by hand, and what a dataset must have to be tiled."""

from __future__ import annotations

import json

import numpy as np
import pytest

import untwine.datasets
from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.families import tiled as module
from untwine.data.families.tiled import Fixed, tiled, tiled_space
from untwine.data.specs import build, full_spec
from untwine.data.states import Labelled, TabledStates
from untwine.datasets import images, pinwheel, three_dots, xy_squares
from untwine.errors import UntwineError


def small(height: int = 5, width: int = 7) -> Dataset:
    """A table of 2 x 3 states, whose pictures are neither square nor alike."""
    space = FactorSpace(("kind", "turn"), (2, 3), ("categorical", "cyclic"))
    table = (np.arange(6 * 2 * height * width) * 37 % 251).astype(np.uint8).reshape(6, 2, height, width)
    return TabledStates(space, (2, height, width), lambda numbers: table[numbers])


def by_hand(inner: Dataset, state: np.ndarray, rows: int, columns: int, stride: int) -> np.ndarray:
    """Draw pixel by pixel."""
    assert inner.factors is not None
    k = len(inner.factors)
    channels, height, width = inner.shape
    down, across = len(range(0, height, stride)), len(range(0, width, stride))
    picture = np.zeros((channels, rows * down, columns * across), np.uint8)
    for tile in range(rows * columns):
        shown = inner.observe([state[k * tile : k * tile + k]])[0]
        for y in range(down):
            for x in range(across):
                row, column = tile // columns * down + y, tile % columns * across + x
                picture[:, row, column] = shown[:, y * stride, x * stride]
    return picture


SETTINGS = [(2, 2, 1), (1, 1, 1), (1, 3, 2), (3, 1, 3), (2, 3, 2), (1, 2, 100)]
INNER = {
    "table": small,
    "xy_squares": lambda: xy_squares(size=12, square=3, positions=4, spacing=3),
    "three_dots": lambda: three_dots(size=10, positions=10, dots=2, examples=1),
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("few", [True, False])
def test_tiles_are_those_put_together_by_hand(inner, settings, few, monkeypatch):
    monkeypatch.setattr(module, "_CACHED", 2**26 if few else 0)
    monkeypatch.setattr(module, "_CHUNK", 2**25 if few else 1000)
    one = INNER[inner]()
    rows, columns, stride = settings
    data = tiled(one, rows, columns, stride, examples=12, seed=3)
    states, pictures = data.factors_of(np.arange(12)), data.batch(np.arange(12))
    assert pictures.dtype == np.uint8 and pictures.shape == (12, *data.shape) and pictures.flags.c_contiguous
    for state, picture in zip(states, pictures, strict=True):
        assert np.array_equal(picture, by_hand(one, state, rows, columns, stride))
    assert data._cached == few and ("_table" in vars(data)) == few


def test_every_pixel_is_kept_with_a_stride_of_one():
    one, data = small(), tiled(small(), 1, 1, 1, examples=20)
    assert np.array_equal(data.observe([[1, 2]]), one.observe([[1, 2]]))
    assert tiled(small(64, 33), stride=2, examples=1).shape == (2, 64, 34)


def test_factors_are_those_of_the_tiles():
    data = tiled(small(), 2, 2, examples=10)
    assert data.factors.names == ("kind1", "turn1", "kind2", "turn2", "kind3", "turn3", "kind4", "turn4")
    assert data.factors.sizes == (2, 3) * 4 and data.factors.kinds == ("categorical", "cyclic") * 4
    assert data.complete
    dots = tiled(three_dots(dots=1, examples=1), 1, 2, examples=10)
    assert dots.factors.names == ("x1_1", "y1_1", "x1_2", "y1_2")


def test_names_differ_however_many_tiles_there_are():
    space = FactorSpace(("x", "x1", "x11"), (2, 2, 2), ("ordered",) * 3)
    names = tiled_space(space, 120).names
    assert len(set(names)) == 360 and names[:4] == ("x_1", "x1_1", "x11_1", "x_2")
    plain = tiled_space(FactorSpace(("x", "y"), (2, 2), ("ordered",) * 2), 120).names
    assert len(set(plain)) == 240 and plain[-1] == "y120"


def test_values_keep_their_names_in_tiles_and_where_factors_are_fixed():
    table = {"toy": ["car", "duck"] * 3, "angle": [0, 0, 35, 35, 70, 70], "light": [5] * 6}
    data = images(np.arange(6 * 64).reshape(6, 8, 8) % 251, factors=table)
    assert tiled(data, rows=1, examples=1).factors.values == (("car", "duck"), (0, 35, 70), (5,)) * 2
    fixed = Fixed(data, {"toy": 1, "light": 0})
    assert fixed.factors.names == ("angle",) and fixed.factors.values == ((0, 35, 70),)
    assert np.array_equal(fixed.batch([1]), data.batch([3]))


def test_examples_are_the_sampled_states_of_a_space_beyond_64_bits():
    data = tiled("xy-squares", examples=500, seed=4)
    assert data.factors.states == 8**24 > 2**63 and len(data) == 500
    assert np.array_equal(data.factors_of(np.arange(500)), data.factors.sample(500, seed=4))
    assert not np.array_equal(data.factors_of(np.arange(500)), data.factors.sample(500, seed=0))
    assert data.nbytes == 500 * 3 * 128 * 128
    state = data.factors_of([7])
    corner = xy_squares().observe(state[:, 18:])
    assert np.array_equal(data.batch([7])[:, :, 64:, 64:], corner)


def test_tiles_move_one_at_a_time():
    data = tiled(small(), 2, 2, examples=1)
    middle = np.array([[1, 1] * 4])
    for tile in range(4):
        moved = middle.copy()
        moved[0, 2 * tile + 1] = 2
        changed = (data.observe(middle) != data.observe(moved)).any((0, 1))
        rows, columns = np.nonzero(changed)
        assert set(rows // 5) == {tile // 2} and set(columns // 7) == {tile % 2}


def test_tiles_of_tiles():
    once = tiled(small(), 1, 2, examples=5)
    twice = tiled(once, 2, 1, examples=5)
    at_once = tiled(small(), 2, 2, examples=5)
    states = at_once.factors.sample(9, seed=0)
    assert np.array_equal(twice.observe(states), at_once.observe(states))
    assert twice.factors.names[:2] == ("kind1_1", "turn1_1")


# --- specs ------------------------------------------------------------------------------------------------

SQUARES = {"name": "xy_squares", "spacing": 4, "size": 64, "square": 8, "positions": 8}


@pytest.mark.parametrize(
    "inner",
    [
        "xy-squares(spacing=4)",
        "xy_squares(4)",
        "  xy-squares( spacing = 4, size=64 ) ",
        {"name": "xy_squares", "spacing": 4},
        {"name": "xy-squares", "spacing": 4},
        SQUARES,
        pytest.param(lambda: xy_squares(spacing=4), id="dataset"),
    ],
    ids=str,
)
def test_equal_datasets_have_equal_specs(inner):
    given = inner() if callable(inner) else inner
    data = tiled(given, stride=2, examples=10)
    expected = {"name": "tiled", "dataset": SQUARES, "rows": 2, "columns": 2, "stride": 2, "examples": 10, "seed": 0}
    assert data.spec == expected and json.loads(json.dumps(data.spec)) == expected
    again = build(data.spec)
    assert again.spec == expected and again.factors == data.factors
    assert np.array_equal(again.examples(), data.examples())
    if not callable(inner):
        assert full_spec({"name": "tiled", "dataset": inner, "stride": 2, "examples": 10}) == expected


def test_specs_within_specs():
    for text in ("tiled(xy-squares(spacing=4), stride=2, examples=3)", "tiled('xy-squares(4)', stride=2, examples=3)"):
        data = tiled(text, 1, 2, examples=10)
        assert data.spec["dataset"]["name"] == "tiled" and data.spec["dataset"]["dataset"] == SQUARES
        assert data.spec["dataset"]["examples"] == 3
        assert build(data.spec).spec == data.spec and data.shape == (3, 64, 128)


def test_completing_a_spec_makes_no_dataset(monkeypatch):
    def no(*args: object, **kwargs: object) -> None:
        raise AssertionError("a dataset was made")

    monkeypatch.setattr(module, "Tiled", no)
    monkeypatch.setattr("untwine.data.families.squares.Squares", no)
    assert full_spec({"name": "tiled", "dataset": "xy-squares(4)"})["dataset"] == SQUARES


def test_a_dataset_is_used_as_it_is():
    inner = xy_squares(positions=2, size=16, square=4, spacing=3)
    data = tiled(inner, examples=10)
    assert data._inner is inner
    nameless = tiled(small(), examples=10)
    with pytest.raises(UntwineError, match="needs a name"):
        build(nameless.spec)


def test_tiles_of_your_own_pictures():
    pictures = (np.arange(6 * 4 * 4) * 41 % 256).astype(np.uint8).reshape(6, 4, 4)
    grid = np.indices((2, 3)).reshape(2, -1).T
    data = tiled(untwine.datasets.images(pictures, factors=grid), examples=10)
    assert data.shape == (1, 8, 8)
    assert np.array_equal(data.observe([[0, 0, 0, 1, 0, 2, 1, 2]])[0, 0, 4:, 4:], pictures[5])
    with pytest.raises(UntwineError, match="pass the array again"):
        build(json.loads(json.dumps(data.spec)))


# --- refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows", "columns", "stride", "examples"])
@pytest.mark.parametrize("value", [0, -1])
def test_settings_that_make_no_sense_are_refused(name, value):
    with pytest.raises(UntwineError, match=f"tiled: {name} must be a whole number, 1 or more, not {value}"):
        tiled(small(), **{name: value})


def test_datasets_that_cannot_be_tiled_are_refused():
    plain = untwine.datasets.images(np.zeros((4, 8, 8), np.uint8))
    with pytest.raises(UntwineError, match="dataset 'images' has no factors"):
        tiled(plain)
    with pytest.raises(UntwineError, match="dataset 'pinwheel' has vectors"):
        tiled(pinwheel())
    space = FactorSpace(("x", "y"), (2, 2), ("ordered", "ordered"))
    some = Labelled(np.zeros((3, 1, 8, 8), np.uint8), np.array([[0, 0], [1, 0], [1, 1]]), space)
    assert not some.complete
    with pytest.raises(UntwineError, match="does not show each of its 4 states in just one image"):
        tiled(some)
    with pytest.raises(UntwineError, match="cannot have factors held"):
        Fixed(some, {"x": 0})


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        ("xy-squers", "unknown dataset 'xy-squers'; did you mean 'xy-squares'"),
        ("xy-squares(spacin=4)", "did you mean 'spacing'"),
        ("xy-squares(", "cannot read the dataset"),
        ("xy-squares(spacing=9)", "spacing is 9"),
        ("tiled", "dataset"),
        ({"name": "xy_squares", "spacin": 4}, "did you mean 'spacing'"),
        ({"name": "xy_squers"}, "did you mean 'xy_squares'"),
        ({"spacing": 4}, "needs a name"),
        ({}, "needs a name"),
        (7, "dataset of dataset 'tiled' must be a text, a mapping or a Dataset"),
    ],
    ids=str,
)
def test_names_that_mean_nothing_are_refused(inner, message):
    with pytest.raises(UntwineError, match=message):
        tiled(inner)


# --- factors that are held ------------------------------------------------------------------------------


def test_held_factors_are_no_factors():
    inner = xy_squares()
    data = Fixed(inner, {"y_B": 6, "x_R": 3, "y_R": 0})
    assert data.factors == FactorSpace(("x_G", "y_G", "x_B"), (8, 8, 8), ("ordered",) * 3)
    assert len(data) == 512 and data.shape == inner.shape and data.complete
    numbers = np.array([0, 511, 77, 300])
    states = data.factors_of(numbers)
    assert np.array_equal(data.factors.index(states), numbers)
    whole = np.column_stack([np.full(4, 3), np.zeros(4, int), states, np.full(4, 6)])
    assert np.array_equal(data.batch(numbers), inner.observe(whole))
    assert np.array_equal(data.observe(states), inner.observe(whole))
    assert np.array_equal(Fixed(inner, {}).batch([12345]), inner.batch([12345]))


def test_vectors_and_other_views_may_be_held():
    inner = Fixed(Fixed(xy_squares(), {"x_R": 1}), {"x_G": 2})
    assert inner.factors.names == ("y_R", "y_G", "x_B", "y_B")
    assert np.array_equal(inner.observe([[3, 4, 5, 6]]), xy_squares().observe([[1, 3, 2, 4, 5, 6]]))


def test_factors_that_cannot_be_held_are_refused():
    with pytest.raises(UntwineError, match="unknown factor 'x_Q'"):
        Fixed(xy_squares(), {"x_Q": 0})
    with pytest.raises(UntwineError, match="factor 'x_R' is 8"):
        Fixed(xy_squares(), {"x_R": 8})
    with pytest.raises(UntwineError, match="factor 'x_R' is -1"):
        Fixed(xy_squares(), {"x_R": -1})
    with pytest.raises(UntwineError, match="all factors of this TabledStates are held"):
        Fixed(small(), {"kind": 0, "turn": 1})
    with pytest.raises(UntwineError, match="too many to number"):
        Fixed(tiled("xy-squares", examples=1), {"x_R1": 0})


def test_held_factors_are_fixed_in_every_tile():
    data = tiled("xy-squares(spacing=4)", stride=2, examples=6, held="x_R=1, y_R=7, x_B=3, y_B=3")
    assert data.factors is not None and data.factors.names == (
        "x_G1",
        "y_G1",
        "x_G2",
        "y_G2",
        "x_G3",
        "y_G3",
        "x_G4",
        "y_G4",
    )
    by_names = tiled("xy-squares(spacing=4)", stride=2, examples=6)
    state = np.arange(8)
    every = [[1, 7, x, y, 3, 3] for x, y in state.reshape(4, 2)]
    assert (data.observe([state]) == by_names.observe([np.concatenate(every)])).all()
    assert (build(json.loads(json.dumps(data.spec))).batch(range(6)) == data.batch(range(6))).all()
    assert "held" not in by_names.spec and data.spec["held"] == ["x_R=1", "y_R=7", "x_B=3", "y_B=3"]


@pytest.mark.parametrize(("held", "message"), [("x_R", "as in 'scale=5'"), ("x_Q=1", "x_Q"), ("x_R=8", "8")])
def test_what_cannot_be_held_in_tiles_is_refused(held, message):
    with pytest.raises(UntwineError, match=message):
        tiled("xy-squares(spacing=4)", stride=2, examples=6, held=held)
