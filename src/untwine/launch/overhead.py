"""What sweeps cost beyond training: workers, units, and thousands of members in one folder."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from untwine.bench.devices import describe
from untwine.bench.rows import Row, write_rows
from untwine.errors import UntwineError
from untwine.launch import mapping
from untwine.launch.sweeping import Sweep, sweep
from untwine.launch.tasks import Means
from untwine.launch.units import work
from untwine.train.devices import pick_device
from untwine.train.loop import fit

BETAS = 10  # values of beta in the sweep of many members


def run(
    calls: int = 200,
    units: int = 20,
    members: int = 10_000,
    engines: tuple[str, ...] = tuple(mapping.ENGINES),
    out: str | None = None,
) -> list[Row]:
    """What a sweep costs beyond training: a unit by each engine, and thousands of members in one folder.

    Members are as small as they can be: a dense network of four units, one step. For each engine with one worker:
    seconds until the first of many empty calls is answered, and milliseconds of each further call, of a unit that
    trains one member, and of one that scores it too; `fit` is the same training without any folder. The last row is
    a sweep of many members in packs of 20, without scores: seconds to plan it, of all of it, to ask how far it is,
    and to find that nothing is left to do; its files, and their bytes with and without weights.

    Args:
        calls: Empty calls for each engine.
        units: Units for each engine.
        members: Members of the sweep; 0 leaves it out.
        engines: The engines.
        out: A JSON file to write the rows to, with what they were measured on.
    """
    if calls < 2 or units < 2 or members % BETAS:
        raise UntwineError(f"a benchmark of sweeps takes 2 calls and units or more, and a multiple of {BETAS} members")
    for engine in engines:
        mapping.check(engine, Means())
    with tempfile.TemporaryDirectory(prefix="untwine-bench-") as folder:
        rows = [_of_engine(engine, calls, units, Path(folder)) for engine in engines]
        if members:
            rows.append(_of_many(members, Path(folder) / "many"))
    if out is not None:
        write_rows(out, rows, describe(pick_device("cpu")))
    return rows


def nothing(spec: Any) -> None:
    """An empty call."""


def _of_engine(engine: str, calls: int, units: int, folder: Path) -> Row:
    means = Means(workers=1, gpus=0)
    begun = time.perf_counter()
    first, each = _paced(mapping.outcomes(nothing, range(calls), engine, means))
    row = {"engine": engine, "start_s": first - begun, "call_ms": 1e3 * each}
    for name, score in {"unit_ms": False, "scored_unit_ms": {"metrics": ["mig"], "points": 50}}.items():
        made = Sweep.from_json(_spec(units, [1.0], score))
        planned = made.units(folder / f"{engine}-{name}", "cpu", pack=1)
        row[name] = 1e3 * _paced(work(planned, engine, means, "units", progress=False))[1]  # type: ignore[arg-type]
    if engine == "inline":
        runs = [unit.run for unit in planned if unit.run]
        row["fit_ms"] = 1e3 * _paced(fit(one, device="cpu", progress=False) for one in runs)[1]
    return row


def _paced(answers: Iterator[Any]) -> tuple[float, float]:
    """When the first answer came, and the seconds of each further one."""
    next(answers)
    first = time.perf_counter()
    count = sum(1 for _ in answers)
    return first, (time.perf_counter() - first) / count


def _of_many(members: int, folder: Path) -> Row:
    content = _spec(members // BETAS, [1.0 + i for i in range(BETAS)], False)
    row: Row = {"members": members, "packs": len(Sweep.from_json(content).units(folder, "cpu"))}
    row["plan_s"] = _seconds(lambda: Sweep.from_json(content).units(folder, "cpu"))
    row["sweep_s"] = _seconds(lambda: sweep(content, folder, device="cpu", progress=False))
    row["status_s"] = _seconds(lambda: Sweep.from_json(content).table(folder).counts())
    row["again_s"] = _seconds(lambda: sweep(content, folder, device="cpu", progress=False))
    files = [file for file in folder.rglob("*") if file.is_file()]
    weights = sum(file.stat().st_size for file in files if file.suffix == ".safetensors")
    whole = sum(file.stat().st_size for file in files)
    return row | {"files": len(files), "bytes": whole, "bytes_without_weights": whole - weights}


def _seconds(function: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def _spec(seeds: int, betas: list[float], score: Any) -> dict[str, Any]:
    """A sweep of members that train in no time."""
    shared = {
        "method": {"name": "beta_vae", "likelihood": "squared_error"},
        "dataset": {"name": "synthetic_linear", "samples": 100, "levels": 16},
        "network": {"name": "mlp", "hidden": [4]},
        "latents": 2,
        "seeds": f"0-{seeds - 1}",
        "steps": 1,
        "batch_size": 8,
        "lr": 0.01,
    }
    return {"run": shared, "grid": {"method.beta": betas}, "score": score}
