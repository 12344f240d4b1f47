"""Packs: what a member becomes does not depend on its company."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from helpers import losses, same, tiny
from precision import double_precision
from torch import nn

import untwine as uw
from untwine.train import devices
from untwine.train.folders import checkpoint, record
from untwine.train.steps.pack import Pack, _laid_out, batches
from untwine.train.steps.table import Table

CPU = torch.device("cpu")


def dots(**changes: Any) -> uw.Run:
    settings: dict[str, Any] = {"lr": 1e-4, "batch_size": 4, "latents": 10, "steps": 50, "log_every": 1}
    settings |= {"method": uw.methods.jl1_vae(anneal=20, columns=1), "dataset": uw.datasets.three_dots(examples=200)}
    return uw.Run(**(settings | changes))


@pytest.mark.rounding
@pytest.mark.parametrize("batching", ["loop", "vmap"])
def test_alone_or_in_a_pack_with_a_dense_network(batching: str) -> None:
    pack = uw.fit(tiny(seeds=[0, 1, 2, 3], steps=50, log_every=1), batching=batching)
    for seed in (0, 2):
        alone = uw.fit(tiny(seeds=[seed], steps=50, log_every=1), batching=batching)
        for term in ("loss", "reconstruction", "kl", "jacobian"):
            np.testing.assert_allclose(
                losses(pack, f"seed-{seed}", term), losses(alone, f"seed-{seed}", term), rtol=1e-5
            )
        for name, value in alone.member(0).state_dict().items():
            torch.testing.assert_close(pack.member(seed).state_dict()[name], value, rtol=1e-5, atol=1e-6)
    assert losses(pack, "seed-0") != losses(pack, "seed-2")


@pytest.mark.parametrize("batching", ["loop", "vmap"])
def test_a_penalty_at_every_third_step(batching: str) -> None:
    """It counts three times there; the steps between are those of a method without it."""
    settings: dict[str, Any] = {"beta": 2.0, "anneal": 0, "columns": 1, "gamma": 0.5}
    lazy, always = (tiny(method=uw.methods.jl1_vae(**settings, every=every), seeds=[0, 1]) for every in (3, 1))
    without = tiny(method=uw.methods.beta_vae(2.0), seeds=[0, 1])
    with double_precision():
        packs = {name: Pack(run.members(), run.info(), CPU, batching) for name, run in
                 (("lazy", lazy), ("always", always), ("without", without))}  # fmt: skip
        pack, table = packs["lazy"], Table(lazy.make_dataset(), CPU)
        assert pack.turns(9) == {(("jacobian", 0),), (("jacobian", 3),)} and packs["always"].turns(9) == {()}
        parameters, buffers = pack.initial()
        for step, inputs in enumerate(batches(pack, table, 8, "iid")(0, 5)):
            turn = pack.turn(step)
            assert dict(turn) == {"jacobian": 3 if step in (0, 3) else 0}
            weights = {name: [w[0] for w in one.penalty_weights(np.arange(1))] for name, one in packs.items()}
            terms, slopes = pack.step(parameters, buffers, inputs, weights["lazy"], turn=turn)
            whole, plain = (
                packs[name].step(parameters, buffers, inputs, weights[name]) for name in ("always", "without")
            )
            count = dict(turn)["jacobian"]
            torch.testing.assert_close(slopes, plain[1] + count * (whole[1] - plain[1]), rtol=1e-9, atol=1e-11)
            expected = whole[0] if count else torch.cat([plain[0], torch.zeros(2, 1)], 1)
            torch.testing.assert_close(terms, expected, rtol=1e-6, atol=1e-6)


def test_the_log_of_a_penalty_at_every_third_step() -> None:
    """Means are over the steps at which all terms were computed, whatever `log_every` is; without one there is none."""
    run = tiny(method=uw.methods.jl1_vae(anneal=0, every=3, likelihood="squared_error"), seeds=[0], steps=12)

    def logged(every: int) -> list[dict[str, Any]]:
        return [entry["members"]["seed-0"] for entry in uw.fit(dataclasses.replace(run, log_every=every)).history]

    single = logged(1)
    assert [line["jacobian"] is not None for line in single] == [True, False, False] * 4
    for line in single[::3]:  # the loss has the penalty once, not three times
        assert line["loss"] == pytest.approx(line["reconstruction"] + 4 * line["kl"] + 0.1 * line["jacobian"], rel=1e-5)
    for number, line in enumerate(logged(4)):
        known = [other for other in single[4 * number :][:4] if other["loss"] is not None]
        for term in ("loss", "reconstruction", "jacobian"):
            assert line[term] == pytest.approx(sum(other[term] for other in known) / len(known), rel=1e-5)


@pytest.mark.filterwarnings("error:the schedule")
def test_a_penalty_that_is_hardly_ever_computed_gets_a_warning() -> None:
    method = uw.methods.jl1_vae(anneal=0, every=5, likelihood="squared_error")
    with pytest.warns(UserWarning, match="'jacobian' is computed at one step of 5, and so 3 times in 12 steps"):
        uw.fit(tiny(method=method, steps=12))


@pytest.mark.parametrize("every", [0, -1])
def test_steps_between_must_be_a_whole_number(every: int) -> None:
    with pytest.raises(uw.UntwineError, match="every of Needs must be a whole number of steps"):
        uw.Needs(every=every)


def test_a_penalty_with_an_adversary_is_computed_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    method = uw.methods.factor_vae(hidden=4, layers=1)
    term = type(method.penalties["total_correlation"].term)
    needs = term.needs
    monkeypatch.setattr(term, "needs", lambda self, info: dataclasses.replace(needs(self, info), every=2))
    with pytest.raises(uw.UntwineError, match="'total_correlation' has an adversary: it must be computed at every"):
        uw.fit(tiny(method=method))


def test_a_sum_takes_all_its_penalties_at_every_step() -> None:
    both = uw.penalties.kl + uw.penalties.jacobian(every=2)
    with pytest.raises(uw.UntwineError, match="give it a name of its own"):
        uw.fit(tiny(method=uw.methods.vae().replace(penalties={"both": both})))


def distances(a: uw.Ensemble, b: uw.Ensemble, member: str) -> dict[str, np.ndarray]:
    """The relative differences of each term, step by step."""
    terms = ("loss", "reconstruction", "kl", "jacobian")
    return {term: np.abs(np.array(losses(a, member, term)) / losses(b, member, term) - 1) for term in terms}


def test_alone_or_in_a_pack_with_the_64_px_network() -> None:
    method = uw.methods.jl1_vae(anneal=20, columns=1, through="both")
    pack, alone = (uw.fit(dots(seeds=seeds, method=method)) for seeds in ([1, 2], [2]))
    apart = distances(pack, alone, "seed-2")
    assert all(len(values) == 50 and values.max() < 1e-5 for values in apart.values())


@pytest.mark.parametrize("double", [True, False], ids=["float64", "float32"])
def test_alone_or_in_a_pack_where_rounding_may_switch_a_unit(double: bool) -> None:
    """The norm of a Jacobian may jump in float32, where a ReLU is on in one and off in the other; in float64 not."""
    run = dots(network=uw.networks.conv(channels=(8, 8, 16, 16), hidden=32))
    with double_precision() if double else contextlib.nullcontext():
        pack, alone = uw.fit(run.replace(seeds=[0, 1, 2])), uw.fit(run.replace(seeds=[2]))
    apart = distances(pack, alone, "seed-2")
    jacobian = apart.pop("jacobian")
    bound = 1e-9 if double else 1e-5
    assert all(len(values) == 50 and values.max() < bound for values in apart.values())
    assert np.median(jacobian) < bound and jacobian.max() < (bound if double else 1e-3)


@pytest.mark.parametrize("through", ["both", "decoder"])
def test_loop_and_vmap_compute_the_same_step(through: str) -> None:
    run = dots(seeds=[0, 1], method=uw.methods.jl1_vae(anneal=1, through=through))
    results = []
    for batching in ("loop", "vmap"):
        pack = Pack(run.members(), run.info(), CPU, batching)
        table = Table(run.make_dataset(), CPU)
        inputs = next(iter(batches(pack, table, 4, "iid")(3, 4)))
        results.append(pack.step(*pack.initial(), inputs, [w[0] for w in pack.penalty_weights(np.arange(3, 4))]))
    (terms, gradients), (terms2, gradients2) = results
    torch.testing.assert_close(terms, terms2, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients, gradients2, rtol=1e-3, atol=1e-5 * gradients.abs().max().item())


@pytest.mark.parametrize("batching", ["loop", "vmap"])
def test_a_step_is_a_function_of_its_arguments(batching: str) -> None:
    """It reads the weights that it is given, changes nothing, and remembers nothing."""
    run = tiny(seeds=[0, 1])
    pack = Pack(run.members(), run.info(), CPU, batching)
    inputs = next(iter(batches(pack, Table(run.make_dataset(), CPU), 16, "iid")(0, 1)))
    weights = [w[0] for w in pack.penalty_weights(np.arange(1))]
    parameters, buffers = pack.initial()
    before = parameters.clone()
    first = pack.step(parameters, buffers, inputs, weights)
    moved = pack.step(parameters + 0.1, buffers, inputs, weights)
    again = pack.step(parameters, buffers, inputs, weights)
    assert not torch.equal(first[0], moved[0]) and not torch.equal(first[1], moved[1])
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert torch.equal(parameters, before) and torch.equal(pack.initial().parameters, before)


def test_the_same_run_twice_is_bitwise_equal() -> None:
    run = tiny(seeds=[0, 1])
    assert same(uw.fit(run), uw.fit(run))
    conv = dots(seeds=[0, 1], steps=5)
    assert same(uw.fit(conv), uw.fit(conv))


@pytest.mark.rounding
def test_numbers_by_member_train_as_if_alone() -> None:
    together = uw.fit(tiny(uw.methods.beta_vae(beta=[0.1, 1.0, 10.0], anneal=4), seeds=[0, 0, 1], log_every=1))
    for i, (beta, seed) in enumerate([(0.1, 0), (1.0, 0), (10.0, 1)]):
        alone = uw.fit(tiny(uw.methods.beta_vae(beta=beta, anneal=4), seeds=[seed]))
        for name, value in alone.member(0).state_dict().items():
            torch.testing.assert_close(together.member(i).state_dict()[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.rounding
def test_learning_rates_and_scales_by_member() -> None:
    run = tiny(
        uw.methods.vae(likelihood=uw.likelihoods.laplace([0.1, 1.0])), seeds=[0, 1], lr=[1e-3, uw.each(1e-2).values[0]]
    )
    together = uw.fit(run)
    alone = uw.fit(tiny(uw.methods.vae(likelihood=uw.likelihoods.laplace(1.0)), seeds=[1], lr=1e-2))
    for name, value in alone.member(0).state_dict().items():
        torch.testing.assert_close(together.member(1).state_dict()[name], value, rtol=1e-5, atol=1e-6)


def test_members_of_other_structure_are_refused() -> None:
    a, b = tiny("vae").members()[0], tiny("ae", seeds=[1]).members()[0]
    with pytest.raises(uw.UntwineError, match="differ in more than numbers"):
        Pack([a, b], tiny().info(), CPU)


def test_clipping_is_by_member() -> None:
    run = tiny(clip=1e-3, optimiser="adagrad", seeds=[0, 1], steps=1, log_every=1)
    pack = Pack(run.members(), run.info(), CPU)
    inputs = next(iter(batches(pack, Table(run.make_dataset(), CPU), 16, "iid")(0, 1)))
    start, buffers = pack.initial()
    _, gradients = pack.step(start, buffers, inputs, [w[0] for w in pack.penalty_weights(np.arange(1))])
    clipped = gradients * (1e-3 / gradients.norm(dim=1, keepdim=True))
    expected = start - 1e-3 * clipped / (clipped.abs() + 1e-10)  # AdaGrad's first step
    trained = uw.fit(run)
    for i in range(2):
        flat = torch.cat([v.flatten() for v in trained.member(i).state_dict().values()])
        torch.testing.assert_close(flat, expected[i], rtol=1e-3, atol=1e-6)
    free = uw.fit(tiny(optimiser="adagrad", seeds=[0, 1], steps=3))
    assert not same(free, uw.fit(tiny(optimiser="adagrad", seeds=[0, 1], steps=3, clip=1e-3)))
    assert same(free, uw.fit(tiny(optimiser="adagrad", seeds=[0, 1], steps=3, clip=1e9)))


@pytest.mark.parametrize("batching", ["loop", "vmap"])
def test_a_diverging_member_stops_and_the_others_go_on(batching: str, tmp_path: Any) -> None:
    """A huge weight from step 5 on makes one member's loss infinite; the other's numbers do not change."""
    bad = uw.join([1.0, uw.ramp(uw.each(1e39, 1.0), 0)], [5])
    run = tiny(uw.methods.beta_vae(beta=bad), seeds=[0, 1], log_every=2)
    with pytest.warns(UserWarning, match=r"beta=1e\+39, seed 0 diverged at step 5"):
        both = uw.fit(run, tmp_path, batching=batching)
    assert [member.name for member in both.members] == ["beta=1, seed 1"]
    fine = uw.join([1.0, uw.ramp(1.0, 0)], [5])
    alone = uw.fit(tiny(uw.methods.beta_vae(beta=fine), seeds=[1], log_every=2), batching=batching)
    kept, expected = both.member(0).state_dict(), alone.member(0).state_dict()
    assert {k: v.tolist() for k, v in kept.items()} == {k: v.tolist() for k, v in expected.items()}

    states = {entry["name"]: entry for entry in record.read(tmp_path)["members"]}
    assert (states["beta=1e+39, seed 0"]["state"], states["beta=1e+39, seed 0"]["steps"]) == ("diverged", 5)
    assert states["beta=1, seed 1"]["state"] == "done"
    last = both.history[-1]["members"]["beta=1e+39, seed 0"]
    assert last["diverged"] == 5
    assert last["loss"] is None
    assert both.history[0]["members"]["beta=1e+39, seed 0"]["loss"] is not None
    kept = checkpoint.read_tensors(tmp_path / states["beta=1e+39, seed 0"]["file"])
    assert all(value.isfinite().all() for value in kept.values())


def test_all_members_diverged_is_an_error() -> None:
    with (
        pytest.raises(uw.UntwineError, match="every member diverged"),
        pytest.warns(UserWarning, match="diverged at step 0"),
    ):
        uw.fit(tiny(uw.methods.beta_vae(beta=1e39)))


BFLOAT16 = """
import json, sys
import untwine as uw
for precision in ("float32", "bfloat16"):
    run = uw.Run(method=uw.methods.jl1_vae(anneal=20, columns=1), dataset=uw.datasets.three_dots(examples=200),
                 batch_size=4, steps=10, log_every=1, precision=precision)
    ensemble = uw.fit(run, device="cpu")
    terms = [entry["members"]["seed-0"] for entry in ensemble.history]
    print(json.dumps([terms, str(next(ensemble.member(0).parameters()).dtype)]))
"""


def test_bfloat16_trains_close_to_float32() -> None:
    """In a process of its own: on some virtual machines bfloat16 needs this variable, from the start."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    done = subprocess.run([sys.executable, "-c", BFLOAT16], env=environment, capture_output=True, text=True, check=True)
    (full, _), (half, dtype) = (json.loads(line) for line in done.stdout.splitlines())
    for term in ("loss", "kl", "jacobian"):
        a, b = [t[term] for t in full], [t[term] for t in half]
        np.testing.assert_allclose(a, b, rtol=2e-2)
        assert a != b
    assert dtype == "torch.float32"


def test_a_precision_that_would_crash_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_bfloat16_crashes", lambda: True)
    with pytest.raises(uw.UntwineError, match="ONEDNN_MAX_CPU_ISA"):
        uw.fit(tiny(precision="bfloat16"), device="cpu")


def test_no_global_generator_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = uw.fit(tiny(seeds=[0, 1]))
    torch.manual_seed(123)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002

    def poison(*_: Any, **__: Any) -> Any:
        raise AssertionError("a global random generator was used")

    for module, names in (
        (
            torch,
            ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "rand_like", "randn_like"),
        ),
        (torch.Tensor, ("uniform_", "normal_", "random_", "bernoulli_", "exponential_")),
        (np.random, ("rand", "randn", "random", "randint", "permutation", "shuffle", "choice", "normal", "uniform")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, poison)
    assert same(uw.fit(tiny(seeds=[0, 1])), expected)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002


class Residual(nn.Module):
    """A user's decoder with layers that have no tangent rule."""

    def __init__(self, latents: int, size: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(latents, 8), nn.Linear(8, 8)
        self.norm, self.last = nn.GroupNorm(2, 8), nn.Linear(8, size)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.gelu(self.first(z))
        return self.last(self.norm(hidden + self.second(hidden)))


def residual_for_tests() -> Any:
    """A network of a user's own."""
    return lambda info, outputs: (nn.Linear(info.shape[0], outputs), Residual(info.latents, info.shape[0]))


def normalised_for_tests() -> Any:
    """A network that a pack cannot train."""
    return lambda info, outputs: (
        nn.Linear(info.shape[0], outputs),
        nn.Sequential(nn.Linear(info.latents, 8), nn.BatchNorm1d(8), nn.Linear(8, info.shape[0])),
    )


@pytest.mark.rounding
def test_a_network_of_the_users_own() -> None:
    uw.network(residual_for_tests)
    run = tiny(network="residual_for_tests", seeds=[0, 1, 2], steps=30, log_every=1)
    pack, alone = uw.fit(run), uw.fit(run.replace(seeds=[1]))
    np.testing.assert_allclose(losses(pack, "seed-1"), losses(alone, "seed-1"), rtol=1e-5)
    assert same(uw.fit(run), pack)


def test_running_statistics_are_refused() -> None:
    uw.network(normalised_for_tests)
    with pytest.raises(uw.UntwineError, match="GroupNorm"):
        uw.fit(tiny(network="normalised_for_tests"))


def test_a_method_of_ten_lines_gets_everything() -> None:
    @uw.part
    class MeanSize(uw.Term):
        """|E q| as a penalty: what a new paper costs."""

        def value(self, passed: uw.Pass) -> torch.Tensor:
            return passed.q.mean.abs().sum(1).mean()

    @uw.method
    def shrunk_vae(beta: float = 1.0, weight: float = 0.1) -> uw.Objective:
        """A method of a user's own."""
        return uw.Objective(
            uw.likelihoods.squared_error,
            uw.posteriors.diagonal_normal,
            uw.priors.standard_normal,
            {"kl": beta * uw.penalties.kl, "size": uw.ramp(weight, 5) * uw.Penalty(MeanSize())},
        )

    run = tiny(shrunk_vae(weight=[0.0, 10.0]), seeds=[0, 0], steps=40)
    ensemble = uw.fit(run)
    assert uw.Run.from_json(run.to_json()) == run
    assert set(next(iter(ensemble.history[0]["members"].values()))) == {"loss", "reconstruction", "kl", "size"}
    x = torch.from_numpy(run.make_dataset().batch(range(100)))
    sizes = ensemble.encode(x).abs().mean((1, 2))
    assert sizes[1] < sizes[0]


class Odd(nn.Module):
    """A decoder with a buffer of its own, a layer used twice, and a frozen one."""

    def __init__(self, latents: int, size: int) -> None:
        super().__init__()
        self.register_buffer("grid", torch.linspace(1.0, 2.0, latents))
        shared = nn.Linear(8, 8)
        self.layers = nn.Sequential(nn.Linear(latents, 8), nn.Tanh(), shared, nn.Tanh(), shared, nn.Linear(8, size))
        self.layers[0].weight.requires_grad_(False)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.layers(z * self.grid)


def odd_for_tests() -> Any:
    """A network with everything that a state dict can hold."""
    return lambda info, outputs: (nn.Linear(info.shape[0], outputs), Odd(info.latents, info.shape[0]))


@pytest.mark.parametrize("batching", ["loop", "vmap"])
def test_buffers_tied_weights_and_frozen_layers(batching: str, tmp_path: Any) -> None:
    uw.network(odd_for_tests)
    run = tiny(network="odd_for_tests", seeds=[0, 1])
    trained = uw.fit(run, tmp_path, batching=batching)
    start = Pack(run.members(), run.info(), CPU)
    loaded = uw.load(tmp_path)
    for i in range(2):
        before, after = start.state(start.initial(), i), loaded.member(i).state_dict()
        assert torch.equal(after["decoder.grid"], torch.linspace(1.0, 2.0, 3))
        assert torch.equal(after["decoder.layers.0.weight"], before["decoder.layers.0.weight"])
        assert not torch.equal(after["decoder.layers.0.bias"], before["decoder.layers.0.bias"])
        assert torch.equal(after["decoder.layers.2.weight"], after["decoder.layers.4.weight"])
        assert not torch.equal(after["decoder.layers.2.weight"], before["decoder.layers.2.weight"])
    assert same(trained, loaded)
    trained._stack.batching = batching
    assert trained.encode(run.make_dataset().batch(range(4))).shape == (2, 4, 3)
    assert same(trained, loaded)  # encoding leaves nothing behind


def dropping_for_tests() -> Any:
    return lambda info, outputs: (nn.Sequential(nn.Linear(6, outputs), nn.Dropout(0.5)), nn.Linear(3, 6))


class Shaken(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(x.shape)


def shaking_for_tests() -> Any:
    return lambda info, outputs: (nn.Sequential(nn.Linear(6, outputs), Shaken()), nn.Linear(3, 6))


@pytest.mark.parametrize("network", [dropping_for_tests, shaking_for_tests])
def test_networks_that_draw_are_refused(network: Any) -> None:
    uw.network(network)
    with pytest.raises(uw.UntwineError, match="global generator"):
        uw.fit(tiny(network=network.__name__))


def test_an_update_that_overflows_keeps_the_last_finite_weights(tmp_path: Any) -> None:
    with (
        pytest.raises(uw.UntwineError, match="diverged"),
        pytest.warns(UserWarning, match="diverged at step 0"),
    ):
        uw.fit(tiny(lr=1e38, optimiser={"name": "adam", "eps": 1e-30}), tmp_path)
    kept = checkpoint.read_tensors(tmp_path / "members" / "seed-0.safetensors")
    assert all(value.isfinite().all() for value in kept.values())


def test_bernoulli_on_data_outside_the_unit_interval_is_pointed_out() -> None:
    with pytest.warns(UserWarning, match=r"Bernoulli likelihood is for data in \[0, 1\]"):
        uw.fit(tiny("vae"))


def test_a_prior_must_live_on_all_real_vectors() -> None:
    bounded = torch.distributions.Dirichlet(torch.ones(3))
    sentence = uw.Objective(
        uw.likelihoods.squared_error, uw.posteriors.diagonal_normal, bounded, {"kl": 1.0 * uw.penalties.kl}
    )
    with pytest.raises(uw.UntwineError, match="over all real vectors; Dirichlet is not"):
        uw.fit(tiny(sentence))
    plain = torch.distributions.Normal(torch.zeros(3), torch.ones(3))  # over each latent: taken as independent
    fine = uw.Objective(uw.likelihoods.squared_error, uw.posteriors.diagonal_normal, plain, sentence.penalties)
    assert same(uw.fit(tiny(fine)), uw.fit(tiny(uw.methods.vae(likelihood="squared_error"))))


@pytest.mark.parametrize("channels", [1, 3])
def test_convolutions_of_a_member_run_channels_last(channels):
    """With one channel both layouts are the same in memory, and torch would take the other one."""
    weight = torch.randn(2, 8, channels, 4, 4)[1]
    laid_out = _laid_out(weight)
    assert torch.equal(laid_out, weight)
    image = torch.nn.functional.conv2d(torch.randn(2, channels, 9, 9), laid_out)
    assert image.is_contiguous(memory_format=torch.channels_last) and not image.is_contiguous()
    bias = torch.randn(8)
    assert _laid_out(bias) is bias
