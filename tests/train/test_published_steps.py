"""What a step is: how annealing and the discriminator count, as in disentanglement_lib."""

from __future__ import annotations

import pytest
import torch
from helpers import losses, tiny

import untwine as uw
from untwine.train.steps.pack import Pack
from untwine.train.steps.table import Table
from untwine.train.steps.trainer import Trainer


def test_annealing_counts_updates_from_nought():
    """|KL - C(t)| with C = 0 at the first update and the whole capacity once `anneal` updates are done."""
    method = uw.methods.annealed_vae(gamma=1.0, capacity=25.0, anneal=4, likelihood="squared_error")
    trained = uw.fit(tiny(method, steps=7, log_every=1, watch="kl"), device="cpu")
    kl, distance = (losses(trained, "seed-0", term) for term in ("kl", "capacity"))
    expected = [abs(value - 25.0 * min(step / 4, 1)) for step, value in enumerate(kl)]
    assert distance == pytest.approx(expected, rel=1e-5)


def test_the_discriminator_takes_a_step_for_each_of_the_models():
    """Adam's first step is the learning rate wherever there is a gradient, for both players, and each takes one."""
    method = uw.methods.factor_vae(hidden=8, layers=2, discriminator_lr=1e-4, likelihood="squared_error")
    run = tiny(method, steps=1, lr=1e-3)
    device = torch.device("cpu")
    pack = Pack(run.members(), run.info(), device, "loop")
    trainer = Trainer(pack, run, Table(run.make_dataset(), device))
    before = trainer.state.parameters.clone()
    for _ in trainer.steps():
        pass
    moved = (trainer.state.parameters - before).abs()[0]
    model, rival = (moved[group.columns] for group in pack.groups)
    for steps, rate in ((model, 1e-3), (rival, 1e-4)):
        assert steps.max().item() == pytest.approx(rate, rel=1e-3)
        assert steps.median().item() == pytest.approx(rate, rel=0.05)


def test_figure_5_of_rhodes2021_as_runs():
    """All six baselines are runs of disentanglement_lib's network; FactorVAE's 300,000 steps are 150,000 updates."""
    data = uw.datasets.three_dots(examples=10, style="opencv")
    for name in ("factor_vae", "beta_tcvae", "dip_vae_i", "dip_vae_ii", "annealed_vae"):
        run = uw.Run(method=name, dataset=data)
        assert run.network == uw.networks.locatello64() and run.sampling == "epochs"
        assert run.steps == (150_000 if name == "factor_vae" else 300_000)
    run = uw.Run(method="beta_vae", dataset=data, network="locatello64", sampling="epochs")
    assert (run.steps, run.lr, run.batch_size, run.latents) == (300_000, 1e-4, 64, 10)
