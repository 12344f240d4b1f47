"""The speed of training and of encoding on a GPU: blocks of many steps, by path, precision, pack and latents."""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import torch

from untwine.bench.rows import Row, Rows
from untwine.data.contract import Dataset
from untwine.data.families.dots import three_dots
from untwine.errors import brief, refuse_unknown
from untwine.metrics.encoder import Encoder
from untwine.train.devices import exact
from untwine.train.ensemble import Ensemble
from untwine.train.pack import Pack, build
from untwine.train.run import Run
from untwine.train.table import Table
from untwine.train.trainer import Trainer

TABLES = ("variants", "packs", "latents", "figure4", "encoding")
PACKS, LATENTS = (1, 2, 5, 10, 20, 50), (5, 10, 25, 50, 100)
PATHS, PRECISIONS = ("fast", "plain"), ("float32", "bfloat16")
PACK, WIDTH = 10, 10  # where nothing else is said: seeds, latents
COMPARED = ("beta_vae", "jl1_vae exact", "jl1_vae k=1 quarter")  # where packs or latents vary
FIGURE4 = ("beta_vae", "jl1_vae exact decoder")
PUBLISHED, LONG = 300_000, 20_000  # steps of rhodes2021's Figure 4, and how many of them are run
STATES = 200_000  # 20 windows of 10,000
REPEATS, WARM, BLOCK_SECONDS = 7, 20, 1.0  # short blocks, most of which nothing disturbs
KEYS = ("table", "variant", "pack", "latents", "batch", "path", "precision", "batching")


@dataclass(frozen=True)
class Case:
    """What is measured in one go."""

    table: str
    variant: str
    pack: int
    latents: int
    path: str
    precision: str
    batching: str = "auto"


@dataclass(frozen=True)
class Plan:
    """Which cases: whatever is empty is as the tables have it."""

    tables: tuple[str, ...] = TABLES
    variants: tuple[str, ...] = ()
    packs: tuple[int, ...] = ()
    latents: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()

    def cases(self, known: Mapping[str, Any]) -> Iterator[Case]:
        """All cases, those that matter most first.

        >>> [case.pack for case in Plan(("packs",), ("beta_vae",), precisions=("float32",)).cases({})]
        [1, 2, 5, 10, 20, 50]
        """
        refuse_unknown("table", self.tables, TABLES)
        refuse_unknown("path", self.paths, PATHS)
        fast, both = self.paths or ("fast",), self.precisions or PRECISIONS
        for table in self.tables:
            if table == "encoding":
                yield from self._encoding()
            elif table == "variants":
                for path, precision, variant in product(self.paths or PATHS, both, self.variants or known):
                    if path == "plain" or "finite" not in variant or self.variants:
                        yield Case(table, variant, PACK, WIDTH, path, precision)
            else:
                packs = (self.packs or PACKS) if table == "packs" else (PACK,)
                latents = (self.latents or LATENTS) if table == "latents" else (WIDTH,)
                some = self.variants or (FIGURE4 if table == "figure4" else COMPARED)
                for path, precision, size, width, variant in product(fast, both, packs, latents, some):
                    yield Case(table, variant, size, width, path, precision)

    def _encoding(self) -> Iterator[Case]:
        """With our kernels, or without, then also one member after the other."""
        for path, size in product(self.paths or PATHS, self.packs or (PACK,)):
            for way in ("auto",) if path == "fast" else ("vmap", "loop"):
                yield Case("encoding", "", size, WIDTH, path, "float32", way)


def run(
    plan: Plan,
    variants: Mapping[str, Callable[[], Any]],
    device: torch.device,
    about: dict[str, Any],
    out: str | None = None,
    steps: int = 256,
    batch_size: int = 64,
    limit_minutes: float | None = None,
    missing: bool = False,
    dataset: Dataset | None = None,
    network: str = "rhodes64",
) -> list[Row]:
    """Measure, and write every row as soon as it is known; a case that fails has a row that says why."""
    start = time.monotonic()
    dataset = three_dots() if dataset is None else dataset
    bench = Bench(variants, device, steps, batch_size, dataset, network)
    rows = Rows(out, KEYS, about, _ratios)
    for case in plan.cases(variants):
        if limit_minutes is not None and time.monotonic() - start > 60 * limit_minutes:
            break
        row = asdict(case) | {"variant": case.variant or None, "batch": batch_size}
        if missing and "error" not in (rows.find(row) or {"error": ""}):
            continue
        free(device)
        try:
            with exact(device):
                found = bench.encoding(case) if case.table == "encoding" else bench.training(case)
        except Exception as error:  # out of memory, or not for these kernels
            found = {"error": brief(error)}
        rows.put(row | found | {"peak_mib": _peak(device)})
    free(device)
    return rows.new


class Bench:
    """What is measured, on one dataset."""

    def __init__(
        self,
        variants: Mapping[str, Callable[[], Any]],
        device: torch.device,
        steps: int,
        batch_size: int,
        dataset: Dataset,
        network: str,
    ):
        self.variants, self.device, self.steps, self.batch_size = variants, device, steps, batch_size
        self.dataset, self.network = dataset, network
        self.table = Table(dataset, device)

    def _run(self, case: Case, **more: Any) -> Run:
        settings: dict[str, Any] = {"precision": case.precision, **more}
        return Run(
            dataset=self.dataset,
            network=self.network,
            latents=case.latents,
            batch_size=self.batch_size,
            seeds=range(case.pack),
            **settings,
        )

    def training(self, case: Case) -> Row:
        """Milliseconds for each seed and step, compiled and warm; of a long run its minutes, without compiling."""
        long = case.table == "figure4"
        method = self.variants[case.variant]()
        logged = {"log_every": 1_000, "steps": PUBLISHED} if long else {"log_every": 10**9, "steps": 10**9}
        spec = self._run(case, method=method, **logged)
        trainer = Trainer(Pack(spec.members(), spec.info(), self.device, case.batching), spec, self.table)
        start = self._now()
        if case.path == "fast":
            trainer.compile()
        compiled = self._now() - start
        walk = trainer.steps()
        with alone(self.device):
            self._seconds(walk, WARM)
            each = self._seconds(walk, 5) / 5
            count = LONG if long else max(5, min(self.steps, int(BLOCK_SECONDS / each)))
            middle = statistics.median(self._seconds(walk, count) for _ in range(1 if long else REPEATS)) / count
        minutes = {"minutes_for_300000_steps": PUBLISHED * middle / 60} if long else {}
        speed = {"ms_per_seed_and_step": 1e3 * middle / case.pack, "steps": count, "compile_seconds": compiled}
        return speed | minutes | {"diverged": int((trainer.state.died >= 0).sum())}

    def encoding(self, case: Case) -> Row:
        """Seconds for the codes of all states, from factors to arrays; how far they are from the plain path's."""
        spec = self._run(case, method="beta_vae", steps=1)
        info, members = spec.info(), spec.members()
        ensemble = Ensemble(members, [build(member, info) for member in members], self.device)
        if case.batching != "auto":
            ensemble._stack.batching = case.batching
        states = Encoder(ensemble.encode, self.dataset).space.sample(STATES, seed=0)
        few = states[:1000]
        ensemble.kernels = False
        plain = Encoder(ensemble.encode, self.dataset)(few)
        ensemble.kernels = case.path == "fast"
        encoder = Encoder(ensemble.encode, self.dataset)
        error = abs(encoder(few) - plain).max() / abs(plain).max()
        found = []
        with alone(self.device):
            encoder(states[: len(states) // 10])
            for _ in range(REPEATS):
                start = self._now()
                encoder(states)
                found.append(self._now() - start)
        return {"states": len(states), "seconds": statistics.median(found), "deviation": float(error)}

    def _seconds(self, walk: Iterator[Any], count: int) -> float:
        start = self._now()
        for _ in range(count):
            next(walk)
        return self._now() - start

    def _now(self) -> float:
        """The time once the device has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


@contextlib.contextmanager
def alone(device: torch.device) -> Iterator[None]:
    """No other benchmark of this user works on this GPU meanwhile."""
    if device.type != "cuda" or find_spec("fcntl") is None:  # Windows has none
        yield
        return
    import fcntl

    with (Path(tempfile.gettempdir()) / f"untwine-bench-{os.getuid()}-{device.index or 0}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ratios(rows: list[Row]) -> None:
    """Add how much longer a variant takes than beta_vae in otherwise the same case."""
    keys = [key for key in KEYS if key != "variant"]
    base = {
        tuple(row.get(key) for key in keys): row.get("ms_per_seed_and_step")
        for row in rows
        if row.get("variant") == "beta_vae"
    }
    for row in rows:
        other, own = base.get(tuple(row.get(key) for key in keys)), row.get("ms_per_seed_and_step")
        if other is not None and own is not None:
            row["ratio_to_beta_vae"] = own / other


def free(device: torch.device) -> None:
    """Give back what the last case took, and forget its peak."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: torch.device) -> float | None:
    return torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else None
