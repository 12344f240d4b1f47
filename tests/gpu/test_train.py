"""Training on a GPU: the same numbers as on a CPU, whatever the company, every time."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import untwine as uw
from untwine.train.remarks.progress import Reporter
from untwine.train.steps.pack import Pack, batches
from untwine.train.steps.table import Table

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
SMALL = {"anneal": 5, "hidden": 64}


def small(name: str, **more: Any) -> uw.Objective:
    known = inspect.signature(uw.methods.get(name)).parameters
    return uw.methods.get(name)(**{key: value for key, value in SMALL.items() if key in known}, **more)


METHODS = {name: (lambda name=name: small(name)) for name in uw.methods.names()} | {
    "jl1 + sparse prior + overlap": lambda: small("jl1_vae", prior="sparse", likelihood="overlap(bernoulli, weight=9)"),
    "ada-gvae + overlap": lambda: small("ada_gvae", likelihood="overlap(squared-error)"),
    "full covariance + student-t": lambda: small("beta_vae_full", prior="student-t"),
    "generalised normal + mmd": lambda: small("decomposition_vae", prior="generalised-normal"),
    "factor-vae + learned prior": lambda: small("factor_vae", prior="anisotropic-normal(learned=true)"),
    "jl1_vae k=2": lambda: uw.methods.jl1_vae(anneal=5, columns=2),
    "jl2_vae both": lambda: uw.methods.jl2_vae(anneal=5, through="both"),
}


def dots(**changes: Any) -> uw.Run:
    settings: dict[str, Any] = {"batch_size": 16, "latents": 10, "steps": 50, "log_every": 1, "seeds": [0, 1, 2, 3]}
    settings |= {"method": uw.methods.jl1_vae(anneal=20, columns=2)}
    settings |= {"dataset": uw.datasets.three_dots(examples=500)}
    return uw.Run(**(settings | changes))


def losses(ensemble: uw.Ensemble, member: str) -> list[float]:
    return [entry["members"][member]["loss"] for entry in ensemble.history]


@pytest.mark.parametrize("name", METHODS)
def test_a_step_agrees_with_the_cpu(name: str) -> None:
    run = dots(method=METHODS[name](), seeds=[0, 1])
    results = []
    for device in (torch.device("cpu"), torch.device("cuda")):
        pack = Pack(run.members(), run.info(), device)
        table = Table(run.make_dataset(), device)
        inputs = next(iter(batches(pack, table, 16, "iid")(9, 10)))
        weights = tuple(w[0] for w in pack.penalty_weights(np.arange(9, 10)))
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            terms, gradients = pack.step(*pack.initial(), inputs, weights)
        results.append((terms.cpu(), gradients.cpu()))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-5, atol=1e-4)
    for a, b in zip(results[0][1], results[1][1], strict=True):
        assert (a - b).norm() / a.norm() < 1e-4


def test_alone_or_in_a_pack() -> None:
    pack, alone = uw.fit(dots(), device="cuda"), uw.fit(dots(seeds=[2]), device="cuda")
    np.testing.assert_allclose(losses(pack, "seed-2"), losses(alone, "seed-2"), rtol=1e-5)


def test_twice_is_bitwise_the_same() -> None:
    first, second = (uw.fit(dots(), device="cuda") for _ in range(2))
    for i in range(4):
        for name, value in first.member(i).state_dict().items():
            assert torch.equal(value, second.member(i).state_dict()[name])


def test_going_on_is_bitwise_the_same(tmp_path: Path) -> None:
    class Cut(Reporter):
        def step(self, step: int) -> None:
            if step == 23:
                raise RuntimeError("the power went")

    whole = uw.fit(dots(), tmp_path / "whole", device="cuda")
    with pytest.raises(RuntimeError, match="the power went"):
        uw.fit(dots(), tmp_path / "cut", device="cuda", progress=Cut(), checkpoint_seconds=0.0)
    again = uw.fit(dots(), tmp_path / "cut", device="cuda")
    for i in range(4):
        for name, value in whole.member(i).state_dict().items():
            assert torch.equal(value, again.member(i).state_dict()[name])


def test_bfloat16_is_close() -> None:
    full = uw.fit(dots(seeds=[0]), device="cuda")
    half = uw.fit(dots(seeds=[0], precision="bfloat16"), device="cuda")
    np.testing.assert_allclose(losses(full, "seed-0"), losses(half, "seed-0"), rtol=2e-2)


def test_streams_are_those_of_the_cpu() -> None:
    from untwine import streams

    for draw in (streams.bits, streams.uniform, streams.normal):
        there = draw(torch.arange(3, device="cuda"), "test", torch.arange(5, device="cuda"), 101).cpu()
        here = draw(torch.arange(3), "test", torch.arange(5), 101)
        torch.testing.assert_close(there, here, rtol=1e-6, atol=1e-6)


def test_data_are_drawn_on_the_gpu_as_on_the_cpu() -> None:
    dataset = uw.datasets.three_dots(examples=3000)
    table = Table(dataset, torch.device("cuda"))
    assert table.rows is not None
    assert table.rows.device.type == "cuda"
    assert np.array_equal(table.rows.cpu().numpy(), dataset.examples())
