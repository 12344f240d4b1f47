"""How many steps a run has where nobody says so, on a CPU those of minutes rather than days; and how long it takes."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from untwine.cli import output
from untwine.errors import UntwineError
from untwine.methods import methods
from untwine.methods.registry import DEFAULTS
from untwine.progress import duration
from untwine.train.remarks.progress import Reporter

# A step of a 64 px network takes two cores 50 to 100 ms, so that a model takes 8 to 17 minutes.
CPU_STEPS = 10_000
PATIENCE = 3.0  # seconds of training after which its pace is known
SHORT = 20.0  # seconds: of a run that takes no longer, nothing is said


def default_length(method: str, device: str) -> dict[str, int]:
    """The steps of a run, and those over which its weights rise (`anneal`) where the method has them.

    Args:
        method: The name of the method.
        device: The type of the device. On a CPU a run has at most `CPU_STEPS`, and anneals over the same share of them.

    >>> default_length("jl1_vae", "cuda"), default_length("jl1_vae", "cpu"), default_length("vae", "cpu")
    ({'steps': 300000, 'anneal': 100000}, {'steps': 10000, 'anneal': 3333}, {'steps': 10000})
    """
    published = int(getattr(methods[method], "published", {}).get("steps", DEFAULTS["steps"]))
    steps = min(published, CPU_STEPS) if device == "cpu" else published
    parameters = inspect.signature(methods[method]).parameters
    if "anneal" not in parameters:
        return {"steps": steps}
    return {"steps": steps, "anneal": parameters["anneal"].default * steps // published}


def begun_length(out: Path) -> dict[str, int]:
    """The steps of the run in a folder, and those of its `anneal`, so that the same command resumes it anywhere."""
    from untwine.train.folders.record import Record

    try:
        spec = Record.read(out).content["run"]
    except UntwineError:  # there is none yet, or it is damaged, which `fit` will say
        return {}
    method: Mapping[str, Any] = spec["method"]
    return {"steps": spec["steps"], **({"anneal": method["anneal"]} if "anneal" in method else {})}


def shorter_than_published(method: str, length: Mapping[str, int]) -> str | None:
    """A sentence about a length that is not the published one; None where it is.

    Args:
        method: The name of the method.
        length: What `default_length` returns.

    >>> shorter_than_published("vae", {"steps": 10_000})
    'on a CPU this run has 10,000 steps rather than the published 300,000; for those: --steps 300000'
    """
    published = default_length(method, "cuda")
    if length["steps"] == published["steps"]:
        return None
    rising = f", and its weights rise over {length['anneal']:,} of them" if length.get("anneal") else ""
    more = f" --anneal {published['anneal']}" if published.get("anneal") else ""
    return (
        f"on a CPU this run has {length['steps']:,} steps rather than the published {published['steps']:,}{rising}; "
        f"for those: --steps {published['steps']}{more}"
    )


class Forecast(Reporter):
    """Says once, after the first steps, how long a run will take.

    Args:
        members: How many members are left to train, in all packs.
    """

    beside_bar = True

    def __init__(self, members: int):
        self.members, self.said = members, False
        self.pack, self.first, self.steps, self.begun = 1, 0, 0, 0.0

    def begin(self, pack: dict[str, Any], step: int, steps: int) -> None:
        self.pack, self.first, self.steps, self.begun = len(pack["members"]), -1, steps, 0.0

    def step(self, step: int) -> None:
        if self.said:
            return
        if self.first < 0:  # the first step has much to prepare, and is not timed
            self.first, self.begun = step, time.perf_counter()
            return
        elapsed = time.perf_counter() - self.begun
        if elapsed < PATIENCE:
            return
        self.said = True
        pace = elapsed / (step - self.first)
        later = max(0, self.members - self.pack) / self.pack * self.steps  # steps of packs to come
        left = pace * (self.steps - step + later)
        if left > SHORT:
            count = max(self.members, self.pack)
            output.note(
                f"this will take about {duration(left)}: {self.steps:,} steps of {count} model{'s' * (count > 1)}, "
                f"{1 / pace:.3g} steps a second"
            )
