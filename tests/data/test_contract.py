"""The base class, the decorator, and specs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import typing

import numpy as np
import pytest

import untwine.datasets
from untwine.data import Dataset, build, dataset, datasets, full_spec
from untwine.data.contract import Unlabelled
from untwine.data.specs import fingerprint
from untwine.errors import UntwineError


class Counting(Unlabelled):
    """Vectors that hold their own index; records the size of every batch."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__((width,), length, None)
        self.calls: list[int] = []

    def _batch(self, indices: np.ndarray) -> np.ndarray:
        self.calls.append(len(indices))
        return np.repeat(indices[:, None], self.shape[0], axis=1).astype(np.float32)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch):
    """Registers a dataset for one test only."""
    monkeypatch.setattr(datasets, "_entries", dict(datasets._entries))

    @dataset
    def counting(length: int = 10, width: int = 2, scale: float = 1.0, table: np.ndarray | None = None) -> Counting:
        """Counts."""
        return Counting(length, width)

    return counting


def test_the_spec_holds_every_argument_in_its_promised_type(registered):
    assert registered(7).spec == {"name": "counting", "length": 7, "width": 2, "scale": 1.0, "table": None}
    spec = registered(np.int64(7), scale=2).spec
    assert type(spec["length"]) is int and type(spec["scale"]) is float
    assert json.loads(json.dumps(spec)) == spec
    assert build(spec).spec == spec
    assert repr(registered(7)) == "counting(length=7, width=2, scale=1.0, table=None)"


def test_build_fills_in_defaults_and_accepts_hyphens(registered):
    assert build({"name": "counting"}).spec == registered().spec
    assert build({"name": "three-dots", "examples": 3}).spec["name"] == "three_dots"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "three_dot"}, "unknown dataset 'three_dot'; did you mean 'three_dots'"),
        ({"name": "three_dots", "radus": 0.1}, "'radus'; did you mean 'radius'"),
        ({"name": "three_dots", "size": "64"}, "size of dataset 'three_dots' must be a whole number, not '64'"),
        ({"name": "three_dots", "size": 64.0}, "must be a whole number, not 64"),
        ({"name": "three_dots", "size": True}, "must be a whole number, not True"),
        ({"name": "images"}, "'images' needs source"),
        ({}, "needs a name"),
        ({"name": 3}, "needs a name"),
    ],
)
def test_build_is_strict(spec, message):
    with pytest.raises(UntwineError, match=message):
        build(spec)


def test_a_full_spec_is_checked_without_building_the_dataset(registered):
    assert full_spec({"name": "counting", "scale": 2}) == registered(scale=2).spec
    spec = registered(table=np.arange(3)).spec
    assert full_spec(spec) == spec  # the hash of an array stays as it is
    with pytest.raises(UntwineError, match="width of dataset 'counting' must be a whole number, not 'two'"):
        full_spec({"name": "counting", "width": "two"})
    with pytest.raises(UntwineError, match="scale of dataset 'counting' must be finite"):
        full_spec({"name": "counting", "scale": np.inf})


def test_an_unknown_dataset_of_a_spec_may_be_the_users_own():
    for use in (build, full_spec):
        with pytest.raises(UntwineError, match="If 'theirs' is your own, import the module that defines it first"):
            use({"name": "theirs"})


def test_misspelt_arguments_get_a_suggestion_in_python_too():
    with pytest.raises(UntwineError, match="did you mean 'examples'"):
        untwine.datasets.three_dots(exmples=3)


def test_a_spec_never_holds_an_array(registered):
    array = np.arange(6, dtype=np.float32)
    spec = registered(table=array).spec
    assert spec["table"] == {"array": fingerprint(array), "dtype": "float32", "shape": [6]}
    assert json.loads(json.dumps(spec)) == spec
    with pytest.raises(UntwineError, match="pass the array again as 'table'"):
        build(spec)


def test_fingerprints_depend_on_type_shape_and_bytes():
    array = np.arange(6, dtype=np.int32)
    assert fingerprint(array) == fingerprint(array.copy()) == fingerprint(np.arange(12, dtype=np.int32)[:6])
    others = [array.view(np.uint32), array.reshape(2, 3), array + 1]
    assert len({fingerprint(other) for other in [array, *others]}) == 4
    assert fingerprint(array.reshape(2, 3).T) == fingerprint(np.ascontiguousarray(array.reshape(2, 3).T))


def test_the_decorator_keeps_the_signature():
    signature = inspect.signature(untwine.datasets.three_dots)
    assert list(signature.parameters) == ["size", "dots", "positions", "radius", "examples", "seed", "style"]
    assert typing.get_type_hints(untwine.datasets.three_dots)["radius"] is float
    assert untwine.datasets.three_dots.__doc__.startswith("Identical black dots")


def test_examples_are_built_in_chunks_and_kept(monkeypatch):
    monkeypatch.setattr(sys.modules["untwine.data.contract"], "_CHUNK_BYTES", 64)
    data = Counting(21, 2)
    assert data.nbytes == 21 * 2 * 4 and data.dtype == np.float32
    table = data.examples()
    assert data.calls == [8, 8, 5]
    assert table.nbytes == data.nbytes and np.array_equal(table[:, 0], np.arange(21))
    assert data.examples() is table and data.calls == [8, 8, 5]


@pytest.mark.parametrize("indices", [[-1], [10], [0, 10], [0.5], [[0]]])
def test_examples_that_do_not_exist_are_refused(registered, indices):
    with pytest.raises(UntwineError, match=r"there is no example|must be int64 \[n\]"):
        registered().batch(indices)
    assert registered().batch([]).shape == (0, 2)


def test_unlabelled_data_says_so(registered):
    assert registered().factors is None
    with pytest.raises(UntwineError, match="'counting' has no factors"):
        registered().factors_of([0])
    with pytest.raises(UntwineError, match="'counting' has no factors to observe"):
        registered().observe([[0]])


def test_a_dataset_cannot_be_made_without_its_parts():
    with pytest.raises(TypeError, match="abstract"):
        Dataset((3,), 10, None)


def test_arguments_that_are_not_json_are_refused(registered, monkeypatch):
    @dataset
    def anything(value: typing.Any) -> Counting:
        return Counting(1, 1)

    assert anything([1, (2.0, "a")]).spec["value"] == [1, [2.0, "a"]]
    with pytest.raises(UntwineError, match="not set"):
        anything({1})


def test_importing_datasets_pulls_in_neither_torch_nor_pillow():
    code = "import sys, untwine.datasets; print([m for m in ('torch', 'PIL', 'matplotlib') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
