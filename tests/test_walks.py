"""The walks in CONTRIBUTING.md name functions that exist and are called, in that order."""

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import untwine as uw
from untwine.train import loop

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "untwine"


def walk(heading: str) -> list[str]:
    """The functions of a walk, as `file:name`."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.split(f"### {heading}\n", 1)[1].split("\n## ")[0].split("\n### ")[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, flags=re.MULTILINE)


def called_by(work: Callable[[], Any]) -> list[str]:
    """The functions of the package that a piece of work calls, in the order of their first calls."""
    calls: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            calls.setdefault(f"{Path(code.co_filename).relative_to(PACKAGE).as_posix()}:{code.co_qualname}")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(calls)


def small_run() -> uw.Run:
    dots = uw.datasets.three_dots(size=16, positions=16, examples=50)
    method = uw.methods.jl1_vae(anneal=0)
    return uw.Run(method=method, dataset=dots, latents=3, seeds=[0, 1], steps=2, batch_size=4, log_every=1)


@pytest.mark.parametrize("heading", ["A training step", "An evaluation", "A dataset"])
def test_a_walk_is_what_happens(heading: str, monkeypatch: pytest.MonkeyPatch):
    if heading == "A training step":
        run = small_run()
        monkeypatch.setattr(loop, "check_run", lambda run, pack: None)  # a dry run takes a step before the others
        calls = called_by(lambda: uw.fit(run))
    elif heading == "An evaluation":
        ensemble = uw.fit(small_run())
        metrics = ["mig", "local_mig"]
        calls = called_by(lambda: uw.evaluate(ensemble, metrics, rho=0.3, windows=2, points=50))
    else:
        calls = called_by(lambda: uw.datasets.three_dots(examples=100).observe([[0, 1, 2, 3, 4, 5]]))
    steps = walk(heading)
    assert len(steps) >= 6
    assert [step for step in steps if step not in calls] == []
    assert sorted(steps, key=calls.index) == steps
