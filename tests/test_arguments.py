"""Arguments: what annotations promise, what they refuse, and how a call is bound to a signature."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import torch

from untwine.arguments import (
    Count,
    EachPositive,
    EachShare,
    NonNegative,
    Number,
    PerMember,
    Positive,
    Share,
    Whole,
    bind,
    bind_names,
    coerce,
    expected,
    hints,
)
from untwine.errors import UntwineError
from untwine.quantities import POSITIVE, Each, each


class Colour:
    """A class that texts may stand for."""

    def __init__(self, name: str):
        self.name = name

    @classmethod
    def from_argument(cls, value: Any) -> Any:
        if value == "pink":
            raise UntwineError("pink is no colour")
        return cls(value) if isinstance(value, str) else NotImplemented


RED = Colour("red")


@pytest.mark.parametrize(
    ("value", "hint", "result"),
    [
        (3, int, 3),
        (3, float, 3.0),
        (3, int | float, 3),
        (3, float | int, 3),
        (np.int64(3), int, 3),
        (np.float32(0.5), float, 0.5),
        (np.bool_(True), bool, True),
        (torch.tensor(2.5), float, 2.5),
        (False, bool, False),
        ("x", str, "x"),
        (None, int | None, None),
        (None, None, None),
        ("box", Literal["box", "gaussian"], "box"),
        (1, Literal[1, 2], 1),
        ([3, 4], tuple[int, ...], (3, 4)),
        ((3, 4), tuple[float, ...], (3.0, 4.0)),
        (np.array([1.0, 2.0]), tuple[float, ...], (1.0, 2.0)),
        ([[0, 1], [1, 0]], tuple[tuple[float, ...], ...], ((0.0, 1.0), (1.0, 0.0))),
        ([1, 2], tuple[int, int], (1, 2)),
        ([1, "x"], tuple, (1, "x")),
        ((1, 2), list[float], [1.0, 2.0]),
        ([1, 2], Sequence[int], (1, 2)),
        ([1, 2], PerMember, each(1, 2)),
        ((1, 2), Number, each(1, 2)),
        (np.array([1, 2]), EachPositive, each(1, 2)),
        (torch.tensor([1.0, 2.0]), EachPositive, each(1, 2)),
        (each(1, 2), EachPositive, each(1, 2)),
        (2, EachPositive, 2.0),
        (math.sqrt, Number, math.sqrt),
        (each(1, 2), float | Each, each(1, 2)),
        ({"a": 1}, Mapping[str, float], {"a": 1.0}),
        ({"a": 1}, dict[str, Any], {"a": 1}),
        (RED, Colour, RED),
        (object, Any, object),
        ("pca", Literal["pca"] | tuple[float, ...], "pca"),
        ([1], Literal["pca"] | tuple[float, ...], (1.0,)),
        (1, Count, 1),
        (0, Whole, 0),
        (0, NonNegative, 0.0),
        (1, Share, 1.0),
        (2, Count | None, 2),
        (len, Callable[..., Any], len),
    ],
)
def test_what_is_coerced(value, hint, result):
    coerced = coerce(value, hint, "x")
    assert coerced == result and type(coerced) is type(result)
    assert str(coerced) == str(result)  # 1 and 1.0 and True are equal to Python


def test_a_class_says_what_may_stand_for_it():
    for hint in (Colour, str | Colour, Colour | None):
        assert coerce("blue", hint, "x").name == "blue"
    with pytest.raises(UntwineError, match="x must be a Colour, not 3"):
        coerce(3, Colour, "x")
    for hint in (Colour, str | Colour):
        with pytest.raises(UntwineError, match="pink is no colour"):
            coerce("pink", hint, "x")


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        (True, int, "x must be a whole number, not True"),
        (True, float, "x must be a number, not True"),
        (True, PerMember, "x must be a number, not True"),
        (1, bool, "x must be true or false, not 1"),
        ("no", bool, "x must be true or false, not 'no'"),
        (1.5, int, "x must be a whole number, not 1.5"),
        ("lots", Number, "x must be a number, not 'lots'"),
        ("3", float, "x must be a number, not '3'"),
        (None, float, "x must be a number, not None"),
        (math.nan, float, "x must be finite, not nan"),
        (math.inf, EachPositive, "x must be finite, not inf"),
        (10**400, float, "x must be finite, not 1000"),
        ([1, math.inf], EachPositive, "item 2 of x must be finite, not inf"),
        ([1, "a"], PerMember, "item 2 of x must be a number, not 'a'"),
        ([], PerMember, r"x must be a number, or one for each member, not \[\]"),
        (-1, Positive, "x must be positive, not -1"),
        (0, EachPositive, "x must be positive, not 0"),
        ([1, -2], EachPositive, "x must be positive, not -2"),
        (each(1, -2), EachPositive, "x must be positive, not -2"),
        (1.5, EachShare, "x must be from 0 to 1, not 1.5"),
        (0, Count, "x must be a whole number, 1 or more, not 0"),
        ("a", Count, "x must be a whole number, 1 or more, not 'a'"),
        ("a", Count | None, "x must be a whole number, 1 or more, or None, not 'a'"),
        (3, Literal[1, 2], "x must be 1 or 2, not 3"),
        (True, Literal[1, 2], "x must be 1 or 2, not True"),
        ("boxes", Literal["box", "gaussian"], "x must be 'box' or 'gaussian', not 'boxes'; did you mean 'box'?"),
        ("svd", Literal["pca"] | tuple[float, ...], "x must be 'pca' or a list of numbers, not 'svd'"),
        ("ab", tuple[str, ...], "x must be a list of texts, not 'ab'"),
        ([1], tuple[int, int], r"x must be a list of 2 whole numbers, not \[1\]"),
        ([1, 2.5], tuple[int, ...], "item 2 of x must be a whole number, not 2.5"),
        ([[1, "a"]], tuple[tuple[float, ...], ...], "item 2 of item 1 of x must be a number, not 'a'"),
        (
            [[1.0]],
            tuple[Annotated[float | Each, POSITIVE], ...],
            r"item 1 of x must be a number, or uw.each\(...\) for one that differs by member, not \[1.0\]",
        ),
        ({"a": "b"}, Mapping[str, float], "'a' of x must be a number, not 'b'"),
        (3, Mapping[str, float], "x must be a mapping, not 3"),
        (3, Callable[..., Any], "x must be a function, not 3"),
        ("z" * 1000, float, r"x must be a number, not 'zzz.*\.\.\."),
    ],
)
def test_what_is_refused(value, hint, message):
    with pytest.raises(UntwineError, match=message) as caught:
        coerce(value, hint, "x")
    assert len(str(caught.value)) < 200


def test_annotations_in_words():
    assert expected(int | str | None) == "a whole number, a text or None"
    assert expected(Number) == expected(PerMember) == expected(EachPositive) == "a number"
    assert expected(list[tuple[int, int]]) == "a list of lists"


# --- binding ----------------------------------------------------------------------------------------


def sparse(gamma: Share = 0.8, variance: Positive = 0.05, *, kernel: Literal["box", "gaussian"] = "box", seed=3) -> Any:
    return gamma, variance, kernel, seed


def grid(dot: Any, rows: int = 2, rest: int | None = None) -> Any:
    return dot, rows, rest


def heap(first: int, **rest: Any) -> Any:
    return first, rest


def test_every_argument_is_there_and_coerced():
    assert bind("prior 'sparse'", sparse) == {"gamma": 0.8, "variance": 0.05, "kernel": "box", "seed": 3}
    values = bind("prior 'sparse'", sparse, [1], {"kernel": "gaussian", "variance": np.float32(0.5)})
    assert values == {"gamma": 1.0, "variance": 0.5, "kernel": "gaussian", "seed": 3}
    assert list(values) == ["gamma", "variance", "kernel", "seed"] and type(values["gamma"]) is float
    assert bind("shape 'grid'", grid, ["x"]) == {"dot": "x", "rows": 2, "rest": None}
    assert bind("shape 'heap'", heap, [1], {"depth": 2}) == {"first": 1, "depth": 2}
    assert bind("shape 'grid'", inspect.signature(grid), ["x", "two"])["rows"] == "two"  # no annotations to go by


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "message"),
    [
        (sparse, [], {"gama": 1}, r"^unknown argument of it: 'gama'; did you mean 'gamma'\?$"),
        (sparse, [], {"zzz": 1}, "^unknown argument of it: 'zzz'; known: gamma, kernel, seed, variance$"),
        (sparse, [2], {}, "^gamma of it must be from 0 to 1, not 2$"),
        (sparse, [], {"seed": "a"}, "^seed of it must be a whole number, not 'a'$"),
        (sparse, [1], {"gamma": 1}, "^it is given gamma twice$"),
        (
            sparse,
            [1, 1, 1],
            {},
            "^it takes 2 arguments by position, not 3; its arguments are .gamma=0.8, var",
        ),
        (grid, [], {}, r"^it needs dot; its arguments are \(dot, rows=2, rest=None\)$"),
        (grid, [1], {"rows": None}, "^rows of it must be a whole number, not None$"),
        (lambda: 0, [1], {}, "^it takes no arguments$"),
        (lambda: 0, [], {"a": 1}, "^it takes no arguments, but 'a' was given$"),
    ],
)
def test_what_a_call_cannot_be(function, args, kwargs, message):
    with pytest.raises(UntwineError, match=message):
        bind("it", function, args, kwargs)


def test_names_are_bound_without_looking_at_values():
    bound = bind_names("it", inspect.signature(sparse), ["anything"], {"kernel": 3})
    assert bound.arguments == {"gamma": "anything", "kernel": 3}


def test_annotations_are_resolved_one_by_one():
    def strange(a: int, b: NoSuchName, c: "float | None" = None, d=1.0, e=None) -> AlsoUnknown: ...  # type: ignore

    assert hints(strange) == {"a": int, "b": Any, "c": float | None, "d": float, "e": Any}
    assert hints(sparse) == {"gamma": Share, "variance": Positive, "kernel": Literal["box", "gaussian"], "seed": int}


def test_arguments_need_no_torch():
    code = "import sys, untwine.arguments; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
