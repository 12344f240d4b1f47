"""The speed of training and of encoding on a GPU: blocks of many steps, by path, precision, pack and latents."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import torch

from untwine.bench.devices import alone, free, peak_mib, wait
from untwine.bench.rows import Row, Rows
from untwine.data.contract import Dataset
from untwine.data.families.dots import three_dots
from untwine.errors import brief, refuse_unknown
from untwine.metrics.encoder import Encoder
from untwine.train.devices import exact
from untwine.train.ensemble import Ensemble
from untwine.train.run import Run
from untwine.train.steps.pack import Pack, build
from untwine.train.steps.table import Table
from untwine.train.steps.trainer import Trainer

TABLES = ("variants", "packs", "latents", "figure4", "encoding")
PACKS = (1, 2, 5, 10, 20, 50)
LATENTS = (5, 10, 25, 50, 100)
PATHS = ("fast", "plain")
PRECISIONS = ("float32", "bfloat16")
PACK, WIDTH = 10, 10  # default numbers of seeds and latents
COMPARED = ("beta_vae", "jl1_vae exact", "jl1_vae k=1 quarter")  # where packs or latents vary
FIGURE4 = ("beta_vae", "jl1_vae exact decoder")
PUBLISHED, LONG = 300_000, 20_000  # steps of rhodes2021's Figure 4, and how many of them are run
STATES = 200_000  # 20 windows of 10,000
REPEATS, WARM = 7, 20  # timed blocks, and steps before them
BLOCK_SECONDS = 1.0  # so short that most blocks are not disturbed
KEYS = ("table", "variant", "pack", "latents", "batch", "path", "precision", "batching")


@dataclass(frozen=True)
class Case:
    """One measurement."""

    table: str
    variant: str
    pack: int
    latents: int
    path: str
    precision: str
    batching: str = "auto"


@dataclass(frozen=True)
class Plan:
    """Which cases to measure. What is left empty takes the values of each table."""

    tables: tuple[str, ...] = TABLES
    variants: tuple[str, ...] = ()
    packs: tuple[int, ...] = ()
    latents: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()

    def cases(self, known: Mapping[str, Any]) -> Iterator[Case]:
        """All cases of variants with known names, those that matter most first.

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
                    yield Case(table, variant, PACK, WIDTH, path, precision)
            else:
                packs = (self.packs or PACKS) if table == "packs" else (PACK,)
                latents = (self.latents or LATENTS) if table == "latents" else (WIDTH,)
                variants = self.variants or (FIGURE4 if table == "figure4" else COMPARED)
                for path, precision, size, width, variant in product(fast, both, packs, latents, variants):
                    yield Case(table, variant, size, width, path, precision)

    def _encoding(self) -> Iterator[Case]:
        """Encoding with our kernels, and without: members by vmap, or one by one."""
        for path, size in product(self.paths or PATHS, self.packs or (PACK,)):
            for way in ("auto",) if path == "fast" else ("vmap", "loop"):
                yield Case("encoding", "", size, WIDTH, path, "float32", way)


def measure(
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
    network: Any = "rhodes64",
) -> list[Row]:
    """Measure all cases of a plan, and return their rows; a case that fails has a row that says why.

    Args:
        plan: Which cases to measure.
        variants: Functions that make the method of each variant.
        device: Where to train.
        about: What the rows were measured on.
        out: A JSON file; every row is written there as soon as it is known.
        steps: Steps in a timed block.
        batch_size: Images in a batch.
        limit_minutes: Begin no more cases after so long.
        missing: Measure only what the file lacks.
        dataset: The data to train on; by default three_dots.
        network: The network, or its name.
    """
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
                measured = bench.encoding(case) if case.table == "encoding" else bench.training(case)
        except Exception as error:  # out of memory, or not for these kernels
            measured = {"error": brief(error)}
        rows.put(row | measured | {"peak_mib": peak_mib(device)})
    free(device)
    return rows.new


class Bench:
    """Measures cases on one dataset."""

    def __init__(
        self,
        variants: Mapping[str, Callable[[], Any]],
        device: torch.device,
        steps: int,
        batch_size: int,
        dataset: Dataset,
        network: Any,
    ):
        self.variants = variants
        self.device = device
        self.steps = steps
        self.batch_size = batch_size
        self.dataset = dataset
        self.network = network
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
        """Milliseconds for each seed and step, after compiling and warming up; of a long run also its minutes."""
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
        """Seconds from factors to codes for many states, and how far these codes are from those of the plain path."""
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
        seconds = []
        with alone(self.device):
            encoder(states[: len(states) // 10])
            for _ in range(REPEATS):
                start = self._now()
                encoder(states)
                seconds.append(self._now() - start)
        return {"states": len(states), "seconds": statistics.median(seconds), "deviation": float(error)}

    def _seconds(self, walk: Iterator[Any], count: int) -> float:
        """The time of so many steps."""
        start = self._now()
        for _ in range(count):
            next(walk)
        return self._now() - start

    def _now(self) -> float:
        """The time when the device has done all that it was given."""
        wait(self.device)
        return time.perf_counter()


def _ratios(rows: list[Row]) -> None:
    """Add to each row how much longer its variant takes than beta_vae, all else being equal."""
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
