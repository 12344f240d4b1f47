"""Parts: their JSON form, their leaves, and what a file cannot make them do."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch

from untwine import parts, trees
from untwine.errors import UntwineError
from untwine.parts import Each, each, from_json, leaves, number, part, rebuild, resolve, structure, to_json


@part
class Paint:
    """A part of this test alone."""

    depth: float | Each = 1.0
    coats: int = 2
    name: str = "red"
    glossy: bool = False
    under: Any = None


@part
class Wall:
    paints: Any
    side: float = 0.5

    def __post_init__(self) -> None:
        if isinstance(self.side, float) and self.side < 0:
            raise UntwineError("a side is positive")


WALL = Wall(
    {"inner": Paint(each(1, 2, 3), 4), "outer": (Paint(0.25), Paint(under=Paint(7.0, glossy=True)))}, side=0.125
)


def is_number(value: Any) -> bool:
    return isinstance(value, float | Each)


def there_and_back(value: Any) -> Any:
    return from_json(json.loads(json.dumps(to_json(value))))


# --- being a part -----------------------------------------------------------------------------------


def test_a_part_is_frozen_and_compares_by_value():
    assert Paint(2.0) == Paint(2.0) != Paint(3.0)
    assert parts.is_part(Paint()) and not parts.is_part(Paint) and not parts.is_part(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Paint().depth = 2.0  # type: ignore[misc]


def test_a_name_belongs_to_one_module():
    other = type("Paint", (), {"__module__": "elsewhere", "__annotations__": {}})
    with pytest.raises(UntwineError, match="a part named 'Paint' exists already"):
        part(other)
    again = type("Paint", (), {"__module__": Paint.__module__, "__annotations__": {}})
    try:  # a module that is run again may define its parts again
        assert parts.is_part(part(again)())
    finally:
        trees.classes["Paint"] = Paint


# --- JSON -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        Paint(),
        Paint(0.1 + 0.2, -3, "blue", True),
        Paint(each(1.5)),
        WALL,
        {"a": 1, "b": [1.0, None, "x"], "c": {"d": False}},
        (1, (2.0, "three")),
        1e-300,
    ],
)
def test_round_trip(value):
    def tuples(item: Any) -> Any:  # a list comes back as a tuple
        if isinstance(item, dict):
            return {key: tuples(inner) for key, inner in item.items()}
        return tuple(tuples(inner) for inner in item) if isinstance(item, list | tuple) else item

    assert there_and_back(value) == tuples(value)
    assert to_json(there_and_back(value)) == to_json(value)


def test_the_form_in_a_file():
    assert to_json(Paint(each(1, 2), under=(1.0, 2))) == {
        "part": "Paint",
        "depth": {"each": [1.0, 2.0]},
        "coats": 2,
        "name": "red",
        "glossy": False,
        "under": [1.0, 2],
    }
    assert from_json({"part": "Paint"}) == Paint()


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", np.zeros(2), torch.zeros(2), Paint, len])
def test_what_has_no_json_form_is_refused(value):
    for whole in (value, [value], {"key": value}, Paint(under=value)):
        with pytest.raises(UntwineError, match="has no JSON form"):
            to_json(whole)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"part": "Pain"}, "unknown part 'Pain'; did you mean 'Paint'"),
        ({"part": "os.system"}, "unknown part 'os.system'; known: "),
        ({"part": "Paint", "dept": 1.0}, "unknown argument of part 'Paint': 'dept'; did you mean 'depth'"),
        ({"part": "Paint", "__class__": 1.0}, "unknown argument of part 'Paint': '__class__'"),
        ({"part": "Wall"}, "part 'Wall' needs paints"),
        ({"part": "Wall", "paints": [], "side": -1.0}, "a side is positive"),
        ({"part": 3}, "unknown part '3'"),
        ([[{"deep": {"part": "Pain"}}]], "did you mean 'Paint'"),
    ],
)
def test_wrong_json_is_refused_with_what_would_be_right(value, message):
    with pytest.raises(UntwineError, match=message):
        from_json(value)


@pytest.mark.parametrize("value", [{"part": ["Paint"]}, {"part": {}}, {"each": ["x"]}, {"each": None}, {"each": 1.0}])
def test_json_of_the_wrong_type_is_refused_too(value):
    with pytest.raises(UntwineError):
        from_json(value)


def test_nothing_is_imported_for_a_name(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("trap", "trap.Paint", "trap:Paint"):
        with pytest.raises(UntwineError, match="unknown part"):
            from_json({"part": name})


# --- numbers that differ by member ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3, 3.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (torch.tensor(2.5), 2.5),
        ([1, 2], each(1.0, 2.0)),
        ((1,), each(1.0)),
        (np.array([1.0, 3.0]), each(1, 3)),
        (torch.tensor([1.0, 3.0]), each(1, 3)),
        (each(5), each(5)),
    ],
)
def test_number(given, expected):
    made = number(given)
    assert made == expected and type(made) is type(expected)


@pytest.mark.parametrize("given", ["three", None, object(), ["a"]])
def test_what_is_no_number(given):
    with pytest.raises(UntwineError, match="a number was expected"):
        number(given)


def test_resolve_picks_one_member():
    spec = to_json(WALL)
    for member, depth in enumerate((1.0, 2.0, 3.0)):
        own = from_json(resolve(spec, member))
        assert own == Wall({"inner": Paint(depth, 4), "outer": WALL.paints["outer"]}, side=0.125)
    assert spec == to_json(WALL)  # not changed
    with pytest.raises(UntwineError, match=r"3 values \[1.0, 2.0, 3.0\] .* member number 4"):
        resolve(spec, 3)
    assert resolve([{"each": [1.0, 2.0]}, {"a": [{"each": [3.0, 4.0]}]}, "x"], 1) == [2.0, {"a": [4.0]}, "x"]


def test_structure_is_blind_to_numbers_only():
    base = structure(to_json(Paint(1.0)))
    for same in (Paint(2.0), Paint(each(1, 2, 3))):
        assert structure(to_json(same)) == base
    for other in (Paint(1.0, coats=3), Paint(1.0, name="blue"), Paint(1.0, glossy=True), Paint(1.0, under=Paint())):
        assert structure(to_json(other)) != base
    assert structure({"a": 1.0, "b": [2.0, 3, True, None, "x"]}) == {"a": None, "b": [None, 3, True, None, "x"]}
    # A run's spec is resolved for each member before its structure is compared: it must not matter when.
    spec = to_json(WALL)
    assert structure(resolve(spec, 0)) == structure(resolve(spec, 2)) == structure(spec)


# --- leaves -----------------------------------------------------------------------------------------


def test_leaves_come_in_the_order_of_fields():
    assert list(leaves(WALL, is_number)) == [each(1, 2, 3), 0.25, 1.0, 7.0, 0.125]
    assert list(leaves(Paint(), lambda value: isinstance(value, str))) == ["red"]
    assert list(leaves(3, is_number)) == [] and list(leaves(3.0, is_number)) == [3.0]


def test_rebuild_puts_new_leaves_where_the_old_ones_were():
    assert rebuild(WALL, is_number, leaves(WALL, is_number)) == WALL
    made = rebuild(WALL, is_number, iter("abcde"))
    assert list(leaves(made, lambda value: isinstance(value, str) and len(value) == 1)) == list("abcde")
    inner = made.paints["outer"][1].under
    assert (inner.depth, inner.coats, inner.name, inner.glossy, inner.under) == ("d", 2, "red", True, None)
    assert made.paints["inner"].coats == 4
    tensors = [torch.tensor(float(i)) for i in range(5)]
    assert list(leaves(rebuild(WALL, is_number, iter(tensors)), torch.is_tensor)) == tensors
    assert rebuild(Wall({}), is_number, iter([-1.0])).side == -1.0  # the trainer's numbers are not checked again
