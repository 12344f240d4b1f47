"""What a sweep says is the same wherever it was interrupted, and a failure of the machine is one line."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import untwine as uw
from untwine.errors import UntwineError
from untwine.launch import units
from untwine.launch.members import Members
from untwine.launch.results import Results
from untwine.locks import locked
from untwine.train.steps.step import PlainStep

SPEC: dict[str, Any] = {
    "run": {"dataset": {"name": "synthetic_linear", "samples": 100}, "network": {"name": "mlp", "hidden": [4]},
            "latents": 2, "steps": 3, "batch_size": 8},
    "runs": [{"method": "beta_vae"}],
    "score": False,
}  # fmt: skip


def table(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "table.json").read_text())


def killed(*_: Any) -> None:
    raise RuntimeError("killed")


def test_warnings_of_training_are_kept_where_the_results_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uw.launch.sweep(SPEC, tmp_path / "whole", progress=False)
    (note,) = table(tmp_path / "whole")["notes"]
    assert "Bernoulli likelihood" in note
    with monkeypatch.context() as patch:
        patch.setattr(Results, "keep", killed)
        with pytest.raises(RuntimeError, match="killed"):
            uw.launch.sweep(SPEC, tmp_path / "cut", progress=False)
    uw.launch.sweep(SPEC, tmp_path / "cut", progress=False)
    assert table(tmp_path / "cut") == table(tmp_path / "whole")


def test_used_up_memory_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    monkeypatch.setattr(PlainStep, "__call__", full)
    (problem,) = uw.launch.sweep(SPEC, tmp_path, progress=False).problems
    assert "the device's memory is used up (CUDA out of memory" in problem and "--batch-size" in problem


def test_a_damaged_time_is_not_counted(tmp_path: Path) -> None:
    uw.launch.sweep(SPEC, tmp_path, progress=False)
    store, (run,) = Members(tmp_path), (tmp_path / "runs").iterdir()
    assert store.seconds(run.name) > 0
    (tmp_path / "seconds" / f"{run.name}.json").write_text("12")
    with pytest.warns(UserWarning, match=rf"seconds/{run.name}\.json is damaged: the time of that run"):
        assert store.seconds(run.name) == 0
    assert store.seconds("none") == 0


def test_a_folder_that_another_process_trains_is_waited_for_as_long_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(units, "PATIENCE", 0.05)
    monkeypatch.setattr(units, "STILL", 1.0)
    released = []

    def train() -> None:
        with locked(tmp_path):
            ready.set()
            for number in range(8):
                (tmp_path / "log.jsonl").write_text(str(number))
                time.sleep(0.2)
            released.append(time.monotonic())

    ready, other = threading.Event(), threading.Thread(target=train)
    other.start()
    ready.wait()
    units._wait(tmp_path)
    other.join()
    assert released and capsys.readouterr().err.count("is trained by another process: waiting for it") == 1
    with (
        locked(tmp_path),
        pytest.raises(UntwineError, match=r"is in use by process \d+; .* nothing was written there for 1 s: end that"),
    ):
        units._wait(tmp_path)
