"""A held-out share: never trained on, the same for all members, and its loss is in the log."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import StopAt, losses, same, tiny

import untwine as uw
from untwine.objective.evaluation import at_step, evaluate
from untwine.train.folders.record import Record
from untwine.train.holdout import split
from untwine.train.steps import held_out
from untwine.train.steps.pack import Pack, batches
from untwine.train.steps.table import Table

CPU = torch.device("cpu")


def test_a_split_is_a_partition_of_the_share() -> None:
    for size, share, count in ((1_000, 0.1, 100), (7, 0.01, 1), (40_000, 0.25, 10_000), (3, 0.5, 2)):
        parts = split(size, share)
        assert len(parts.held_out) == count
        assert sorted([*parts.held_out.tolist(), *parts.training.tolist()]) == list(range(size))
    halves = split(40_000, 0.25).held_out
    assert abs(halves.mean() - 20_000) < 4 * 40_000 / (12 * 10_000) ** 0.5  # spread over all of the data
    assert np.array_equal(halves, split(40_000, 0.25).held_out)


@pytest.mark.parametrize("sampling", ["iid", "epochs"])
def test_no_batch_has_a_held_out_example(sampling: str) -> None:
    run = tiny(uw.methods.factor_vae(hidden=8, layers=1), holdout=0.3, sampling=sampling, seeds=[0, 1])
    table = Table(run.make_dataset(), CPU, training=run.training())
    pack = Pack(run.members(), run.info(), CPU)
    held, drawn = set(run.held_out().tolist()), batches(pack, table, run.batch_size, run.sampling)
    seen = [torch.stack(drawn.numbers(torch.arange(13), purpose)[:12]) for purpose in ("", "/second")]
    assert not held & set(torch.stack(seen).flatten().tolist())
    assert run.info().data_size == 210
    if sampling == "epochs":  # 13 full batches of 16, and a rest of 2
        epoch = torch.cat(drawn.numbers(torch.arange(14)), 1)
        assert [sorted(member) for member in epoch.tolist()] == [sorted(run.training().tolist())] * 2


def test_training_does_not_depend_on_held_out_examples() -> None:
    """Whatever held-out pictures show, weights are the same; what is learned from the data is of the others alone."""
    table = np.random.default_rng(0).integers(0, 256, (60, 3, 8, 8), np.uint8)
    changed = table.copy()
    method = uw.methods.decomposition_vae(prior=uw.priors.anisotropic_normal(), likelihood="squared_error")
    settings = {"method": method, "latents": 2, "network": "mlp", "steps": 3, "standardise": True, "holdout": 0.25}
    changed[split(60, 0.25).held_out] = 255
    one, other = (uw.fit(tiny(dataset=uw.datasets.images(images), **settings)) for images in (table, changed))
    assert same(one, other, buffers=True)
    assert losses(one, "seed-0") == losses(other, "seed-0")
    assert losses(one, "seed-0", "holdout_loss") != losses(other, "seed-0", "holdout_loss")


@pytest.mark.parametrize("batching", ["loop", "vmap"])
@pytest.mark.parametrize("name", ["jl1_vae", "beta_tcvae", "wae_mmd"])
def test_the_logged_loss_is_that_of_the_objective(name: str, batching: str) -> None:
    """Against the objective, evaluated member by member on the plain module with the same noise."""
    run = tiny(uw.methods.get(name)(likelihood="squared_error"), seeds=[0, 3], steps=5, holdout=0.2)
    ensemble = uw.fit(run, batching=batching)
    pack = Pack(run.members(), run.info(), CPU)
    drawn = batches(pack, Table(run.make_dataset(), CPU), 16, "iid")
    noise = drawn.filled(torch.arange(5, 8))  # 60 examples are three full batches; these steps are behind the last
    examples = torch.from_numpy(run.make_dataset().batch(run.held_out()[:48])).unflatten(0, (3, 16))
    for i, member in enumerate(ensemble.members):
        model, penalties, total = ensemble.member(i), at_step(member.objective.penalties, 4), 0.0
        for k in range(3):
            own = {key: value[k, i] for key, value in noise.items()}
            total += float(evaluate(model, penalties, examples[k], own, run.info().data_size)["loss"]) / 3
        assert losses(ensemble, member.name, "holdout_loss")[-1] == pytest.approx(total, rel=1e-4, abs=1e-5)


def test_a_second_batch_is_held_out_too() -> None:
    """The discriminator of a FactorVAE sees permuted codes of the batch before: the loss depends on both batches."""
    run = tiny(uw.methods.factor_vae(hidden=8, layers=1), holdout=0.12)  # two batches of 16
    pack = Pack(run.members(), run.info(), CPU)
    drawn = batches(pack, Table(run.make_dataset(), CPU), 16, "iid")
    made = held_out.HeldOut(pack, drawn, run.held_out(), 20)
    seen, kept = [], pack.losses
    pack.losses = lambda *given: seen.append(given) or kept(*given)  # type: ignore[method-assign]
    assert np.isfinite(made.losses(pack.initial(), 3)).all()
    assert [torch.equal(given[1], other[4]) for given, other in zip(seen, reversed(seen), strict=True)] == [True, True]


def test_the_cost_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    run = tiny(dataset=uw.datasets.synthetic_nonlinear(samples=40_000, seed=3), holdout=0.5)
    pack, seen = Pack(run.members(), run.info(), CPU), []
    made = held_out.HeldOut(pack, batches(pack, Table(run.make_dataset(), CPU), 16, "iid"), run.held_out(), 20)
    assert made.batches.shape[:2] == (8, 16)
    monkeypatch.setattr(pack, "losses", lambda *given: seen.append(given[1].shape[1]) or torch.zeros(1))
    made.losses(pack.initial(), 0)
    assert seen == [16] * 8
    large = held_out.HeldOut(pack, batches(pack, Table(run.make_dataset(), CPU), 4_000, "iid"), run.held_out(), 20)
    assert large.batches.shape[:2] == (1, 1_024)


def test_without_a_holdout_nothing_changes(tmp_path: Path) -> None:
    plain, none = tiny(), tiny(holdout=0)
    assert plain.to_json() == none.to_json() and "holdout" not in plain.to_json() and plain == none
    assert plain.id != tiny(holdout=0.1).id and tiny(holdout=0.1).members()[0].id != plain.members()[0].id
    assert uw.Run.from_json(tiny(holdout=0.1).to_json()).holdout == tiny(holdout=0.1).replace(lr=1.0).holdout == 0.1
    assert "holdout_loss" not in uw.fit(plain).history[-1]["members"]["seed-0"]


@pytest.mark.rounding
def test_an_interrupted_run_ends_the_same(tmp_path: Path) -> None:
    run = tiny(seeds=[0, 1], holdout=0.1)
    with pytest.raises(RuntimeError):
        uw.fit(run, tmp_path / "cut", progress=StopAt(12), checkpoint_seconds=0.0)
    cut, whole = uw.resume(tmp_path / "cut"), uw.fit(run, tmp_path / "whole")
    assert same(cut, whole) and cut.history == whole.history
    assert cut.run.holdout == 0.1
    with pytest.raises(uw.UntwineError, match=r"its holdout is 0\.1, not null"):
        uw.fit(tiny(seeds=[0, 1]), tmp_path / "cut")
    with pytest.raises(uw.UntwineError, match=r"its holdout is 0\.1, not 0\.2"):
        uw.fit(tiny(seeds=[0, 1], holdout=0.2), tmp_path / "cut")


def test_drawn_kept_and_streamed_data_hold_out_the_same() -> None:
    dataset = uw.datasets.three_dots(examples=90, size=16)
    run = uw.Run("beta_vae", dataset, latents=2, steps=3, batch_size=8, log_every=1, holdout=0.2)
    resident, streamed = (uw.fit(run, resident=resident) for resident in (True, False))
    assert same(resident, streamed) and resident.history == streamed.history
    assert len(losses(resident, "seed-0", "holdout_loss")) == 3


def test_what_cannot_be_held_out_is_refused() -> None:
    dots = uw.datasets.three_dots(examples=50, size=16)
    with pytest.raises(uw.UntwineError, match="pairs examples with any states"):
        uw.Run("ada_gvae", dots, holdout=0.1)
    with pytest.raises(uw.UntwineError, match="holdout"):
        uw.Run("vae", dots, holdout=1.5)
    with pytest.raises(uw.UntwineError, match=r"holdout is 1\.0: of 300 examples that leaves none to train on"):
        uw.fit(tiny(holdout=1.0))
    with pytest.raises(uw.UntwineError, match=r"1 examples are held out, .* compares 2 or more"):
        uw.fit(tiny(uw.methods.wae_mmd(likelihood="squared_error"), holdout=0.001))


def test_the_flag_and_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from untwine.cli import main

    words = "train vae --likelihood squared-error --dataset synthetic-linear --dataset.samples 100 --holdout 0.1"
    assert main([*words.split(), "--steps", "2", "--batch-size", "4", "--out", str(tmp_path / "run"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["members"]["seed-0"]["terms"]["holdout_loss"] > 0
    record = Record.read(tmp_path / "run")
    assert record.content["run"]["holdout"] == 0.1 and record.content["data_size"] == 90
