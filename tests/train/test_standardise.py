"""Standardised images: what a network sees, and what a user gives and gets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import untwine as uw
from untwine.data.moments import fixed_subset
from untwine.errors import UntwineError
from untwine.train.folders.record import read
from untwine.train.steps.table import Table

CPU = torch.device("cpu")


def run(**changes):
    settings = {
        "method": uw.methods.beta_vae(0.1, likelihood="squared-error"),
        "dataset": uw.datasets.xy_squares(spacing=2, size=16, square=2),
        "network": uw.networks.mlp((16,)),
        "latents": 3,
        "seeds": [0, 1],
        "steps": 5,
        "batch_size": 8,
        "standardise": True,
    }
    return uw.Run(**(settings | changes))


def test_a_network_sees_standardised_images():
    info, dataset = run().info(), run().make_dataset()
    x = Table(dataset, CPU, standard=info.standard)(torch.arange(0, len(dataset), 997))
    assert info.standard[0] == pytest.approx([1 / 64] * 3)
    assert x.mean((0, 2, 3)).tolist() == pytest.approx([0, 0, 0], abs=1e-5)
    assert x.flatten(2).std(2).mean(0).tolist() == pytest.approx([1, 1, 1], rel=1e-5)
    raw = Table(dataset, CPU)(torch.arange(4))
    assert raw.min() == 0 and raw.max() == 1


def test_images_go_in_and_come_out_as_ever(tmp_path: Path):
    ensemble = uw.fit(run(), tmp_path, device="cpu")
    images = run().make_dataset().batch(range(6))
    codes = ensemble.encode(images)
    mean, std = (np.array(one)[:, None, None] for one in run().info().standard)
    seen = torch.from_numpy(((images / 255 - mean) / std).astype(np.float32))
    vae = ensemble.member(1)
    torch.testing.assert_close(codes[1], vae.encode(seen), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ensemble.encode(images / 255), codes, rtol=1e-4, atol=1e-5)
    decoded = vae.decode(codes[1]).detach().numpy() * std + mean
    np.testing.assert_allclose(ensemble.decode(codes)[1].numpy(), decoded, rtol=1e-4, atol=1e-5)
    columns = vae.jacobian(codes[1]).detach().numpy() * std
    np.testing.assert_allclose(ensemble.jacobian(codes)[1].numpy(), columns, rtol=1e-4, atol=1e-6)
    assert torch.equal(uw.load(tmp_path, device="cpu").encode(images), codes)  # without the data
    assert read(tmp_path)["standard"][0] == pytest.approx([1 / 64] * 3)


def test_it_changes_what_is_trained():
    plain, standard = (uw.fit(run(standardise=flag), device="cpu") for flag in (False, True))
    x = run().make_dataset().batch(range(6))
    assert not torch.allclose(plain.encode(x), standard.encode(x))
    assert run(standardise=False).members()[0].id != run().members()[0].id


def test_with_pairs_and_principal_components():
    method = uw.methods.ada_gvae(
        prior="anisotropic-normal(learned=true)", likelihood="overlap(squared-error, radius=3)"
    )
    ensemble = uw.fit(run(method=method), device="cpu")
    assert np.isfinite(ensemble.history[-1]["members"]["seed-1"]["loss"])


def test_principal_components_are_those_of_standardised_images():
    info = run().info()
    some = torch.from_numpy(fixed_subset(run().make_dataset(), 5_000))
    x = Table(run().make_dataset(), CPU, standard=info.standard)(some).flatten(1).double().numpy()
    expected = np.linalg.eigvalsh(np.cov(x.T))[::-1][:2]
    assert info.principal(2) == pytest.approx(expected, rel=1e-4)


def test_what_cannot_be_standardised():
    with pytest.raises(UntwineError, match="only images are standardised"):
        uw.fit(run(dataset="synthetic_linear"), device="cpu")
    with pytest.raises(UntwineError, match="a channel is constant"):
        uw.fit(run(dataset=uw.datasets.images(np.full((5, 16, 16), 7, np.uint8))), device="cpu")
    with pytest.raises(UntwineError, match="standardise must be true or false, not 'yes'"):
        uw.Run.from_json({**run().to_json(), "standardise": "yes"})


def test_a_bernoulli_likelihood_is_not_for_them():
    with pytest.warns(UserWarning, match="Bernoulli likelihood is for data in"):
        uw.fit(run(method="vae", steps=1), device="cpu")


@pytest.mark.parametrize("value", [5, [[0.1]], [["a"], ["b"]], {}, [[0.1] * 3, [0.0] * 3], [[0.1] * 2, [1.0] * 2]])
def test_damaged_constants_are_named(tmp_path: Path, value):
    uw.fit(run(steps=1), tmp_path, device="cpu")
    file = tmp_path / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"standard": value}))
    with pytest.raises(UntwineError, match="is damaged: its 'standard'"):
        uw.load(tmp_path, device="cpu")


@pytest.mark.parametrize("known", [True, False])
def test_seeds_of_other_images_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool):
    """By their content, or by what standardises them where a dataset does not tell its content."""
    if not known:
        monkeypatch.setattr("untwine.data.families.images.Table.content", None)
    pictures = np.random.default_rng(0).integers(0, 255, (20, 16, 16), np.uint8)
    np.save(tmp_path / "pictures.npy", pictures)
    dataset = uw.datasets.images(tmp_path / "pictures.npy")
    uw.fit(run(dataset=dataset, steps=1), tmp_path / "run", device="cpu")
    np.save(tmp_path / "pictures.npy", pictures // 4)
    dataset = uw.datasets.images(tmp_path / "pictures.npy")
    with pytest.raises(UntwineError, match="the data has changed" if known else "another mean or standard deviation"):
        uw.fit(run(dataset=dataset, steps=1, seeds=[0, 1, 2]), tmp_path / "run", device="cpu")
