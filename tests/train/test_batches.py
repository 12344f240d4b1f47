"""Batches: a function of seed and step alone; iid or by epochs; on the device or streamed."""

import numpy as np
import pytest
import torch
from helpers import tiny

import untwine as uw
from untwine.train.steps.batches import Batches
from untwine.train.steps.table import Table

CPU = torch.device("cpu")


def batches(run: uw.Run, resident: bool = True) -> Batches:
    table = Table(run.make_dataset(), CPU, resident)
    needs = uw.Needs({"term/columns": ("uniform", (3,))})
    return Batches(table, run.members(), run.info(), needs, run.batch_size, run.sampling)


@pytest.mark.parametrize("sampling", ["iid", "epochs"])
def test_any_step_can_be_had_by_itself(sampling: str) -> None:
    made = batches(tiny(seeds=[0, 5], sampling=sampling))
    one_by_one = [next(iter(made(step, step + 1))) for step in range(70)]
    for step, inputs in enumerate(made(0, 70)):
        assert inputs.step == step
        assert torch.equal(inputs.x, one_by_one[step].x)
        assert inputs.noise.keys() == {"posterior", "term/columns"}
        for name, values in inputs.noise.items():
            assert torch.equal(values, one_by_one[step].noise[name])
            assert values.shape[:2] == inputs.x.shape[:2]


@pytest.mark.parametrize("sampling", ["iid", "epochs"])
def test_streamed_data_are_the_same(sampling: str) -> None:
    run = tiny(seeds=[0, 1], sampling=sampling)
    for a, b in zip(batches(run)(0, 25), batches(run, resident=False)(0, 25), strict=True):
        assert torch.equal(a.x, b.x)


def test_an_epoch_shows_every_example_once_and_its_last_batch_is_short() -> None:
    run = tiny(seeds=[0, 1], sampling="epochs", batch_size=64)  # 300 = 4 * 64 + 44
    made = batches(run)
    numbers = made.numbers(torch.arange(10))
    assert [n.shape[1] for n in numbers] == [64, 64, 64, 64, 44] * 2
    for epoch in (numbers[:5], numbers[5:]):
        for member in range(2):
            assert sorted(torch.cat([n[member] for n in epoch]).tolist()) == list(range(300))
    assert not torch.equal(numbers[0], numbers[5])  # reshuffled
    assert not torch.equal(numbers[0][0], numbers[0][1])  # a member's own order


def test_iid_batches_are_uniform_with_replacement() -> None:
    made = batches(tiny(batch_size=300))
    drawn = torch.cat([n.flatten() for n in made.numbers(torch.arange(200))]).numpy()
    counts = np.bincount(drawn, minlength=300)
    chi2 = ((counts - 200) ** 2 / 200).sum()
    assert 300 - 5 * (2 * 300) ** 0.5 < chi2 < 300 + 5 * (2 * 300) ** 0.5
    assert len(set(made.numbers(torch.arange(1))[0][0].tolist())) < 300  # some repeat


def test_initialisation_and_data_have_their_own_seeds() -> None:
    a, b = (next(iter(batches(tiny(seeds=[seed], data_seeds=[7]))(0, 1))) for seed in (0, 1))
    assert torch.equal(a.x, b.x)
    assert torch.equal(a.noise["posterior"], b.noise["posterior"])
    other = next(iter(batches(tiny(seeds=[0], data_seeds=[8]))(0, 1)))
    assert not torch.equal(a.x, other.x)


def test_images_become_floats_in_the_unit_interval() -> None:
    run = uw.Run(method="vae", dataset=uw.datasets.three_dots(examples=20), batch_size=8)
    x = next(iter(batches(run)(0, 1))).x
    assert x.dtype == torch.float32
    assert x.shape == (1, 8, 1, 64, 64)
    assert (x.min(), x.max()) == (0.0, 1.0)
