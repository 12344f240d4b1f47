"""How long a training step takes on this machine."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from untwine.bench import gpu as bench_gpu
from untwine.data.families.dots import three_dots
from untwine.errors import UntwineError, refuse_unknown
from untwine.methods import beta_vae, jl1_vae
from untwine.scoring import results
from untwine.train.devices import check_precision, exact, pick_device
from untwine.train.pack import Pack
from untwine.train.run import Run
from untwine.train.table import Table
from untwine.train.trainer import Trainer

# Through encoder and decoder, as Eq. 3 says, but where it says decoder (the default of the method).
VARIANTS: dict[str, Callable[[], Any]] = {
    "beta_vae": lambda: beta_vae(4.0),
    "jl1_vae exact": lambda: jl1_vae(anneal=0, through="both"),
    "jl1_vae finite differences": lambda: jl1_vae(anneal=0, estimator="finite", through="both"),
    "jl1_vae exact decoder": lambda: jl1_vae(anneal=0),
    "jl1_vae k=1": lambda: jl1_vae(anneal=0, columns=1, through="both"),
    "jl1_vae k=2": lambda: jl1_vae(anneal=0, columns=2, through="both"),
    "jl1_vae k=3": lambda: jl1_vae(anneal=0, columns=3, through="both"),
    "jl1_vae k=1 quarter": lambda: jl1_vae(anneal=0, columns=1, images=0.25, through="both"),
    "jl1_vae k=1 eighth": lambda: jl1_vae(anneal=0, columns=1, images=0.125, through="both"),
    "jl1_vae k=1 decoder": lambda: jl1_vae(anneal=0, columns=1),
    "jl1_vae k=1 quarter decoder": lambda: jl1_vae(anneal=0, columns=1, images=0.25),
}


def run(
    pack_sizes: tuple[int, ...] = (),
    steps: int | None = None,
    batch_size: int = 64,
    latents: tuple[int, ...] = (),
    precisions: tuple[str, ...] = (),
    variants: tuple[str, ...] = (),
    tables: tuple[str, ...] = bench_gpu.TABLES,
    paths: tuple[str, ...] = (),
    device: str = "auto",
    limit_minutes: float | None = None,
    missing: bool = False,
    out: str | None = None,
) -> list[dict[str, Any]]:
    """Milliseconds for each seed and step, on three_dots with rhodes2021's 64 px network.

    The whole step is timed: data, noise, forward, backward, optimiser. On a CPU variants take turns, step by step,
    so that a busy machine slows all of them alike; each number is the median of `steps` turns, and the ratio is to
    beta_vae at the same pack size. On a GPU many steps are timed as one block, the median of seven such: of all
    variants by path and precision, of packs of several sizes, of several numbers of latents, and of a whole training
    run; and the time that encoding takes. Benchmarks that run side by side, with files of their own, compile at the
    same time and measure in turn.

    Args:
        pack_sizes: How many seeds train at once. By default 1, 4 and 10; on a GPU 1, 2, 5, 10, 20 and 50.
        steps: Timed steps of each variant, after some for warming up. By default 5; on a GPU 256 in each block.
        batch_size: Images in a batch.
        latents: Latents, and so columns of the Jacobian. By default 10; on a GPU also 5, 25, 50 and 100.
        precisions: float32, or bfloat16. By default float32; on a GPU both.
        variants: Some of them instead of all: beta_vae, "jl1_vae exact", "jl1_vae k=1", ...
        tables: What to measure on a GPU: variants, packs, latents, figure4 (a long run), encoding.
        paths: On a GPU, plain or fast; by default both where variants are compared, and else fast.
        device: auto, cpu, cuda or mps.
        limit_minutes: On a GPU, begin nothing more after so long.
        missing: On a GPU, measure only what the file lacks.
        out: A JSON file to write the rows to, with what they were measured on. On a GPU rows are added to those that
            it has.
    """
    if (steps is not None and steps < 1) or min(pack_sizes, default=1) < 1 or min(latents, default=1) < 1:
        raise UntwineError("a benchmark takes one step or more, and packs of one seed or more, with a latent or more")
    refuse_unknown("variant", variants, VARIANTS)
    made = pick_device(device)
    for precision in precisions:
        check_precision(precision, made)
    if made.type == "cuda":
        plan = bench_gpu.Plan(tables, variants, pack_sizes, latents, paths, precisions)
        return bench_gpu.run(plan, VARIANTS, made, about(made), out, steps or 256, batch_size, limit_minutes, missing)
    if len(latents) > 1 or len(precisions) > 1 or tuple(paths) not in ((), ("plain",)) or tables != bench_gpu.TABLES:
        raise UntwineError("tables, paths, and several numbers of latents or precisions, are for a GPU: --device cuda")
    single = {"latents": (*latents, 10)[0], "precision": (*precisions, "float32")[0], "batch_size": batch_size}
    rows = by_turns(variants or tuple(VARIANTS), pack_sizes or (1, 4, 10), steps or 5, made, single)
    if out is not None:
        results.write_rows(out, rows, {**about(made), "precision": single["precision"]})
    return rows


def by_turns(
    variants: Sequence[str], pack_sizes: Sequence[int], steps: int, device: torch.device, settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """Variants take turns, a step each."""
    dataset = three_dots(examples=4096)
    table = Table(dataset, device)
    rows = []
    with exact(device):
        for size in pack_sizes:
            turns = {}
            for name in variants:
                spec = Run(
                    method=VARIANTS[name](),
                    dataset=dataset,
                    seeds=range(size),
                    steps=10**9,
                    log_every=10**9,
                    **settings,
                )
                turns[name] = Turns(Trainer(Pack(spec.members(), spec.info(), device), spec, table))
            for _ in range(2 + steps):
                for turn in turns.values():
                    turn()
            middles = {name: statistics.median(turn.seconds[2:]) for name, turn in turns.items()}
            for name, middle in middles.items():
                base = middles.get("beta_vae")
                per_seed = {"ms_per_seed_and_step": 1e3 * middle / size, "ratio_to_beta_vae": base and middle / base}
                rows.append({"variant": name, "pack": size, **per_seed})
    return rows


class Turns:
    """A trainer that goes one step at a time, and how long each took."""

    def __init__(self, trainer: Trainer):
        self.steps = trainer.steps()
        self.seconds: list[float] = []

    def __call__(self) -> None:
        start = time.perf_counter()
        next(self.steps)
        self.seconds.append(time.perf_counter() - start)


def about(device: torch.device) -> dict[str, Any]:
    """The machine on which something was measured."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"torch": torch.__version__, "device": str(device), "hardware": name, "threads": torch.get_num_threads()}
