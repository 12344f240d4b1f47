"""The pace of a run: as many times as blocks, in seconds for each seed."""

from __future__ import annotations

import torch

import untwine as uw
from untwine.bench import pace


def test_blocks_of_steps_are_timed_for_each_seed(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(pace, "perf_counter", lambda: float(next(clock)))
    run = uw.Run("vae", {"name": "synthetic_linear", "samples": 50}, "rolinek_linear", seeds="0-3", steps=10)
    # Each block takes one tick of this clock: 1 / (5 steps * 4 seeds).
    found = pace.measured(run, torch.device("cpu"), steps=5, blocks=3)
    assert found.blocks == [1 / 20] * 3
    assert (found.path, found.compile_seconds) == ("plain", 1.0)  # a CPU compiles nothing; one tick between two looks
