"""What every dataset must keep to. A new one needs a line in the table, and gets these tests for free."""

from __future__ import annotations

import ast
import inspect
import json
import random
import typing
from pathlib import Path

import numpy as np
import pytest

import untwine.data.families.registered
import untwine.datasets
from untwine.data import Dataset, FactorSpace, build
from untwine.data.specs import public_of
from untwine.errors import UntwineError

# Arguments for forty small examples of each dataset; those whose examples are a whole grid have 64, or 2^6.
TABLE: dict[str, dict[str, typing.Any]] = {
    "three_dots": {"size": 16, "positions": 8, "examples": 40},
    "synthetic_linear": {"samples": 40, "levels": 9},
    "synthetic_nonlinear": {"samples": 40, "levels": 9},
    "pinwheel": {"points": 10},
    "xy_squares": {"spacing": 3, "size": 16, "square": 4, "positions": 2},
    "tiled": {"dataset": {"name": "xy_squares", "size": 16, "square": 4, "spacing": 3, "positions": 4}, "examples": 40},
    "split": {"dataset": {"name": "three_dots", "size": 16, "positions": 8, "examples": 50}},
    "images": {"source": (np.arange(40 * 64).reshape(40, 8, 8) % 251).astype(np.uint8)},
}
# Those of public files, tiny ones, by their writers: their arguments and lengths come from there.
PUBLIC = sorted(file.stem for file in (Path(__file__).parents[1] / "public").glob("*.py"))
LENGTHS = {"xy_squares": 64}
# The truth of these is continuous: an example lies near a state of the grid, not on it.
CONTINUOUS = {"synthetic_linear", "synthetic_nonlinear", "pinwheel"}
# Their examples are all states, each once, in the order of their numbers.
WHOLE_GRIDS = {"cars3d", "dsprites", "mpi3d", "shapes3d", "smallnorb", "xy_squares"}
# Several examples have the same factors.
MANY_LOOKS = {"mnist", "fashion_mnist"}
# They show some of the states, each in one look.
PARTS = {"split"}
# These cannot be made from their spec in this table: their data is an array in memory.
FROM_ARRAYS = {"images"}

NAMES = untwine.datasets.names()
SEEDED = [name for name in NAMES if "seed" in inspect.signature(untwine.datasets.get(name)).parameters]


@pytest.fixture(scope="module", autouse=True)
def tiny_files(tmp_path_factory: pytest.TempPathFactory, public_writer: typing.Callable[[str], typing.Any]):
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNTWINE_DATA", str(folder))
        patch.setenv("UNTWINE_OFFLINE", "1")
        for name in PUBLIC:
            writer = public_writer(name)
            writer.publish(folder, patch)
            TABLE[name], LENGTHS[name] = writer.ARGUMENTS, writer.LENGTH
        yield


def make(name: str, **more: typing.Any) -> Dataset:
    return untwine.datasets.get(name)(**{**TABLE[name], **more})


def labelled(name: str) -> Dataset:
    data = make(name)
    if data.factors is None:
        pytest.skip(f"{name} has no factors")
    return data


def test_the_table_is_complete():
    assert not set(NAMES) ^ set(TABLE)
    assert not (CONTINUOUS | FROM_ARRAYS | WHOLE_GRIDS | MANY_LOOKS | PARTS) - set(NAMES)
    assert set(PUBLIC) == {name for name in NAMES if public_of(untwine.datasets.get(name)) is not None}
    assert SEEDED


@pytest.mark.parametrize("name", NAMES)
def test_it_is_in_the_public_namespace(name):
    assert getattr(untwine.datasets, name) is untwine.datasets.get(name)
    assert untwine.datasets.get(name.replace("_", "-")) is untwine.datasets.get(name)
    hints = typing.get_type_hints(untwine.datasets.get(name))
    assert set(inspect.signature(untwine.datasets.get(name)).parameters) <= set(hints)
    assert untwine.datasets.get(name).__doc__


@pytest.mark.parametrize("name", NAMES)
def test_shape_and_type_of_batches(name):
    data = make(name)
    assert len(data) == LENGTHS.get(name, 40)
    batch = data.batch(np.array([3, 0, 3]))
    assert batch.shape == (3, *data.shape) and np.array_equal(batch[0], batch[2])
    assert len(data.shape) in (1, 3)
    assert batch.dtype == data.dtype == (np.uint8 if len(data.shape) == 3 else np.float32)
    assert data.batch(np.array([], dtype=np.int64)).shape == (0, *data.shape)
    assert np.isfinite(data.examples()).all() and len(np.unique(data.examples(), axis=0)) > 20


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_the_batches(name):
    data = make(name)
    table = data.examples()
    assert np.array_equal(table, np.concatenate([data.batch([index]) for index in range(len(data))]))
    assert table is data.examples() and table.nbytes == data.nbytes


@pytest.mark.parametrize("name", NAMES)
def test_observing_the_factors_of_an_example_gives_the_example(name):
    data = labelled(name)
    assert isinstance(data.factors, FactorSpace)
    indices = np.arange(len(data))
    factors = data.factors_of(indices)
    assert factors.dtype == np.int64 and factors.shape == (len(data), len(data.factors))
    data.factors.check(factors)
    if name in WHOLE_GRIDS:
        assert np.array_equal(data.factors.index(factors), np.arange(data.factors.states))
    assert data.complete == (name not in MANY_LOOKS | PARTS)
    seen, examples = data.observe(factors), data.batch(indices)
    assert seen.shape == examples.shape and seen.dtype == examples.dtype
    if name in CONTINUOUS:
        # Nearer to its own state than the examples are to each other.
        spread = np.linalg.norm(examples - examples[::-1], axis=1).mean()
        assert np.linalg.norm(seen - examples, axis=1).mean() < 0.3 * spread
    elif name in MANY_LOOKS:
        first = [np.flatnonzero((factors == row).all(1))[0] for row in factors]
        assert np.array_equal(seen, examples[first])
    else:
        assert np.array_equal(seen, examples)


@pytest.mark.parametrize("name", NAMES)
def test_every_factor_can_be_seen(name):
    data = labelled(name)
    middle = np.array([[size // 2 for size in data.factors.sizes]])
    for column in range(len(data.factors)):
        moved = middle.copy()
        moved[0, column] = 0
        assert not np.array_equal(data.observe(middle), data.observe(moved)), data.factors.names[column]


@pytest.mark.parametrize("name", NAMES)
def test_its_spec_is_json_and_makes_it_again(name):
    data = make(name)
    spec = json.loads(json.dumps(data.spec))
    assert spec == data.spec and spec["name"] == name
    function = untwine.datasets.get(name)
    # Arguments that were added after runs were stored are left out at their defaults.
    assert list(spec)[1:] == [key for key in inspect.signature(function).parameters if key not in function.added]
    if name in FROM_ARRAYS:
        with pytest.raises(UntwineError, match="pass the array again"):
            build(spec)
        return
    again = build(spec)
    assert again.spec == data.spec and again.shape == data.shape and again.factors == data.factors
    assert np.array_equal(again.examples(), data.examples())


@pytest.mark.parametrize("name", SEEDED)
def test_the_seed_decides_the_examples(name):
    assert np.array_equal(make(name, seed=1).examples(), make(name, seed=1).examples())
    assert not np.array_equal(make(name, seed=1).examples(), make(name, seed=2).examples())


@pytest.mark.parametrize("name", NAMES)
def test_global_random_numbers_are_neither_used_nor_disturbed(name, monkeypatch):
    expected = make(name).examples()
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the old interface is what must not be used

    def poisoned(*args: object, **kwargs: object) -> typing.NoReturn:
        raise AssertionError("a random generator with state was used")

    # Not random.getrandbits: beartype chooses by it which elements of a container it checks.
    for module, function in (
        (np.random, "default_rng"),
        (np.random, "rand"),
        (np.random, "random"),
        (np.random, "randint"),
        (np.random, "normal"),
        (np.random, "uniform"),
        (np.random, "permutation"),
        (np.random, "choice"),
        (random, "random"),
        (random, "randint"),
        (random, "shuffle"),
    ):
        monkeypatch.setattr(module, function, poisoned)
    data = make(name)
    assert np.array_equal(data.examples(), expected)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("name", NAMES)
def test_errors(name):
    data = make(name)
    for indices in ([-1], [len(data)], [0.5]):
        with pytest.raises(UntwineError):
            data.batch(indices)
    with pytest.raises(UntwineError, match="unknown argument"):
        make(name, no_such_argument=1)
    if data.factors is None:
        with pytest.raises(UntwineError, match="no factors"):
            data.observe([[0]])
        with pytest.raises(UntwineError, match="no factors"):
            data.factors_of([0])
    else:
        with pytest.raises(UntwineError, match=data.factors.names[0]):
            data.observe([data.factors.sizes])
        with pytest.raises(UntwineError, match=r"must be \[n,"):
            data.observe([[0] * (len(data.factors) + 1)])


def test_a_misspelt_name_gets_a_suggestion():
    with pytest.raises(UntwineError, match="did you mean 'three_dots'"):
        untwine.datasets.get("three_dotz")
    with pytest.raises(AttributeError, match="unknown dataset 'three_dotz'; did you mean 'three_dots'"):
        _ = untwine.datasets.three_dotz


def test_every_dataset_of_a_family_is_listed():
    """A new dataset is a function in a file of `families`, and a line in `registered`."""
    families = Path(untwine.data.families.__file__).parent
    decorated = {
        node.name
        for file in families.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and any("dataset" in ast.unparse(line) for line in node.decorator_list)
    }
    listed = {name for name, value in vars(untwine.data.families.registered).items() if inspect.isfunction(value)}
    assert decorated == listed == set(NAMES)


def test_the_namespace_offers_datasets_alone(monkeypatch):
    assert dir(untwine.datasets) == sorted([*NAMES, "get", "names"])
    monkeypatch.setattr(untwine.data.datasets, "_entries", dict(untwine.data.datasets._entries))

    @untwine.data.dataset
    def of_my_own(length: int = 3) -> Dataset:
        """Dots."""
        return untwine.datasets.three_dots(examples=length)

    assert "of_my_own" in dir(untwine.datasets) and untwine.datasets.of_my_own is of_my_own
    assert len(untwine.datasets.of_my_own(5)) == 5
    with pytest.raises(UntwineError, match="unknown argument of dataset 'of_my_own': 'lenght'; did you mean 'length'"):
        of_my_own(lenght=5)
