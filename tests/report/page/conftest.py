import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import untwine as uw

sys.path.insert(0, str(Path(__file__).parents[2] / "browsing"))  # webdriver.py

DOTS = dict(size=16, positions=16, examples=100)


def trained(folder: Path, method: object, dataset: object, seeds: object = (0, 1, 2), **settings: object) -> Path:
    """The folder of a tiny run."""
    settings = {"latents": 4, "steps": 10, "batch_size": 8, "lr": 1e-3, "log_every": 1} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        uw.fit(uw.Run(method=method, dataset=dataset, seeds=seeds, **settings), folder)  # type: ignore[arg-type]
    return folder


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two scored runs on data with factors: a sweep of beta, and a second method."""
    folder = tmp_path_factory.mktemp("runs")
    dots = uw.datasets.three_dots(**DOTS)
    small = uw.networks.conv(channels=(4, 4), hidden=16)
    sweep = uw.methods.beta_vae(beta=uw.each(0.1, 0.1, 4.0), anneal=0)
    trained(folder / "sweep", sweep, dots, [0, 1, 0], network=small, watch=("delta_kl",))
    trained(folder / "jl1", uw.methods.jl1_vae(anneal=20), dots, network=small)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("sweep", "jl1"):
            uw.evaluate(folder / name, ["mig(points=60)"])
    return folder


@pytest.fixture(scope="session")
def unlabelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on coloured images without factors."""
    folder = tmp_path_factory.mktemp("images")
    pixels = np.random.default_rng(0).integers(0, 256, (40, 3, 16, 16), np.uint8)
    np.save(folder / "pictures.npy", pixels)
    small = uw.networks.conv(channels=(4, 4), hidden=16)
    return trained(folder / "run", "vae", uw.datasets.images(folder / "pictures.npy"), [0], network=small)


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on vectors."""
    folder = tmp_path_factory.mktemp("vectors") / "run"
    return trained(folder, "beta_vae", uw.datasets.synthetic_linear(samples=100), [0, 1, 2, 3], latents=2)
