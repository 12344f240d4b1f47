"""The table of examples: what is computed before the first step, and what is kept after it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import StopAt, same, tiny

import untwine as uw
from untwine.data.contract import Unlabelled
from untwine.train.steps import table
from untwine.train.steps.pack import Pack, batches
from untwine.train.steps.table import Kept, Table

CPU = torch.device("cpu")


class Numbered(Unlabelled):
    """Images of one grey each, which tells their number; remembers which of them were computed."""

    def __init__(self, length: int) -> None:
        super().__init__((1, 4, 4), length, None)
        self.computed: list[int] = []

    def _batch(self, indices: np.ndarray) -> np.ndarray:
        self.computed += indices.tolist()
        return np.tile((indices % 251).astype(np.uint8)[:, None, None, None], (1, *self.shape))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a small dataset counts as a large one."""
    monkeypatch.setattr(table, "_AT_ONCE", 0)


def test_every_example_is_computed_once_and_only_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    data, numbers = Numbered(2_000_000), np.random.default_rng(0).integers(0, 50, (40, 16))
    assert data.nbytes > table._AT_ONCE
    monkeypatch.setattr(table, "_room", lambda device: data.nbytes)  # on any machine
    examples = Table(data, CPU)
    assert examples.rows is None and not data.computed
    for batch in numbers:
        before = set(data.computed)
        x = examples(torch.from_numpy(batch).unflatten(0, (2, 8)))
        assert x.shape == (2, 8, 1, 4, 4) and torch.equal(
            x.flatten(0, 1)[:, 0, 1, 2] * 255, torch.tensor(batch).float()
        )
        assert set(data.computed) - before == set(batch.tolist()) - before
    assert len(data.computed) == len(set(data.computed)) == len(np.unique(numbers))
    assert not data.in_memory


def test_examples_that_are_kept_are_copies_in_the_order_of_the_request() -> None:
    kept = Kept(Numbered(9))
    first = kept(np.array([8, 2, 8]))
    first[:] = 77
    assert kept(np.array([2, 0, 8, 8]))[:, 0, 0, 0].tolist() == [2, 0, 8, 8]
    assert kept(np.array([], np.int64)).shape == (0, 1, 4, 4)


def test_a_run_draws_only_what_its_steps_need(monkeypatch: pytest.MonkeyPatch) -> None:
    data, drawn = uw.datasets.three_dots(), []
    original = type(data)._observe
    monkeypatch.setattr(type(data), "_observe", lambda self, f: drawn.append(len(f)) or original(self, f))
    network = uw.networks.mlp(hidden=(2,))
    options = {"method": "beta_vae", "dataset": data, "network": network, "latents": 2, "steps": 10_000}
    with pytest.raises(RuntimeError, match="power"):
        uw.fit(uw.Run(**options, batch_size=64, seeds=[0, 1]), progress=StopAt(3))
    assert sum(drawn) <= 256 + 8 + 3 * 2 * 64  # those of the dry run, and a batch for each step and member
    assert not data.in_memory


DATA = {
    "drawn": lambda: uw.datasets.three_dots(size=8, examples=60),
    "computed": lambda: Numbered(60),
    "vectors": lambda: uw.datasets.synthetic_nonlinear(samples=60, seed=3),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("sampling", ["iid", "epochs"])
@pytest.mark.usefixtures("few")
def test_batches_are_the_same_however_examples_are_had(name: str, sampling: str) -> None:
    run = tiny(dataset=DATA[name](), sampling=sampling, seeds=[0, 4])
    pack = Pack(run.members(), run.info(), CPU)
    ways = [Table(run.make_dataset(), CPU, resident) for resident in (None, False, True)]
    assert [way.rows is None for way in ways] == [True, True, False]
    for inputs in zip(*(batches(pack, way, 16, sampling)(0, 70) for way in ways), strict=True):
        assert torch.equal(inputs[0].x, inputs[1].x) and torch.equal(inputs[0].x, inputs[2].x)


@pytest.mark.parametrize("name", ["drawn", "computed"])
@pytest.mark.usefixtures("few")
def test_weights_are_bitwise_the_same_resumed_or_not(name: str, tmp_path: Path) -> None:
    runs = [tiny(dataset=DATA[name](), seeds=[0, 4], steps=10) for _ in range(2)]
    with pytest.raises(RuntimeError, match="power"):
        uw.fit(runs[0], tmp_path, checkpoint_seconds=0, progress=StopAt(5))
    assert same(uw.fit(runs[0], tmp_path), uw.fit(runs[1], resident=True))


@pytest.mark.usefixtures("few")
def test_what_is_in_memory_stays_where_it_is() -> None:
    array = np.random.default_rng(0).integers(0, 256, (9, 1, 4, 4), np.uint8)
    data = uw.datasets.images(array)
    rows = Table(data, CPU).rows
    assert data.in_memory and rows is not None and rows.data_ptr() == data.examples().ctypes.data
    dots = uw.datasets.three_dots(size=8, examples=60)
    assert not dots.in_memory and Table(dots, CPU).rows is None
    computed = dots.examples()
    rows = Table(dots, CPU).rows
    assert dots.in_memory and rows is not None and rows.data_ptr() == computed.ctypes.data


def test_few_examples_are_computed_at_once() -> None:
    rows = Table(uw.datasets.synthetic_linear(), CPU).rows
    assert rows is not None and len(rows) == 50_000


def test_a_table_that_has_no_room_or_no_use_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Numbered(2_000_000)
    monkeypatch.setattr(table, "_room", lambda device: data.nbytes - 1)
    crowded = Table(data, CPU)
    monkeypatch.setattr(table, "_room", lambda device: data.nbytes)
    for examples in (crowded, Table(data, CPU, uses=len(data) - 1), Table(data, CPU, resident=False)):
        data.computed.clear()
        for _ in range(2):
            examples(torch.tensor([5, 6]))
        assert examples.rows is None and data.computed == [5, 6, 5, 6]
