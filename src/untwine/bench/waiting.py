"""How fast a small model trains beside programs that keep the cores busy, by how threads wait for each other."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from untwine.bench.devices import describe
from untwine.bench.rows import Row, write_rows
from untwine.errors import UntwineError
from untwine.threads import VARIABLE, usable_cores
from untwine.train.devices import pick_device

# What each process does before it trains: torch as it is waits as OpenMP does by default.
WAYS = {"torch as it is": "import torch", "untwine": "import untwine"}
TRAIN = "; import json, sys; from untwine.bench.waiting import trained; print(json.dumps(trained(int(sys.argv[1]))))"
BUSY = "while True: pass"


def run(steps: int = 150, repeats: int = 3, programs: tuple[int, ...] = (), out: str | None = None) -> list[Row]:
    """Seconds of a short training of a dense network, with its threads waiting as torch has it and as untwine does.

    Each training is a process of its own, and the ways take turns; numbers are medians. Untwine lets threads sleep
    while they wait (OMP_WAIT_POLICY=PASSIVE), where you have not chosen otherwise. The weights are the same bits.

    Args:
        steps: Timed steps of each training, after ten for warming up.
        repeats: How often each way is timed.
        programs: The numbers of other programs that keep a core busy each. By default none, one for each core, and
            two for each.
        out: A JSON file to write the rows to, with what they were measured on.
    """
    if steps < 1 or repeats < 1 or min(programs, default=0) < 0:
        raise UntwineError("a benchmark of threads takes 1 step and repeat or more, and 0 programs or more")
    rows = []
    for count in programs or (0, usable_cores(), 2 * usable_cores()):
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        with _busy(count):
            for _ in range(repeats):
                for way in WAYS:
                    found[way].append(_timed(way, steps))
        seconds = {way: statistics.median(one["seconds"] for one in ones) for way, ones in found.items()}
        before, now = seconds.values()
        bits = {one["bits"] for ones in found.values() for one in ones}
        row: Row = {"busy_programs": count, "threads": found["untwine"][0]["threads"], "steps": steps}
        row |= {"torch_as_it_is_s": before, "untwine_s": now, "times_faster": before / now}
        rows.append(row | {"same_bits": len(bits) == 1})
    if out is not None:
        write_rows(out, rows, describe(pick_device("cpu")))
    return rows


def trained(steps: int) -> dict[str, Any]:
    """What a training of so many steps takes in this process, with how many threads, and the checksum of its weights.

    Args:
        steps: The timed steps.
    """
    import torch

    from untwine import datasets, methods
    from untwine.model import networks
    from untwine.train.loop import fit
    from untwine.train.remarks.progress import Reporter
    from untwine.train.run import Run

    times: list[float] = []

    class Clock(Reporter):
        def step(self, step: int) -> None:
            times.append(time.perf_counter())

    spec = Run(
        methods.beta_vae(likelihood="squared_error"),
        datasets.synthetic_nonlinear(samples=2000),
        networks.mlp(hidden=(60, 40), activation="tanh"),
        steps=10 + steps,
        batch_size=128,
    )
    state = fit(spec, device="cpu", progress=Clock()).member(0).state_dict()
    bits = hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in state.values())).hexdigest()
    return {"seconds": times[-1] - times[-1 - steps], "threads": torch.get_num_threads(), "bits": bits}


def _timed(way: str, steps: int) -> dict[str, Any]:
    """What `trained` returns in a process that waits in one of the ways."""
    own = {name: value for name, value in os.environ.items() if name not in (VARIABLE, "GOMP_SPINCOUNT")}
    command = [sys.executable, "-c", WAYS[way] + TRAIN, str(steps)]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UntwineError(f"a training for the benchmark failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    """A context beside which programs keep so many cores busy."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
