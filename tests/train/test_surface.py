"""What an ensemble offers besides codes and images: its run, its data, its scores, and new images."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import tiny
from torch import distributions as D

import untwine as uw


@pytest.fixture(scope="module")
def dots() -> uw.Ensemble:
    dataset = uw.datasets.three_dots(examples=50, size=16)
    prior = D.Independent(D.Normal(torch.tensor([1.0, -2.0, 0.0]), torch.tensor([0.5, 2.0, 1.0])), 1)
    method = uw.methods.decomposition_vae(prior=prior)
    return uw.fit(uw.Run(method=method, dataset=dataset, latents=3, seeds=[0, 1], steps=2, batch_size=4))


def test_an_ensemble_knows_its_run_and_its_data(tmp_path: Path) -> None:
    run = tiny(uw.methods.beta_vae([0.1, 4.0, 0.1], likelihood="squared_error"), seeds=[0, 0, 5], steps=2)
    in_memory = uw.fit(run)
    assert in_memory.run is run and in_memory.dataset() is run.make_dataset()
    uw.fit(run, tmp_path)
    loaded = uw.load(tmp_path)
    assert [member.id for member in loaded.run.members()] == [member.id for member in run.members()]
    assert loaded.run.to_json() | {"data_seeds": None} == run.to_json()
    assert loaded.dataset() is loaded.dataset()
    np.testing.assert_array_equal(loaded.dataset().examples(), run.make_dataset().examples())
    by_hand = uw.Ensemble(loaded.members, [loaded.member(i) for i in range(3)], torch.device("cpu"))
    assert [member.id for member in by_hand.run.members()] == [member.id for member in run.members()]


def test_data_in_memory_is_asked_for_again(tmp_path: Path) -> None:
    data = uw.datasets.images(np.random.default_rng(0).random((20, 4)).astype(np.float32))
    uw.fit(tiny(dataset=data, steps=1), tmp_path)
    with pytest.raises(uw.UntwineError, match="pass the array again"):
        uw.load(tmp_path).dataset()


def test_reconstructions_are_decoded_means(dots: uw.Ensemble) -> None:
    images = dots.dataset().batch(range(7))
    reconstructed = dots.reconstruct(images, batch=3)
    assert reconstructed.shape == (2, 7, 1, 16, 16)
    for i in range(2):
        with torch.no_grad():
            torch.testing.assert_close(reconstructed[i], dots.member(i)(torch.from_numpy(images).float() / 255))


def test_samples_are_decoded_draws_of_the_prior(dots: uw.Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    decode = dots.decode
    monkeypatch.setattr(dots, "decode", lambda z: seen.append(z) or decode(z))
    assert dots.sample(4).shape == (2, 4, 1, 16, 16)
    assert torch.equal(dots.sample(4), dots.sample(4)) and not torch.equal(dots.sample(4), dots.sample(4, seed=1))
    seen.clear()
    torch.testing.assert_close(dots.sample(9)[:, :4], dots.sample(4))  # other batches may be summed in another order
    assert torch.equal(seen[0][:, :4], seen[1])
    seen.clear()
    dots.sample(4_000, seed=3)
    codes = seen[0].double()
    # The mean and the deviation of 4,000 draws may be off by four standard errors.
    scale = torch.tensor([0.5, 2.0, 1.0]).double()
    assert ((codes.mean(1) - torch.tensor([1.0, -2.0, 0.0])).abs() < 4 * scale / 4_000**0.5).all()
    assert ((codes.std(1) - scale).abs() < 4 * scale / 8_000**0.5).all()
    with pytest.raises(uw.UntwineError, match="a whole number, 1 or more, not 0"):
        dots.sample(0)


def test_interpolations_are_straight_lines_of_codes(dots: uw.Ensemble) -> None:
    images = dots.dataset().batch(range(6))
    a, b = images[:3], images[3:]
    lines = dots.interpolate(a, b, steps=5)
    assert lines.shape == (2, 3, 5, 1, 16, 16)
    torch.testing.assert_close(lines[:, :, 0], dots.reconstruct(a))
    torch.testing.assert_close(lines[:, :, -1], dots.reconstruct(b))
    first, last = dots.encode(a), dots.encode(b)
    torch.testing.assert_close(lines[:, :, 1], dots.decode(0.75 * first + 0.25 * last))
    torch.testing.assert_close(dots.interpolate(a[1], torch.from_numpy(b[1]), steps=5), lines[:, 1])
    with pytest.raises(uw.UntwineError, match="3 examples to begin with, but 2"):
        dots.interpolate(a, b[:2])
    with pytest.raises(uw.UntwineError, match="2 or more points, not 1"):
        dots.interpolate(a, b, steps=1)


def test_standardised_images_come_back_as_images() -> None:
    data = uw.datasets.xy_squares(spacing=2, size=16, square=2)
    ensemble = uw.fit(uw.Run("beta_vae", data, latents=2, steps=1, batch_size=4, standardise=True))
    x = data.batch(range(3))
    codes = ensemble.encode(x)
    torch.testing.assert_close(ensemble.reconstruct(x), ensemble.decode(codes))
    torch.testing.assert_close(ensemble.interpolate(x, x)[:, :, 0], ensemble.decode(codes))


@pytest.mark.parametrize("folder", [True, False])
def test_scores_are_what_was_evaluated(tmp_path: Path, folder: bool) -> None:
    ensemble = uw.fit(tiny(seeds=[0, 1], steps=2), tmp_path if folder else None)
    assert len(ensemble.scores) == 0 and repr(ensemble.scores) == "Scores(0 members: none)"
    hoyer = uw.evaluate(ensemble, ["hoyer"])
    mig = uw.evaluate(ensemble, ["mig(points=50)"])
    assert list(ensemble.scores) == ["hoyer", "mig(points=50)"]
    assert ensemble.scores["mig"].values.tolist() == mig["mig"].values.tolist()
    assert ensemble.scores["hoyer"].values.tolist() == hoyer["hoyer"].values.tolist()
    uw.evaluate(ensemble, ["hoyer"], again=True)
    assert list(ensemble.scores) == ["hoyer", "mig(points=50)"]
    if folder:
        assert uw.load(tmp_path).scores == ensemble.scores


def test_scores_are_those_of_the_members_that_have_them(tmp_path: Path) -> None:
    uw.evaluate(uw.fit(tiny(seeds=[0, 1], steps=2), tmp_path), ["hoyer"])
    more = uw.fit(tiny(seeds=[1, 2], steps=2), tmp_path)
    assert [len(score.values) for score in more.scores.values()] == [1]
    assert [row["member"] for row in more.scores.rows()] == ["seed-1"]
    none = uw.fit(tiny(seeds=[2], steps=2), tmp_path)
    assert len(none.scores) == 0
