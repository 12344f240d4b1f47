"""Tables of factors that are made in Python: which are read, what their values are called, and what errors say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from untwine.data.files.columns import MANY
from untwine.data.files.formats.frames import from_columns
from untwine.data.files.formats.sheets import factor_table
from untwine.datasets import images
from untwine.errors import UntwineError

TOYS, ANGLES = ["toy-19", "toy-2", "toy-19", "toy-7"], [35, 0, 5, 35]
ROWS = [list(row) for row in zip(TOYS, ANGLES, strict=True)]


def numbered(factors: Any, kinds: tuple[str, ...] = ()) -> tuple[list[list[int]], Any]:
    labels, space = from_columns(factors, "the table", kinds).numbered(kinds)
    return labels.tolist(), space


def by_hand(*columns: list[Any]) -> list[list[int]]:
    """The position of each value among the sorted values of its column."""
    ranks = [[sorted(set(column)).index(value) for value in column] for column in columns]
    return [list(row) for row in zip(*ranks, strict=True)]


# --- what is read -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "factors",
    [
        {"toy": TOYS, "angle": ANGLES},
        {"toy": np.array(TOYS), "angle": np.array(ANGLES, np.uint16)},
        {"toy": tuple(TOYS), "angle": np.array(ANGLES, object)},
        "pandas",
    ],
)
def test_columns_have_names_and_keep_their_values(factors):
    if factors == "pandas":
        factors = pytest.importorskip("pandas").DataFrame({"toy": TOYS, "angle": ANGLES})
    labels, space = numbered(factors)
    assert labels == by_hand(TOYS, ANGLES)
    assert space.names == ("toy", "angle") and space.kinds == ("categorical", "ordered")
    assert space.values == (("toy-19", "toy-2", "toy-7"), (0, 5, 35))
    assert all(type(value) is int for value in space.values[1])


@pytest.mark.parametrize("factors", [ROWS, tuple(map(tuple, ROWS)), np.array(ROWS, object)])
def test_rows_have_numbered_columns(factors):
    labels, space = numbered(factors)
    assert labels == by_hand(TOYS, ANGLES) and space.names == ("factor0", "factor1")
    assert space.kinds == ("categorical", "ordered") and space.values[1] == (0, 5, 35)


def test_an_array_of_texts_holds_labels_even_where_these_are_numbers():
    labels, space = numbered(np.array([["10", "b"], ["9", "a"], ["2", "a"], ["1e1", "b"]]))
    assert labels == [[2, 1], [1, 0], [0, 0], [3, 1]]  # "2" before "9" before "10"; equal numbers by their letters
    assert space.kinds == ("categorical", "categorical") and space.values[0] == ("2", "9", "10", "1e1")
    assert numbered(np.array(["10", "9"]), ("factor0=ordered",))[1].kinds == ("ordered",)
    with pytest.raises(UntwineError, match="column 'factor0' holds texts, whose order only you know"):
        numbered(np.array(["10", "nine"]), ("factor0=ordered",))


def test_floats_with_few_values_are_ordered():
    for dtype in (np.float64, np.float32, np.float16):
        labels, space = numbered(np.array([[0.5], [0.1], [2.0], [0.5]], dtype))
        assert labels == [[1], [0], [2], [1]] and space.kinds == ("ordered",)
        assert space.values == ((0.1, 0.5, 2.0),)  # the number that was meant, whatever its precision


@pytest.mark.parametrize(("low", "width"), [(0.0, 1.0), (1e9, 1e-3), (-1e5, 2e5)])
def test_many_floats_are_cut_into_bins_that_have_the_names_of_their_ends(low, width):
    numbers = low + width * np.linspace(0, 1, 3 * MANY) ** 3
    with pytest.warns(UserWarning, match="is cut into 20 bins of equal width"):
        labels, space = numbered(numbers[:, None])
    ends = [[float(end) for end in name.split(" to ")] for name in space.values[0]]
    assert len(set(space.values[0])) == len(ends) == max(labels)[0] + 1
    for number, (label,) in zip(numbers, labels, strict=True):
        below, above = ends[label]
        slack = 0 if low == 1e9 else 1e-3 * max(abs(below), abs(above))  # short names are rounded
        assert below - slack <= number <= above + slack


def test_whole_numbers_from_0_on_need_no_names():
    assert numbered(np.array([[0, 1], [1, 0]]))[1].values is None
    assert numbered(np.array([[0, 1], [1, 2]]))[1].values == ((0, 1), (1, 2))
    assert numbered(np.array([True, False]))[1].values == ((False, True),)


def test_categories_keep_their_order_and_unused_ones_are_left_out():
    pandas = pytest.importorskip("pandas")
    sizes, grades = ["small", "large", "medium", "small"], [3, 1, 3, 7]
    frame = pandas.DataFrame(
        {
            "label": pandas.Categorical(sizes, categories=["small", "medium", "huge", "large"]),
            "size": pandas.Categorical(sizes, categories=["small", "medium", "large"], ordered=True),
            "grade": pandas.Categorical(grades, categories=[7, 3, 1]),
        }
    )
    labels, space = numbered(frame)
    assert space.values == (("small", "medium", "large"), ("small", "medium", "large"), (7, 3, 1))
    assert space.kinds == ("categorical", "ordered", "categorical")
    assert [[space.values[i][number] for i, number in enumerate(row)] for row in labels] == [
        list(row) for row in zip(sizes, sizes, grades, strict=True)
    ]
    assert numbered(frame, ("label=cyclic",))[1].kinds[0] == "cyclic"  # their order is known
    frame.loc[2, "size"] = None
    with pytest.raises(UntwineError, match="column 'size' has no category in row 2, where it needs a text"):
        numbered(frame)


def test_columns_of_a_data_frame_without_names():
    pandas = pytest.importorskip("pandas")
    assert numbered(pandas.DataFrame(np.array([[5, 6], [7, 8]])))[1].names == ("factor0", "factor1")
    assert numbered(pandas.DataFrame({"x": pandas.array([3, 1], dtype="Int64")}))[1].values == ((1, 3),)


def test_archives_hold_an_array_or_columns(tmp_path: Path):
    np.savez(tmp_path / "columns.npz", images=np.zeros((4, 8, 8)), toy=TOYS, angle=ANGLES)
    assert factor_table(tmp_path / "columns.npz").numbered()[0].tolist() == by_hand(TOYS, ANGLES)
    np.savez(tmp_path / "array.npz", images=np.zeros((4, 8, 8)), factors=np.array([[3, 1], [4, 1]]))
    assert factor_table(tmp_path / "array.npz").numbered()[1].values == ((3, 4), (1,))
    data = images(tmp_path / "columns.npz", factors=tmp_path / "columns.npz")  # pictures and factors in one file
    assert data.factors.describe(data.factors_of([0])[0]) == "toy='toy-19', angle=35"
    for content in ({"x": np.zeros((2, 2))}, {"images": np.zeros((2, 8, 8))}):
        np.savez(tmp_path / "other.npz", **content)
        with pytest.raises(UntwineError, match=r"other\.npz needs an array 'factors' \[n, k\], or only arrays \[n\]"):
            factor_table(tmp_path / "other.npz")
    np.savez(tmp_path / "pickled.npz", factors=np.array([{}, None], object), allow_pickle=True)
    with pytest.raises(UntwineError, match=r"cannot be read as a \.npz file"):
        factor_table(tmp_path / "pickled.npz")


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ([["a", 1], ["b", None]], "column 'factor1' has None in row 1, where it needs a text or a finite number"),
        ({"x": [1.0, np.nan]}, "column 'x' has nan in row 1"),
        ({"x": np.array([np.inf, 1.0])}, "column 'x' has inf in row 0"),
        ({"x": ["a", "NA"]}, "column 'x' has 'NA' in row 1.*another word"),
        ({"x": ["a", " "]}, "column 'x' has '' in row 1"),
        ({"x": [1, "two"]}, "column 'x' has 1 in row 0 and 'two' in row 1: make all of them numbers, or all texts"),
        ({"x": np.array(["2026-01-01"], "datetime64[D]")}, r"column 'x' holds datetime64\[D\]"),
        ({"x": [2**70, 1]}, "column 'x' holds object; values must be texts, or numbers of at most 64 bits"),
        ({"x": np.zeros((2, 2))}, r"column 'x' has shape \[2, 2\]; it must be \[n\]"),
        ({"x": [1, 2], "y": [1]}, "has columns of different lengths: {'x': 2, 'y': 1}"),
        ({"file": ["a", "b"], "path": ["a", "b"]}, "which column names the picture, file or path"),
        ({"file": ["a", "b"]}, "is empty; it needs a row for each example and a column for each factor"),
        ([], "is empty"),
        ({}, "is empty"),
        ([[1], [2, 3]], "has rows of 1 and of 2 values"),
        (np.zeros((2, 2, 2), int), r"has shape \[2, 2, 2\]; it must be \[n, k\]"),
    ],
)
def test_what_is_wrong_is_said(factors, message):
    with pytest.raises(UntwineError, match=message):
        from_columns(factors, "the table")


def test_a_column_may_mix_numbers_and_texts_if_it_is_categorical():
    labels, space = numbered({"x": [2, "b", "a", 10]}, ("x=categorical",))
    assert space.values == (("10", "2", "a", "b"),) and labels == [[1], [3], [2], [0]]


# --- as a dataset -----------------------------------------------------------------------------------


def test_a_table_of_python_identifies_a_dataset():
    pixels = np.zeros((4, 8, 8))
    specs = [
        images(pixels, factors=factors).spec["factors"]["array"]
        for factors in (ROWS, {"toy": TOYS, "angle": ANGLES}, {"toy": TOYS, "angle": [5, 0, 35, 35]}, ROWS)
    ]
    assert specs[0] == specs[3] and len(set(specs)) == 3
    data = images(pixels, factors={"toy": TOYS, "angle": ANGLES})
    assert data.content is None  # the hash is in the spec
    with pytest.raises(
        UntwineError, match=r"no example has the factors toy='toy-19', angle=0: there are examples of 4"
    ):
        data.observe([[0, 0]])
    with pytest.raises(UntwineError, match="has 4 rows for 3 examples"):
        images(pixels[:3], factors=ROWS)
