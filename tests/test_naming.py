"""Parts as text: what is read, what is refused, and that nothing is executed."""

from __future__ import annotations

import contextlib
import inspect
import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from untwine.errors import UntwineError
from untwine.naming import read
from untwine.parts import part


@part
class NamedDot:
    """A part that can be called, as schedules can."""

    size: float = 1.0

    def __call__(self) -> str:
        return "called"


def round_dot(size: float = 1.0, filled: bool = False) -> tuple[Any, ...]:
    return "round_dot", size, filled


def grid(dot: Any, rows: int = 2, *, colour: str = "red", places: Any = ()) -> tuple[Any, ...]:
    return "grid", dot, rows, colour, places


def heap(*dots: Any, **rest: Any) -> tuple[Any, ...]:
    return "heap", dots, rest


def broken(size: Any = None) -> Any:
    return size + 1


DOT = NamedDot()
TABLE = {"dot": DOT, "round_dot": round_dot, "grid": grid, "heap": heap, "broken": broken, "red": DOT}


def shape(text: str) -> Any:
    return read("shape", text, TABLE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dot", DOT),  # itself, though it could be called
        ("dot()", DOT),
        ("  dot\n", DOT),
        ("round-dot", ("round_dot", 1.0, False)),
        ("round_dot()", ("round_dot", 1.0, False)),
        ("round-dot(0.5)", ("round_dot", 0.5, False)),
        ("round-dot(size=1e-5)", ("round_dot", 1e-5, False)),
        ("round-dot(size=1.e-5)", ("round_dot", 1e-5, False)),
        ("round-dot(size=-2, filled=True)", ("round_dot", -2, True)),
        ("grid(dot, places=-1" + 400 * "0" + ")", ("grid", DOT, 2, "red", -(10**400))),
        ("round-dot(+3, true)", ("round_dot", 3, True)),
        ("round-dot(none, false)", ("round_dot", None, False)),
        ("grid(dot)", ("grid", DOT, 2, "red", ())),
        ("grid(round-dot, 3)", ("grid", ("round_dot", 1.0, False), 3, "red", ())),
        ("grid(round-dot(size=2), rows=3)", ("grid", ("round_dot", 2, False), 3, "red", ())),
        ("grid(grid(dot, 1), 3)", ("grid", ("grid", DOT, 1, "red", ()), 3, "red", ())),
        ("grid(dot, colour=blue)", ("grid", DOT, 2, "blue", ())),
        ("grid(dot, colour=dark-blue)", ("grid", DOT, 2, "dark-blue", ())),  # a plain text, as it was written
        ("grid(dot, colour='dark-blue')", ("grid", DOT, 2, "dark-blue", ())),
        ('grid("dot-1", colour="it\'s a-b")', ("grid", "dot-1", 2, "it's a-b", ())),
        (
            "grid(dot, colour=red)",
            ("grid", DOT, 2, "red", ()),
        ),  # an argument that is a text, though a part has its name
        ("grid(dot, colour=none)", ("grid", DOT, 2, "none", ())),
        ("grid(red)", ("grid", DOT, 2, "red", ())),
        ("grid(dot, places=((0, 1), (-1, 0.5)))", ("grid", DOT, 2, "red", ((0, 1), (-1, 0.5)))),
        ("grid(dot, places=[[0, 1], []])", ("grid", DOT, 2, "red", ((0, 1), ()))),
        ("grid(dot, places=(dot, other))", ("grid", DOT, 2, "red", (DOT, "other"))),
        ("grid(\n  dot,\n  colour=größe-1,\n)", ("grid", DOT, 2, "größe-1", ())),
        ("heap(dot, 1, far-away=round-dot)", ("heap", (DOT, 1), {"far_away": ("round_dot", 1.0, False)})),
    ],
)
def test_what_is_read(text, expected):
    found = shape(text)
    assert found == expected and repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dit", "unknown shape 'dit'; did you mean 'dot'?"),
        ("round-dat", "unknown shape 'round-dat'; did you mean 'round-dot'?"),
        ("round_dat(1)", "unknown shape 'round-dat'; did you mean 'round-dot'?"),
        ("grid(round-dat())", "unknown shape 'round-dat'; did you mean 'round-dot'?"),
        ("zzz", "unknown shape 'zzz'; known: broken, dot, grid, heap, red, round-dot"),
        ("dot(1)", "shape 'dot' takes no arguments"),
        ("dot(size=1)", "shape 'dot' takes no arguments"),
        ("round-dot(sise=1)", "unknown argument of shape 'round-dot': 'sise'; did you mean 'size'?"),
        ("grid(dot, x=1)", "unknown argument of shape 'grid': 'x'; known: colour, dot, places, rows"),
        (
            "grid",
            "shape 'grid' needs dot; its arguments are (dot, rows=2, *, colour='red', places=())",
        ),
        (
            "round-dot(1, True, 3)",
            "shape 'round-dot' takes 2 arguments by position, not 3; its arguments are (size=1.0, filled=False)",
        ),
        (
            "round-dot(1, size=2)",
            "shape 'round-dot' is given size twice",
        ),
        ("round-dot(size=1, size=2)", "shape 'round-dot' is given size twice"),
        ("round-dot(1e400)", "a number must be finite, not 1e400 in the shape 'round-dot(1e400)'"),
        ("round-dot(-1e400)", "a number must be finite, not -1e400 in the shape 'round-dot(-1e400)'"),
        ("broken(size=blue)", "shape 'broken' cannot be made of 'broken(size=blue)': "),
        (
            "round-dot(a.b)",
            "cannot read 'a.b' in the shape 'round-dot(a.b)'; "
            "write a name, or a name with its arguments, such as round-dot(size=1.0)",
        ),
        (
            "round-dot(size=1",
            "cannot read the shape 'round-dot(size=1'; "
            "write a name, or a name with its arguments, such as round-dot(size=1.0)",
        ),
        ("", "cannot read the shape ''; write a name, or a name with its arguments, such as round-dot(size=1.0)"),
    ],
)
def test_errors_say_what_would_be_right(text, message):
    with pytest.raises(UntwineError) as caught:
        shape(text)
    assert str(caught.value).startswith(message)


NASTY = [
    "__import__('os')",
    "__import__('os').system('true')",
    "grid(__import__('os'))",
    "a.b",
    "dot.__class__",
    "grid(dot.size)",
    "().__class__.__bases__[0]",
    "x; y",
    "dot; dot",
    "import os",
    "dot\ndot",
    "1",
    "-1",
    "1e400",
    "'dot'",
    "(dot,)",
    "[dot]",
    "{'dot': 1}",
    "lambda: 0",
    "dot if dot else dot",
    "dot or dot",
    "dot + dot",
    "dot - 1",
    "dot--dot",
    "not dot",
    "(x := dot)",
    "round-dot(x := 1)",
    "round-dot(*[1])",
    "round-dot(**{})",
    "heap(**x)",
    "heap(*x)",
    "round-dot(1 + 1)",
    "round-dot(9**9**9)",
    "round-dot(--1)",
    "round-dot(-True)",
    "round-dot(~1)",
    "round-dot(1j)",
    "round-dot(b'x')",
    "round-dot(...)",
    "round-dot(f'{1}')",
    "round-dot([x for x in y])",
    "round-dot({1: 2})",
    "round-dot({1})",
    "round-dot(x[0])",
    "round-dot(lambda: 0)",
    "round-dot(await x)",
    "round-dot(1)(2)",
    "round-dot(round-dot(1)(2))",
    "dot\0",
    "d\ud800t",
    "#",
    "dot)",
    "'",
    "round-dot('\\N{no such name}')",
    "9" * 5_000,
    "round-dot(" + "9" * 5_000 + ")",
    "(" * 9_000,
    "[" * 150 + "]" * 150,
    "grid(" * 4_000,
    "grid(" * 90 + "dot" + ")" * 90,
    "grid(" * 30 + "dot" + ")" * 30,
    "grid(" + "(" * 30 + "1," + "),)" * 30,
    "round-dot(" + "-" * 9_000 + "1)",
    "not " * 2_400 + "dot",
    "dot" + ".x" * 4_000,
    "x" * 9_000,
    "x" * 10_001,
    "grid(" * 100_000 + ")" * 100_000,
]


@pytest.mark.parametrize("text", NASTY, ids=lambda text: ascii(text[:30]))
def test_nothing_else_is_read(text):
    with pytest.raises(UntwineError) as caught:
        shape(text)
    assert len(str(caught.value)) < 400  # the whole text is not poured out


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=40), st.text("grid(dot,-=1.'\"[]) \n\\e*_", max_size=40)))
@example("grid(dot, '\\d')")
def test_any_text_is_read_or_refused_in_words(text):
    with contextlib.suppress(UntwineError):
        found = shape(text)
        assert found == DOT or isinstance(found, tuple)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.one_of(st.booleans(), st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
        lambda inner: st.lists(inner, max_size=4).map(tuple),
        max_leaves=8,
    )
)
def test_values_come_back_as_python_writes_them(value):
    found = shape(f"grid({value!r})")[1]
    assert found == value and type(found) is type(value)
    if isinstance(value, float):
        assert math.copysign(1, found) == math.copysign(1, value)


def test_an_example_is_made_of_the_table():
    for table, shown in (({}, "name(argument=1.0)"), ({"far_away": DOT}, "far-away"), (TABLE, "round-dot(size=1.0)")):
        with pytest.raises(UntwineError, match=r"cannot read the shape '1'") as caught:
            read("shape", "1", table)
        assert str(caught.value).endswith(f"such as {shown}")


def test_a_method_and_a_class_are_makers_too():
    table = {"fraction": complex, "upper": "abc".upper}
    assert read("number", "fraction(1, 2)", table) == 1 + 2j
    assert read("number", "upper", table) == "ABC"
    assert inspect.signature(complex)  # else this test has no object


def test_naming_needs_no_torch():
    code = "import sys, untwine.naming; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
