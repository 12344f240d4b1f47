"""A small world that the rows of all tables refer to: runs, one that was stopped, pictures, and files of a user."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import untwine as uw
from untwine.train.remarks.progress import Reporter

SWEEP = """
[run]
dataset = "synthetic-linear"
network = "rolinek-linear"
seeds = "0-1"
steps = 2
[[runs]]
method = "beta-vae"
grid = { "method.beta" = [1, 4] }
[score]
metrics = ["mig"]
"""


class _PowerCut(Reporter):
    def step(self, step: int) -> None:
        if step == 3:
            raise RuntimeError("the power went")


def populate(world: Path) -> None:
    """Write everything that rows refer to, by paths relative to the world."""
    world.mkdir(parents=True, exist_ok=True)
    data = {"name": "synthetic_linear", "samples": 200}
    vae = uw.methods.vae(likelihood="squared_error")
    run = uw.Run(vae, data, "rolinek_linear", seeds="0-1", steps=2, log_every=1)
    uw.fit(run, world / "runs" / "vectors", progress=False)
    uw.evaluate(world / "runs" / "vectors", ["mig"], points=50, progress=False)
    stopped = uw.Run(vae, data, "rolinek_linear", steps=5, log_every=1)
    with pytest.raises(RuntimeError):
        uw.fit(stopped, world / "runs" / "stopped", checkpoint_seconds=0, progress=_PowerCut())
    pictures = np.random.default_rng(0).integers(0, 256, (12, 8, 8), dtype=np.uint8)
    (world / "pictures").mkdir()
    for number, pixels in enumerate(pictures):
        Image.fromarray(pixels).save(world / "pictures" / f"{number:02}.png")
    np.save(world / "pictures.npy", pictures)
    np.savez(world / "pictures.npz", images=pictures, labels=np.arange(12))
    seen = uw.Run("beta_vae", uw.datasets.images(str(world / "pictures.npy")), {"name": "mlp", "hidden": [8]}, steps=1)
    uw.fit(seen, world / "runs" / "pictures", progress=False)
    (world / "factors.csv").write_text("x,y\n" + "".join(f"{i % 3},{i // 3}\n" for i in range(12)))
    (world / "sweep.toml").write_text(SWEEP)
    (world / "notes.txt").write_text("mine")
    (world / "parts.py").write_text("import untwine\n")
    (world / "broken.py").write_text("def f(:\n")
    (world / "raises.py").write_text("raise ValueError('no such luck')\n")
    (world / "empty").mkdir()


def contents(world: Path) -> dict[str, bytes | None]:
    """Every file with its content, and every folder and link."""
    found: dict[str, bytes | None] = {}
    for folder, folders, files in os.walk(world):
        for name in (*folders, *files):
            path = Path(folder) / name
            whole = path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24
            found[str(path.relative_to(world))] = path.read_bytes() if whole else None
    return found
