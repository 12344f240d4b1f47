"""The fast path on a GPU: the numbers of the plain one, repeatable, whatever the company, without waiting."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import untwine as uw
from untwine.train import paths
from untwine.train.devices import exact
from untwine.train.remarks.progress import Reporter
from untwine.train.steps.pack import Pack, batches
from untwine.train.steps.table import Table
from untwine.train.steps.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
CUDA = torch.device("cuda")
# The error of a gradient against float64, relative to its norm, for each parameter of each member.
ERROR = {"float32": 2e-3, "bfloat16": 6e-2}
METHODS = ("beta_vae", "jl1_vae", "factor_vae", "beta_vae_full", "decomposition_vae", "ada_gvae")
WITH_IMAGES = {
    "beta_vae": {},
    "jl1_vae": {"anneal": 0},
    "jl1_vae sampled": {"anneal": 0, "columns": 1},
    "jl1_vae quarter": {"anneal": 0, "columns": 1, "images": 0.25},
    "jl1_vae finite": {"anneal": 0, "estimator": "finite", "eps": 0.1},
    "jl1_vae finite sampled": {"anneal": 0, "columns": 1, "estimator": "finite", "eps": 0.1},
    "jl1_vae finite quarter": {"anneal": 0, "columns": 1, "images": 0.25, "estimator": "finite", "eps": 0.1},
    "jl1_vae both": {"anneal": 0, "through": "both"},
    "jl1_vae quarter both": {"anneal": 0, "columns": 1, "images": 0.25, "through": "both"},
}


@pytest.fixture(autouse=True)
def precise() -> Iterator[None]:
    with exact(CUDA):
        yield


def dots(method: Any = None, **changes: Any) -> uw.Run:
    """rhodes2021's 64 px network on images of dots."""
    settings: dict[str, Any] = {"batch_size": 16, "latents": 10, "steps": 50, "log_every": 1, "seeds": [0, 1, 2, 3]}
    settings |= {"method": method or uw.methods.jl1_vae(anneal=20, columns=2)}
    settings |= {"dataset": uw.datasets.three_dots(examples=500), "lr": 1e-4, "sampling": "iid"}
    return uw.Run(**(settings | changes))


def vectors(method: str | uw.Objective, **changes: Any) -> uw.Run:
    """A dense network, which compiles quickly."""
    images = uw.datasets.three_dots(size=16, positions=16, examples=256)
    settings: dict[str, Any] = {"batch_size": 16, "latents": 3, "steps": 6, "log_every": 3, "seeds": [0, 1]}
    settings |= {"network": uw.networks.mlp(hidden=(32,)), "dataset": images, "sampling": "iid", "lr": 1e-3}
    return uw.Run(method=method, **(settings | changes))


def trainer(run: uw.Run, fast: bool, resident: bool = True) -> Trainer:
    table = Table(run.make_dataset(), CUDA, resident, None, run.info().standard)
    made = Trainer(Pack(run.members(), run.info(), CUDA), run, table)
    if fast:
        made.compile()
    return made


def assert_equal(run: uw.Run, resident: bool = True) -> Trainer:
    """Both paths lead to the same state but for rounding, with the same log."""
    plain, fast = trainer(run, False, resident), trainer(run, True, resident)
    logs = [[entry for entry in made.steps() if entry] for made in (plain, fast)]
    for a, b in zip(*logs, strict=True):
        assert a["step"] == b["step"]
        for member, terms in a["members"].items():
            for term, value in terms.items():
                found = b["members"][member][term]
                assert found == (None if value is None else pytest.approx(value, rel=2e-3, abs=1e-3)), (member, term)
    torch.testing.assert_close(fast.state.parameters, plain.state.parameters, rtol=1e-2, atol=1e-3)
    assert torch.equal(fast.state.alive, plain.state.alive)
    assert torch.equal(fast.state.died, plain.state.died)
    assert torch.equal(fast.state.count, plain.state.count)
    return fast


def in_double(run: uw.Run) -> tuple[Tensor, Tensor]:
    """Terms and gradients of the first step by the plain path, in float64."""
    pack = Pack(run.members(), run.info(), CUDA, "vmap")
    inputs = next(iter(batches(pack, Table(run.make_dataset(), CUDA), run.batch_size, run.sampling)(0, 1)))
    pack.precision = torch.float32  # that is, no autocast
    parameters, buffers = pack.initial()
    buffers = {k: v.double() if v.is_floating_point() else v for k, v in buffers.items()}
    noise = {name: value.double() for name, value in inputs.noise.items()}
    inputs = dataclasses.replace(inputs, x=inputs.x.double(), noise=noise)
    weights = tuple(w[0].double() for w in pack.penalty_weights(np.arange(1)))
    return pack.step(parameters.double(), buffers, inputs, weights)


@pytest.mark.parametrize("precision", ERROR)
@pytest.mark.parametrize("name", WITH_IMAGES)
def test_a_step_against_float64(name: str, precision: str) -> None:
    """The loss and every gradient: after one step Adam's mean is a tenth of the gradient."""
    run = dots(uw.methods.get(name.split()[0])(**WITH_IMAGES[name]), precision=precision, steps=1, seeds=[0, 1, 2])
    made = trainer(run, True)
    entry = next(made.steps())
    terms, gradients = in_double(run)
    for i, member in enumerate(made.pack.members):
        for j, term in enumerate(made.pack.terms[0]):
            close = pytest.approx(terms[i, j].item(), rel=ERROR[precision], abs=1e-3)
            assert entry is not None and entry["members"][member.name][term] == close, term
    found, expected = made.pack.views(made.state.optimiser["first"].double() / 0.1), made.pack.views(gradients)
    whole = gradients.norm(dim=1)
    for parameter, value in expected.items():
        for i in range(3):
            error = (found[parameter][i] - value[i]).norm()
            assert error < ERROR[precision] * (value[i].norm() + 1e-2 * whole[i]), (parameter, i)


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    known = {"factor_vae": {"hidden": 16, "layers": 2}}
    assert_equal(vectors(uw.methods.get(name)(**known.get(name, {}))))


@pytest.mark.parametrize("name", uw.methods.names())
def test_every_method_is_traced(name: str) -> None:
    """What is traced runs on the GPU, for all of them; compiling each would take long."""
    plain, fast = (trainer(vectors(name), False) for _ in range(2))
    fast.compile("trace")
    for made in (plain, fast):
        assert len(list(made.steps())) == 6
    torch.testing.assert_close(fast.state.parameters, plain.state.parameters, rtol=1e-3, atol=1e-4)


def test_settings_of_a_run() -> None:
    changes = {"clip": 0.1, "optimiser": "amsgrad", "lr": [1e-3, 1e-2], "watch": ("jacobian_l1",), "standardise": True}
    assert_equal(vectors(uw.methods.beta_vae(beta=[1.0, 4.0], likelihood="squared_error"), **changes))


def test_short_last_batches() -> None:
    assert_equal(vectors("beta_vae", sampling="epochs", batch_size=60, steps=12))


def test_data_that_are_streamed() -> None:
    assert_equal(vectors("beta_vae"), resident=False)


def test_a_dead_member_stays_as_it_was() -> None:
    bad = uw.join([1.0, uw.ramp(uw.each(1e39, 1.0), 0)], [3])
    fast = assert_equal(vectors(uw.methods.beta_vae(beta=bad), steps=9))
    assert fast.state.died.tolist() == [3, -1]
    assert fast.state.parameters.isfinite().all()


def test_compiling_changes_nothing() -> None:
    made, fresh = trainer(vectors("jl1_vae"), True), trainer(vectors("jl1_vae"), False)
    for name, value in fresh.state.tensors().items():
        assert torch.equal(made.state.tensors()[name], value), name


def test_nothing_waits_for_the_gpu() -> None:
    """Over three blocks of steps: whatever would wait raises."""
    made = trainer(vectors("jl1_vae", steps=10_000, log_every=10_000), True)
    steps, blocks = made.steps(), 3 * made.batches.block
    next(steps)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(blocks):
            next(steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert made.state.count.tolist() == [blocks + 1.0] * 2


def losses(ensemble: uw.Ensemble, member: str) -> list[float]:
    return [entry["members"][member]["loss"] for entry in ensemble.history]


def same(a: uw.Ensemble, b: uw.Ensemble) -> bool:
    pairs = ((a.member(i).state_dict(), b.member(i).state_dict()) for i in range(len(a)))
    return len(a) == len(b) and all(torch.equal(x[name], y[name]) for x, y in pairs for name in x)


def test_held_out_losses_are_those_of_the_plain_path() -> None:
    fast, plain = (uw.fit(dots(holdout=0.2, log_every=5), device="cuda", path=path) for path in ("fast", "plain"))
    pairs = [(a["members"]["seed-2"], b["members"]["seed-2"]) for a, b in zip(fast.history, plain.history, strict=True)]
    seen = np.array([[own["holdout_loss"] for own in pair] for pair in pairs])
    assert np.isfinite(seen).all()
    np.testing.assert_allclose(seen[:2, 0], seen[:2, 1], rtol=1e-4)  # rounding grows later, as in training


def test_alone_or_in_a_pack() -> None:
    pack, alone = (uw.fit(dots(seeds=seeds), device="cuda", path="fast") for seeds in ([0, 1, 2, 3], [2]))
    np.testing.assert_allclose(losses(pack, "seed-2"), losses(alone, "seed-2"), rtol=1e-5)


class Cut(Reporter):
    def step(self, step: int) -> None:
        if step == 23:
            raise RuntimeError("the power went")


def test_twice_and_going_on_are_bitwise_the_same(tmp_path: Path) -> None:
    run = dots(sampling="epochs", batch_size=48)  # 500 = 10 * 48 + 20
    whole = uw.fit(run, tmp_path / "whole", device="cuda", path="fast")
    assert same(uw.fit(run, device="cuda", path="fast"), whole)
    with pytest.raises(RuntimeError, match="the power went"):
        uw.fit(run, tmp_path / "cut", device="cuda", path="fast", progress=Cut(), checkpoint_seconds=0.0)
    assert same(
        uw.fit(run, tmp_path / "cut", device="cuda"), whole
    )  # a run of fifty steps would begin on the plain path
    assert (tmp_path / "cut" / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()


def test_long_runs_take_it_by_themselves() -> None:
    assert paths.choose("auto", CUDA, "vmap", paths.LONG) == "fast"
    assert paths.choose("auto", CUDA, "vmap", 100) == "plain"
