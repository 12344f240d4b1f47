"""A soak: does memory stay flat and speed steady over half an hour, and over a million steps?

`python -m tests.torture.soak` writes results/soak.json; `--minutes` and `--steps` shorten it, and 0 leaves a part as it
is stored.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import resource
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import untwine as uw
from untwine import files
from untwine.train.remarks.progress import Reporter

FLAT = 8_000_000  # bytes that memory may grow by after the first tenth
STEADY = 1.15  # the most that a step of the last tenth may take, as a multiple of one of the first
TENTHS = 10


class Enough(Exception):
    """The time is up."""


class Samples(Reporter):
    """Notes the step, the time, the processor's time and the memory, ten thousand times at most.

    Args:
        seconds: After this time it stops training; None lets it end.
    """

    def __init__(self, seconds: float | None):
        self.seconds, self.rows, self.every = seconds, list[tuple[int, float, float, int]](), 1

    def step(self, step: int) -> None:
        if step % self.every == 0:
            now = time.monotonic()
            self.rows.append((step, now, time.process_time(), memory()))
            if len(self.rows) == 10_000:
                self.rows, self.every = self.rows[::2], 2 * self.every
            if self.seconds is not None and now - self.rows[0][1] > self.seconds:
                raise Enough


def memory() -> int:
    """The bytes of memory that this process holds now; where the system does not say, the most it ever held."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def small(**changes: Any) -> uw.Run:
    """A run whose steps take about a millisecond."""
    settings: dict[str, Any] = {
        "method": uw.methods.beta_vae(0.1, likelihood="squared_error"),
        "dataset": uw.datasets.synthetic_linear(samples=1000),
        "network": uw.networks.mlp(hidden=(8,)),
        "latents": 2,
        "batch_size": 16,
    }
    return uw.Run(**(settings | changes))


def soaked(run: uw.Run, seconds: float | None) -> dict[str, Any]:
    """What a training in a folder takes: memory and the time of a step, for each tenth of it.

    Args:
        run: What to train.
        seconds: When to stop it; None trains all of it.
    """
    samples = Samples(seconds)
    with tempfile.TemporaryDirectory(prefix="untwine-soak-") as place, contextlib.suppress(Enough):
        uw.fit(run, Path(place) / "run", "cpu", progress=samples, checkpoint_seconds=10)
    step, wall, processor, held = np.array(samples.rows, dtype=np.float64).T
    edges = np.searchsorted(step, np.linspace(step[0], step[-1], TENTHS + 1))
    edges[-1] = len(step) - 1
    pairs = list(itertools.pairwise(edges))
    pace = [float((processor[b] - processor[a]) / (step[b] - step[a])) for a, b in pairs]
    first = edges[1]
    found = {
        "members": len(run.seeds),
        "log_every": run.log_every,
        "steps": int(step[-1]),
        "minutes": round(float(wall[-1] - wall[0]) / 60, 2),
        "memory_mb_by_tenth": [round(float(np.median(held[a : b + 1])) / 1e6, 2) for a, b in pairs],
        "grown_mb_after_first_tenth": round(float(held[-1] - held[first]) / 1e6, 3),
        "grown_bytes_a_step": round(float(np.polyfit(step[first:], held[first:], 1)[0]), 4),
        "processor_ms_a_step_by_tenth": [round(1e3 * one, 4) for one in pace],
        "last_tenth_over_first": round(pace[-1] / pace[0], 4),
    }
    flat, steady = found["grown_mb_after_first_tenth"] * 1e6 < FLAT, found["last_tenth_over_first"] < STEADY
    return found | {"flat": flat, "steady": steady}


def main(words: list[str]) -> int:
    """Run both parts, print and store what they took; 1 if memory grew or speed fell."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long four seeds train with every step logged")
    parser.add_argument("--steps", type=int, default=1_000_000, help="how many steps a single small model trains")
    parser.add_argument("--out", type=Path, default=Path("results/soak.json"), help="where to write the numbers")
    asked = parser.parse_args(words)
    torch.set_num_threads(1)
    stored = json.loads(asked.out.read_text()) if asked.out.exists() else {"parts": {}}
    parts, commands = stored["parts"], stored.get("commands", [])
    plan = []
    if asked.minutes:
        plan.append(("every step logged", small(seeds=range(4), steps=10**9, log_every=1), 60 * asked.minutes))
    if asked.steps:
        plan.append(("many steps", small(seeds=[0], steps=asked.steps, log_every=100), None))
    commands = [*commands, shlex.join(["python", "-m", "tests.torture.soak", *words])]
    for name, run, seconds in plan:
        parts[name] = soaked(run, seconds)
        print(f"{name}: {parts[name]}", flush=True)
        about: dict[str, Any] = {"commands": commands, "threads": 1}
        about |= {"untwine": uw.__version__, "torch": torch.__version__, "python": platform.python_version()}
        files.write_json(asked.out, about | {"machine": platform.machine(), "parts": parts})
    return 0 if all(part["flat"] and part["steady"] for part in parts.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
