"""What the page shows is what the models compute."""

import base64
import io
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import untwine as uw
from untwine.explore.runs import ExploredRun, open_runs
from untwine.files import sealed
from untwine.train.member import identity

CODE = [0.5, -1.0, 0.25, 2.0]


@pytest.fixture(scope="module")
def ensemble(folders: dict[str, Path]) -> uw.Ensemble:
    return uw.load(folders["beta"], device="cpu")


@pytest.fixture(scope="module")
def dots(ensemble: uw.Ensemble) -> Any:
    return uw.datasets.three_dots(size=16, dots=2, positions=16, radius=0.15, examples=300)


def pixels(url: str) -> np.ndarray:
    """The pixels `[y, x]` or `[y, x, 3]` of a PNG in a URL."""
    kind, _, content = url.partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


def test_overview_names_runs_and_finished_members(client: Any, folders: dict[str, Path]):
    runs = json.loads(client.send("GET", "/api/runs")[2])["runs"]
    assert [(run["name"], run["members"]) for run in runs] == [
        ("beta", ["seed-0", "seed-1"]),
        ("jl1", ["seed-0"]),
        ("vectors", ["seed-0"]),
        ("lost", ["seed-0"]),
    ]
    assert runs[1]["method"] == "jl1-vae" and runs[1]["dataset"] == "three-dots"
    assert runs[0]["path"] == str(folders["beta"])


@pytest.mark.parametrize("seed", [0, 1])
def test_decoded_picture_is_the_members(client: Any, ensemble: uw.Ensemble, seed: int):
    shown = pixels(client.ask("decode", member=f"seed-{seed}", code=CODE)["picture"])
    with torch.no_grad():
        mean = ensemble.member(seed).decode(torch.tensor([CODE]))[0, 0].numpy()
    assert shown.shape == (16, 16)
    assert np.abs(shown - 255 * mean).max() <= 0.5 + 1e-3  # the nearest byte


def test_columns_are_slopes_of_the_picture(client: Any, ensemble: uw.Ensemble):
    """Against differences of the decoder in float64, and red where a pixel grows."""
    answer = client.ask("columns", code=CODE)
    model, code, step = ensemble.member(0).double(), torch.tensor(CODE, dtype=torch.float64), 1e-5
    with torch.no_grad():
        ends = [model.decode(code + sign * step * torch.eye(4, dtype=torch.float64)) for sign in (1, -1)]
    slopes = ((ends[0] - ends[1]) / (2 * step))[:, 0].numpy()
    np.testing.assert_allclose(answer["norms"], np.linalg.norm(slopes.reshape(4, -1), axis=1), rtol=1e-4)
    tiles = np.stack([pixels(url) for url in answer["columns"]]).astype(int)
    assert tiles.shape == (4, 16, 16, 3)
    strong = np.abs(slopes) > 0.2 * np.abs(slopes).max()
    redness = tiles[..., 0] - tiles[..., 2]
    assert strong.sum() > 3 and (np.sign(redness[strong]) == np.sign(slopes[strong])).all()
    still = np.abs(slopes) < 1e-3 * np.abs(slopes).max()
    assert (tiles[still] > 235).all()  # nearly white


def test_latents_are_ordered_and_marked_by_their_use(client: Any, ensemble: uw.Ensemble, dots: Any):
    """KL and variances from the members themselves, over all 300 examples, which is what the model encodes here."""
    answer = client.ask("model")
    means, variances = (f(dots.examples()).double().numpy()[0] for f in (ensemble.encode, ensemble.variances))
    nats = [0.5 * np.mean(variances[:, k] + means[:, k] ** 2 - 1 - np.log(variances[:, k])) for k in range(4)]
    rows = answer["latents"]
    assert answer["measure"] == "KL" and answer["examples"] == 300 and answer["shape"] == [1, 16, 16]
    assert sorted(row["latent"] for row in rows) == [0, 1, 2, 3]
    for row in rows:
        latent = row["latent"]
        assert row["use"] == pytest.approx(nats[latent], rel=1e-4)
        assert row["active"] == (variances[:, latent].mean() < 0.5)
        # 99 percent of the aggregate posterior, by drawing from it.
        draws = np.random.default_rng(0).normal(means[:, latent], np.sqrt(variances[:, latent]), (400, 300))
        assert np.mean((draws >= row["low"]) & (draws <= row["high"])) == pytest.approx(0.99, abs=0.002)
    keys = [(not row["active"], -row["use"]) for row in rows]
    assert keys == sorted(keys)


def test_examples_start_at_their_codes(client: Any, ensemble: uw.Ensemble, dots: Any):
    answer = client.ask("start", member="seed-1", example=7)
    assert (pixels(answer["picture"]) == dots.batch([7])[0, 0]).all()
    assert answer["factors"] == dots.factors_of([7])[0].tolist()
    np.testing.assert_allclose(answer["code"], ensemble.encode(dots.batch([7]))[1, 0], atol=1e-5)


def test_factors_start_at_their_codes(client: Any, ensemble: uw.Ensemble, dots: Any):
    answer = client.ask("start", factors=[3, 12, 9, 0])
    state = dots.observe([[3, 12, 9, 0]])
    assert (pixels(answer["picture"]) == state[0, 0]).all()
    np.testing.assert_allclose(answer["code"], ensemble.encode(state)[0, 0], atol=1e-5)
    assert [factor["name"] for factor in client.ask("model")["factors"]] == list(dots.factors.names)


def test_own_picture_is_prepared_as_the_data_are(client: Any, ensemble: uw.Ensemble):
    """A wide picture in colour: its middle, averaged down to grey."""
    wide = np.random.default_rng(1).integers(0, 256, (32, 48, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(wide).save(file, "PNG")
    answer = client.upload(file.getvalue())
    middle = wide[:, 8:40].reshape(16, 2, 16, 2, 3).mean((1, 3))
    grey = middle @ (0.299, 0.587, 0.114)
    shown = pixels(answer["picture"])
    assert np.abs(shown - grey).max() <= 1.5  # rounded once for each channel, and once more as grey
    np.testing.assert_allclose(answer["code"], ensemble.encode(shown[None, None].copy())[0, 0], atol=1e-5)


def test_a_picture_unlike_the_data_is_doubted(client: Any, dots: Any):
    """The negative of an example: black where all data are white."""

    def doubt(picture: np.ndarray) -> str:
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "PNG")
        return client.upload(file.getvalue())["doubt"]

    example = dots.batch([0])[0, 0]
    assert doubt(example) == ""
    assert doubt(255 - example).startswith("The model never saw such a picture: its reconstruction errs")


def test_vectors_are_bars(client: Any):
    about = client.ask("model", run="vectors")
    assert about["shape"] != [1, 16, 16] and len(about["shape"]) == 1
    start = client.ask("start", run="vectors", example=0)
    answer = client.ask("decode", run="vectors", code=start["code"])
    drawing = base64.b64decode(answer["picture"].partition(",")[2]).decode()
    assert answer["picture"].startswith("data:image/svg+xml") and drawing.count("<rect") == about["shape"][0]
    assert len(client.ask("columns", run="vectors", code=start["code"])["columns"]) == len(about["latents"])
    assert client.upload(b"", run="vectors")["error"] == "this model takes vectors, not pictures"


def test_models_whose_data_are_gone(tmp_path: Path, folders: dict[str, Path]):
    content = json.loads((folders["beta"] / "run.json").read_text())
    for spec in (content["run"], *(entry["spec"] for entry in content["members"])):
        spec["dataset"] = {"name": "images", "source": str(tmp_path / "gone")}
    for entry in content["members"]:
        entry["id"] = identity(entry["spec"], entry["seed"], entry["data_seed"])
    folder = tmp_path / "moved"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(sealed(content)))
    shutil.copytree(folders["beta"] / "members", folder / "members")
    run = open_runs([folder], "cpu")["moved"]
    assert "gone" in str(run.dataset)
    latents = run.model("seed-0").latents
    assert latents.ranges.tolist() == [[-3.0, 3.0]] * 4  # three deviations of the prior
    assert latents.use is latents.active is None
    assert run.model("seed-0").decode(CODE).shape == (1, 16, 16)


def test_a_deterministic_model_is_ordered_by_variance(tmp_path: Path):
    dataset = uw.datasets.synthetic_nonlinear(samples=100)
    network = uw.networks.mlp(hidden=(8,))
    method = uw.methods.ae(likelihood="squared_error")
    run = uw.Run(method=method, dataset=dataset, network=network, latents=3, seeds=[0], steps=2, batch_size=16)
    ensemble = uw.fit(run, tmp_path / "ae", device="cpu")
    latents = ExploredRun(tmp_path / "ae", torch.device("cpu")).model("seed-0").latents
    spread = ensemble.encode(dataset.examples())[0].double().numpy().var(0)
    assert latents.measure == "variance" and latents.active is None
    np.testing.assert_allclose(latents.use, spread, rtol=1e-4)
    assert latents.order == np.argsort(-spread).tolist()


@pytest.mark.parametrize("prior", ["student_t", "sparse", "mixture_of_normals"])
def test_other_priors_have_sliders_too(tmp_path: Path, prior: str):
    """The KL to a standard normal would mean nothing there: latents are ordered by the variance of their codes."""
    method = uw.methods.decomposition_vae(prior=prior, likelihood="squared_error")
    dataset = uw.datasets.synthetic_nonlinear(samples=50)
    network = uw.networks.mlp(hidden=(8,))
    run = uw.Run(method=method, dataset=dataset, network=network, latents=2, seeds=[0], steps=1, batch_size=16)
    uw.fit(run, tmp_path / "run", device="cpu")
    latents = ExploredRun(tmp_path / "run", torch.device("cpu")).model("seed-0").latents
    assert latents.measure == "variance" and (latents.ranges[:, 0] < latents.ranges[:, 1]).all()
    assert np.isfinite(latents.ranges).all() and sorted(latents.order) == [0, 1]


def test_standardised_models_show_images_in_their_own_scale(tmp_path: Path, dots: Any):
    network = uw.networks.mlp(hidden=(8,))
    settings: dict[str, Any] = {"latents": 2, "seeds": [0], "steps": 2, "batch_size": 16, "standardise": True}
    method = uw.methods.beta_vae(beta=1.0, likelihood="squared_error")
    ensemble = uw.fit(uw.Run(method=method, dataset=dots, network=network, **settings), tmp_path / "run", device="cpu")
    model = ExploredRun(tmp_path / "run", torch.device("cpu")).model("seed-0")
    mean, std = (np.array(row) for row in ensemble.info.standard or ())
    with torch.no_grad():
        inner = ensemble.member(0).decode(torch.zeros(1, 2))[0].numpy()
    np.testing.assert_allclose(model.decode([0.0, 0.0]), inner * std[0] + mean[0], atol=1e-5)


@pytest.mark.parametrize("name", ["decode", "columns"])
def test_answers_come_at_once(tmp_path: Path, name: str):
    """Under 50 ms for the network of the papers, 64 x 64 pixels, 10 latents; the best of 20, on any busy machine."""
    from untwine.explore.answers import Answers

    dots = uw.datasets.three_dots(examples=20)
    run = uw.Run(method="beta_vae", dataset=dots, latents=10, seeds=[0], steps=1, batch_size=4)
    uw.fit(run, tmp_path / "run", device="cpu")
    answer = getattr(Answers(open_runs([tmp_path / "run"], "cpu")), name)
    question = {"run": "run", "member": "seed-0", "code": [0.1] * 10}
    took = []
    for _ in range(20):
        begun = time.perf_counter()
        json.dumps(answer(question))
        took.append(time.perf_counter() - begun)
    assert min(took) < (0.05 if name == "decode" else 0.5)
