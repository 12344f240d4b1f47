"""How the members of a pack are best mapped: all at once by vmap, or one by one (in threads on a CPU)."""

from __future__ import annotations

import statistics
import time
from typing import Any

from untwine import datasets, methods
from untwine.bench.devices import describe, wait
from untwine.bench.rows import Row, write_rows
from untwine.errors import UntwineError
from untwine.model import networks
from untwine.train.devices import exact, pick_device
from untwine.train.run import Run
from untwine.train.steps.pack import Pack
from untwine.train.steps.table import Table
from untwine.train.steps.trainer import Trainer

WAYS = ("loop", "vmap")


def run(
    pack_sizes: tuple[int, ...] = (1, 4, 10), steps: int = 5, device: str = "auto", out: str | None = None
) -> list[Row]:
    """Milliseconds for each seed and step of a dense and a convolutional network, members mapped in both ways.

    Both ways take turns, step by step, and each number is a median. It is why dense networks are mapped by vmap, and
    convolutional ones on a CPU one by one.

    Args:
        pack_sizes: How many seeds train at once.
        steps: Timed steps, after one for warming up.
        device: auto, cpu, cuda or mps.
        out: A JSON file to write the rows to, with what they were measured on.
    """
    if steps < 1 or min(pack_sizes, default=0) < 1:
        raise UntwineError("a benchmark takes one step or more, and packs of one seed or more")
    chosen = pick_device(device)
    rows = []
    with exact(chosen):
        for name, settings in _cases().items():
            table = Table(settings["dataset"], chosen)
            for size in pack_sizes:
                spec = Run(**settings, seeds=range(size), steps=10**9, log_every=10**9)
                packs = {way: Pack(spec.members(), spec.info(), chosen, way) for way in WAYS}
                trainers = {way: Trainer(pack, spec, table).steps() for way, pack in packs.items()}
                seconds: dict[str, list[float]] = {way: [] for way in WAYS}
                for _ in range(1 + steps):
                    for way, trainer in trainers.items():
                        start = time.perf_counter()
                        next(trainer)
                        wait(chosen)
                        seconds[way].append(time.perf_counter() - start)
                each = {way: 1e3 * statistics.median(times[1:]) / size for way, times in seconds.items()}
                rows.append({"network": name, "pack": size, **{f"{way}_ms": each[way] for way in WAYS}})
    if out is not None:
        write_rows(out, rows, describe(chosen))
    return rows


def _cases() -> dict[str, dict[str, Any]]:
    """Runs without their seeds."""
    return {
        "mlp 60-40": {
            "method": methods.jl1_vae(anneal=0, columns=None, estimator="exact", likelihood="squared_error"),
            "dataset": datasets.synthetic_nonlinear(samples=4096),
            "network": networks.mlp(hidden=(60, 40), activation="tanh"),
        },
        "rhodes64": {
            "method": methods.beta_vae(),
            "dataset": datasets.three_dots(examples=1024),
            "network": networks.rhodes64(),
        },
    }
