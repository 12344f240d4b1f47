"""How long a step of any run takes for each of its seeds, measured by a few steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import torch

from untwine.bench.devices import alone, free, wait
from untwine.train.devices import exact
from untwine.train.run import Run
from untwine.train.steps.pack import Pack
from untwine.train.steps.table import Table
from untwine.train.steps.trainer import Trainer

WARM = 20  # steps before those that are timed
TRIED = 5  # steps of which a rough pace is known


@dataclass(frozen=True)
class Pace:
    """How fast a run trains: seconds of a step for each seed, by blocks of steps."""

    blocks: list[float]
    path: str
    compile_seconds: float


def measured(run: Run, device: torch.device, steps: int = 256, blocks: int = 7, path: str = "auto") -> Pace:
    """The pace of a run, all its seeds in one pack.

    All of a step is timed: data, noise, forward, backward, optimiser. Compiling is timed apart. A busy machine makes
    single blocks slow; their median hardly notices.

    Args:
        run: What to train; nothing of it is kept.
        device: Where to train.
        steps: Steps in a block.
        blocks: The number of blocks.
        path: "auto", "fast" or "plain".
    """
    endless = run.replace(steps=10**9, log_every=10**9)
    free(device)
    with exact(device):
        uses = (WARM + steps * blocks) * run.batch_size * len(run.seeds)
        table = Table(run.make_dataset(), device, uses=uses, standard=run.info().standard)
        trainer = Trainer(Pack(run.members(), run.info(), device), endless, table)
        wait(device)
        begun = perf_counter()
        trainer.take_path(path)
        compiled = perf_counter() - begun
        walk = trainer.steps()
        with alone(device):
            _timed(walk, min(WARM, steps), device)
            times = [_timed(walk, steps, device) for _ in range(blocks)]
    free(device)
    return Pace([time / steps / len(run.seeds) for time in times], trainer.path, compiled)


def rough_pace(run: Run, device: torch.device) -> float:
    """The seconds of a step for each seed from a few steps, for a forecast before anything is trained."""
    return measured(run, device, TRIED, 1).blocks[0]


def _timed(walk: Iterator[object], steps: int, device: torch.device) -> float:
    wait(device)
    begun = perf_counter()
    for _ in range(steps):
        next(walk)
    wait(device)
    return perf_counter() - begun
