"""How long a training step takes on this machine, as ratios measured side by side in one run."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from untwine.data.dots import three_dots
from untwine.errors import UntwineError
from untwine.experiments import results
from untwine.methods import beta_vae, jl1_vae
from untwine.train.batches import Table
from untwine.train.devices import check_precision, exact, pick_device
from untwine.train.loop import Trainer
from untwine.train.run import Run

VARIANTS: dict[str, Callable[[], Any]] = {
    "beta_vae": lambda: beta_vae(4.0),
    "jl1_vae exact": lambda: jl1_vae(anneal=0),
    "jl1_vae finite differences": lambda: jl1_vae(anneal=0, estimator="finite"),
    "jl1_vae k=1": lambda: jl1_vae(anneal=0, columns=1),
    "jl1_vae k=2": lambda: jl1_vae(anneal=0, columns=2),
    "jl1_vae k=3": lambda: jl1_vae(anneal=0, columns=3),
}


def run(
    pack_sizes: tuple[int, ...] = (1, 4, 10),
    steps: int = 5,
    batch_size: int = 64,
    latents: int = 10,
    precision: str = "float32",
    device: str = "auto",
    out: str | None = None,
) -> list[dict[str, Any]]:
    """Milliseconds for each seed and step, on three_dots with rhodes2021's 64 px network.

    The whole step is timed: data, noise, forward, backward, optimiser. Variants take turns, step by step,
    so that a busy machine slows all of them alike; each number is the median of `steps` turns, and the
    ratio is to beta_vae at the same pack size.

    Args:
        pack_sizes: How many seeds train at once.
        steps: Timed steps of each variant, after two for warming up.
        batch_size: Images in a batch.
        latents: Latents, and so columns of the Jacobian.
        precision: float32, or bfloat16 (autocast; tangents stay in float32).
        device: auto, cpu, cuda or mps.
        out: A JSON file to write the rows to, with what they were measured on.
    """
    if steps < 1 or not pack_sizes or min(pack_sizes) < 1:
        raise UntwineError("a benchmark takes one step or more, and packs of one seed or more")
    made = pick_device(device)
    check_precision(precision, made)
    dataset = three_dots(examples=4096)
    table = Table(dataset, made)
    rows = []
    with exact(made):
        for size in pack_sizes:
            common = {"dataset": dataset, "latents": latents, "batch_size": batch_size, "precision": precision}
            turns = {}
            for name, method in VARIANTS.items():
                spec = Run(method=method(), seeds=range(size), steps=10**9, log_every=10**9, **common)
                turns[name] = Turns(Trainer(spec.members(), spec, table, made, "auto"))
            for _ in range(2 + steps):
                for turn in turns.values():
                    turn()
            base = statistics.median(turns["beta_vae"].seconds[2:])
            for name, turn in turns.items():
                middle = statistics.median(turn.seconds[2:])
                per_seed = {"ms_per_seed_and_step": 1e3 * middle / size, "ratio_to_beta_vae": middle / base}
                rows.append({"variant": name, "pack": size, **per_seed})
    if out is not None:
        results.write_rows(out, rows, {**_machine(made), "precision": precision})
    return rows


class Turns:
    """A trainer that goes one step at a time, and how long each took."""

    def __init__(self, trainer: Trainer):
        self.device, self.steps = trainer.pack.device, trainer.steps()
        self.seconds: list[float] = []

    def __call__(self) -> None:
        _wait(self.device)
        start = time.perf_counter()
        next(self.steps)
        _wait(self.device)
        self.seconds.append(time.perf_counter() - start)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _machine(device: torch.device) -> dict[str, Any]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"torch": torch.__version__, "device": str(device), "hardware": name, "threads": torch.get_num_threads()}
