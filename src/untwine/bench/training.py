"""How long a training step takes on this machine."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from untwine.bench import gpu
from untwine.bench.devices import describe
from untwine.bench.loops import LOOPS, loop
from untwine.bench.rows import write_rows
from untwine.data.families.dots import three_dots
from untwine.errors import UntwineError, refuse_unknown
from untwine.methods import beta_vae, jl1_vae
from untwine.train.devices import check_precision, exact, pick_device
from untwine.train.run import Run
from untwine.train.steps.pack import Pack
from untwine.train.steps.table import Table
from untwine.train.steps.trainer import Trainer

_exact = functools.partial(jl1_vae, anneal=0, estimator="exact", columns=None)
_finite = functools.partial(jl1_vae, anneal=0, estimator="finite", columns=1, eps=0.1)

# The penalty's gradient reaches encoder and decoder, as in Eq. 3, except where the name says decoder (the default).
VARIANTS: dict[str, Callable[[], Any]] = {
    "beta_vae": lambda: beta_vae(4.0),
    "jl1_vae exact": lambda: _exact(through="both"),
    "jl1_vae finite differences": lambda: _finite(columns=None, eps=1e-3, through="both"),
    "jl1_vae exact decoder": _exact,
    "jl1_vae k=1": lambda: _exact(columns=1, through="both"),
    "jl1_vae k=2": lambda: _exact(columns=2, through="both"),
    "jl1_vae k=3": lambda: _exact(columns=3, through="both"),
    "jl1_vae k=1 quarter": lambda: _exact(columns=1, images=0.25, through="both"),
    "jl1_vae k=1 eighth": lambda: _exact(columns=1, images=0.125, through="both"),
    "jl1_vae k=1 decoder": lambda: _exact(columns=1),
    "jl1_vae k=1 quarter decoder": lambda: _exact(columns=1, images=0.25),
    "jl1_vae finite decoder": lambda: _finite(columns=None, eps=1e-3),  # the paper's own estimator
    "jl1_vae finite k=1 decoder": _finite,
    "jl1_vae finite k=1 quarter decoder": lambda: _finite(images=0.25),
    "jl1_vae finite k=1 every=2 decoder": lambda: _finite(every=2),
    "jl1_vae finite k=1 every=3 decoder": lambda: _finite(every=3),
    "jl1_vae finite k=1 every=4 decoder": lambda: _finite(every=4),
}


def run(
    pack_sizes: tuple[int, ...] = (),
    steps: int | None = None,
    batch_size: int = 64,
    latents: tuple[int, ...] = (),
    precisions: tuple[str, ...] = (),
    variants: tuple[str, ...] = (),
    tables: tuple[str, ...] = gpu.TABLES,
    paths: tuple[str, ...] = (),
    device: str = "auto",
    limit_minutes: float | None = None,
    missing: bool = False,
    out: str | None = None,
) -> list[dict[str, Any]]:
    """Milliseconds for each seed and step, on three_dots with rhodes2021's 64 px network.

    All of a step is timed: data, noise, forward, backward, optimiser. On a CPU variants take turns, step by step,
    so that a busy machine slows all of them alike; each number is the median of `steps` turns, and the ratio is to
    beta_vae at the same pack size. Loops in plain torch, one of them with the Jacobian of rhodes2021's code, take turns
    with them, a seed at a time. On a GPU many steps are timed as one block, and each number is the median of seven
    blocks. Its tables have all variants by path and precision, several sizes of packs, several numbers of latents, a
    long training run, and encoding. Benchmarks that run side by side, each with its own file, compile at the same time
    and measure in turn.

    Args:
        pack_sizes: How many seeds train at once. By default 1, 4 and 10; on a GPU 1, 2, 5, 10, 20 and 50.
        steps: Timed steps of each variant, after a few for warming up. By default 5; on a GPU 256 in each block.
        batch_size: Images in a batch.
        latents: Latents, and so columns of the Jacobian. By default 10; on a GPU also 5, 25, 50 and 100.
        precisions: float32, or bfloat16. By default float32; on a GPU both.
        variants: The variants to measure, by default all: beta_vae, "jl1_vae exact", "jl1_vae k=1", and on a CPU
            "plain loop beta_vae" and "plain loop jl1_vae differences".
        tables: What to measure on a GPU: variants, packs, latents, figure4 (a long run), encoding.
        paths: On a GPU, plain or fast; by default both for the table of variants, and fast for the others.
        device: auto, cpu, cuda or mps.
        limit_minutes: On a GPU, begin no more cases after so long.
        missing: On a GPU, measure only what the file lacks.
        out: A JSON file to write the rows to, with what they were measured on. On a GPU rows are added to the file.
    """
    if (steps is not None and steps < 1) or min(pack_sizes, default=1) < 1 or min(latents, default=1) < 1:
        raise UntwineError("a benchmark takes one step or more, and packs of one seed or more, with a latent or more")
    chosen = pick_device(device)
    refuse_unknown("variant", variants, VARIANTS if chosen.type == "cuda" else [*VARIANTS, *LOOPS])
    for precision in precisions:
        check_precision(precision, chosen)
    if chosen.type == "cuda":
        plan = gpu.Plan(tables, variants, pack_sizes, latents, paths, precisions)
        return gpu.measure(
            plan, VARIANTS, chosen, describe(chosen), out, steps or 256, batch_size, limit_minutes, missing
        )
    if len(latents) > 1 or len(precisions) > 1 or tuple(paths) not in ((), ("plain",)) or tables != gpu.TABLES:
        raise UntwineError("tables, paths, and several numbers of latents or precisions, are for a GPU: --device cuda")
    settings = {"latents": (*latents, 10)[0], "precision": (*precisions, "float32")[0], "batch_size": batch_size}
    rows = by_turns(variants or (*VARIANTS, *LOOPS), pack_sizes or (1, 4, 10), steps or 5, chosen, settings)
    if out is not None:
        write_rows(out, rows, {**describe(chosen), "precision": settings["precision"]})
    return rows


def by_turns(
    variants: Sequence[str], pack_sizes: Sequence[int], steps: int, device: torch.device, settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """A row for each variant and pack size; variants take turns, a step each.

    Args:
        variants: Names of variants.
        pack_sizes: How many seeds train at once.
        steps: Timed steps of each variant.
        device: Where to train.
        settings: Further settings of the runs.
    """
    dataset = three_dots(examples=4096)
    table = Table(dataset, device)
    rows = []
    with exact(device):
        for size in pack_sizes:
            turns = {}
            for name in variants:
                if name in LOOPS:
                    turns[name] = Turns(loop(dataset, LOOPS[name], settings["batch_size"], settings["latents"]))
                    continue
                spec = Run(
                    method=VARIANTS[name](),
                    dataset=dataset,
                    seeds=range(size),
                    steps=10**9,
                    log_every=10**9,
                    **settings,
                )
                turns[name] = Turns(Trainer(Pack(spec.members(), spec.info(), device), spec, table).steps(), size)
            for _ in range(2 + steps):
                for turn in turns.values():
                    turn()
            middles = {name: statistics.median(turn.seconds[2:]) for name, turn in turns.items()}
            for name, middle in middles.items():
                base = middles.get("beta_vae")
                per_seed = {"ms_per_seed_and_step": 1e3 * middle, "ratio_to_beta_vae": base and middle / base}
                rows.append({"variant": name, "pack": size, **per_seed})
    return rows


class Turns:
    """Training that makes one step at each call, and the seconds that each took, for each seed.

    Args:
        steps: Makes a step for each item.
        seeds: How many seeds train at once.
    """

    def __init__(self, steps: Iterator[Any], seeds: int = 1):
        self.steps, self.seeds = steps, seeds
        self.seconds: list[float] = []

    def __call__(self) -> None:
        start = time.perf_counter()
        next(self.steps)
        self.seconds.append((time.perf_counter() - start) / self.seeds)
