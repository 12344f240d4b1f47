"""Sweeps whose workers and drivers are killed: nothing is lost, and the table is the same bit for bit."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import calls
import pytest

import untwine as uw
from untwine.launch.table import SweepTable

SPEC: dict[str, Any] = {
    "run": {
        "method": {"name": "beta_vae", "likelihood": "squared_error"},
        "dataset": {"name": "synthetic_linear", "samples": 100, "levels": 16},
        "network": {"name": "mlp", "hidden": [4]},
        "seeds": "0-1",
        "steps": 40,
        "batch_size": 8,
        "latents": 2,
        "lr": 0.01,
        "log_every": 10,
    },
    "grid": {"method.beta": [0.001, 0.1]},
    "score": {"metrics": ["mig"], "points": 50},
}
PACK, UNITS, MEMBERS, KILLS = 2, 2, 4, 2


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of the table of the sweep that nothing disturbs."""
    out = tmp_path_factory.mktemp("inline")
    table = uw.launch.sweep(SPEC, out, pack=PACK, progress=False)
    assert table.counts() == {"done": MEMBERS} and not table.problems
    assert len({row["mig(points=50)"] for row in table.rows}) == MEMBERS  # no two are the same by chance
    return files(out)


def files(folder: Path) -> dict[str, bytes]:
    """The files of the table, and the weights of all models."""
    found = sorted([*folder.glob("table.*"), *folder.glob("runs/*/members/*")])
    assert len(found) >= 2 + MEMBERS
    return {str(file.relative_to(folder)): file.read_bytes() for file in found}


def swept(out: Path, engine: str, prepare: Callable[[], None]) -> SweepTable:
    return uw.launch.sweep(SPEC, out, engine, gpus=0, workers=1, pack=PACK, prepare=prepare, progress=False)


@pytest.mark.slow
def test_killed_workers_are_replaced_and_go_on_from_checkpoints(engine: str, inline: dict[str, bytes], tmp_path: Path):
    prepare = functools.partial(calls.die_in_training, str(tmp_path), KILLS)
    table = swept(tmp_path / "out", engine, prepare)
    assert not table.problems and files(tmp_path / "out") == inline
    assert len(list(tmp_path.glob("killed-*"))) == KILLS
    began = sorted(map(int, calls.noted(tmp_path, "began")))
    assert began[:UNITS] == [0] * UNITS and len(began) == UNITS + KILLS and min(began[UNITS:]) > 0


DRIVER = """
import functools, json, sys
import calls
import untwine as uw

if __name__ == "__main__":
    spec, engine, out = json.loads(sys.argv[1]), *sys.argv[2:]
    prepare = functools.partial(calls.note_training, f"{out}/..", "first", 0.5)
    uw.launch.sweep(spec, out, engine, gpus=0, workers=1, pack=2, prepare=prepare, progress=False)
"""


@pytest.mark.slow
def test_a_driver_that_was_killed_does_nothing_again(engine: str, tmp_path: Path, inline: dict[str, bytes]):
    out = tmp_path / "out"
    (tmp_path / "driver.py").write_text(DRIVER)
    path = os.pathsep.join([str(Path(calls.__file__).parent), *sys.path])
    words = [sys.executable, str(tmp_path / "driver.py"), json.dumps(SPEC), engine, str(out)]
    driver = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path})
    calls.until(lambda: any(out.glob("results/*/*.json")))
    driver.kill()
    driver.wait()
    done = {name for file in out.glob("results/*/*.json") for name in json.loads(file.read_text())["members"]}
    assert len(done) == PACK and done <= set(calls.noted(tmp_path, "first"))
    prepare = functools.partial(calls.note_training, str(tmp_path), "second")
    assert not swept(out, engine, prepare).problems
    again = calls.noted(tmp_path, "second")
    assert len(again) == len(set(again)) <= MEMBERS - len(done) and not done & set(again)
    assert files(out) == inline
