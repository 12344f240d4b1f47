"""The log in memory: small, equal to what was logged, and none where there is a folder. Lines of progress."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from helpers import tiny

import untwine as uw
from untwine.progress import Pulse, counter
from untwine.train import loop
from untwine.train.folders.history import Lines
from untwine.train.remarks.progress import MinuteLines


def line(step: int, seeds: int = 4) -> dict[str, Any]:
    terms = {"loss": 1.5 * step, "reconstruction": step / 3, "kl": None if step == 7 else 0.25}
    return {"pack": 0, "step": step, "members": {f"seed-{seed}": dict(terms) for seed in range(seeds)}}


def test_lines_are_what_was_appended():
    logged = [line(step) for step in range(10)] + [{"pack": 1, "step": 5, "members": {"a": {"kl": 2.0, "diverged": 3}}}]
    lines = Lines()
    for entry in logged:
        lines.append(entry)
    assert list(lines) == logged and lines == logged and lines[-1] == logged[-1] and lines[2:4] == logged[2:4]
    assert repr(lines) == repr(logged) and type(lines[-1]["members"]["a"]["diverged"]) is int


def test_lines_take_little_memory():
    """Dicts take 1.5 kB for each line of four seeds."""
    lines = Lines()
    lines.append(line(0))
    tracemalloc.start()
    for step in range(1, 5001):
        lines.append(line(step))
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(lines) == 5001 and grown / 5000 < 160 and lines.bytes == 5001 * 8 * (3 + 4 * 3)


def test_a_run_without_a_folder_keeps_lines(tmp_path: Path):
    run = tiny(seeds=[0, 1], steps=12, log_every=1)
    in_memory, in_folder = uw.fit(run, progress=False), uw.fit(run, tmp_path / "run", progress=False)
    assert isinstance(in_memory.history, Lines)
    assert len(in_memory.history) == 12 and in_memory.history == in_folder.history


def test_a_run_with_a_folder_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loop, "Lines", None)  # calling it would fail
    assert len(uw.fit(tiny(steps=12, log_every=1), tmp_path / "run", progress=False).history) == 12


# --- lines of progress --------------------------------------------------------------------------------------


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_every_minute(capsys: pytest.CaptureFixture[str]):
    clock = Clock()
    lines = MinuteLines(Pulse(clock=clock))
    lines.begin({"members": ["seed-0"]}, 0, 1000)
    for step in range(1, 151):  # a step a second
        clock.now += 1
        if step == 50:
            lines.log({"members": {"seed-0": {"loss": 2.5}, "seed-1": {"loss": 3.5}}})
        lines.step(step)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "untwine: step 60 of 1,000 (6%, 16 min left)  loss 3",
        "untwine: step 120 of 1,000 (12%, 15 min left)  loss 3",
    ]


def test_a_resumed_run_counts_the_time_of_its_own_steps(capsys: pytest.CaptureFixture[str]):
    clock = Clock()
    lines = MinuteLines(Pulse(clock=clock))
    lines.begin({"members": ["seed-0"]}, 900, 1000)
    clock.now += 60
    lines.step(950)
    assert capsys.readouterr().err == "untwine: step 950 of 1,000 (95%, 60 s left)\n"


def test_other_work_has_its_lines_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    monkeypatch.setattr("untwine.progress.time.monotonic", clock)
    with counter("fetching it", 4_000_000, in_bytes=True) as count, counter("silent", 5, False) as silent:
        count(1_000_000)
        clock.now += 61
        silent(1)
        count(1_000_000)
    assert capsys.readouterr().err == "untwine: fetching it: 2.0 MB of 4.0 MB (50%, 61 s left)\n"
