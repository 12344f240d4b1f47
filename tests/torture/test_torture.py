"""The short form of the torture, and whether it sees what it should see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the torture waits for children as Linux lets it")

# Tries of targets and of a state that lose something: all of them must be seen. It prints their verdicts.
PLANTED = """
import json, os, random, sys, tempfile
from pathlib import Path
from tests.torture.faults import Tries, disk_full, kill_at_each_write, out_of_memory, read_only, two_processes
from tests.torture.flips import Damage, State
from tests.torture.targets import Target, Workshop

def in_two_parts(folder):
    file = folder / "a.txt"
    if not file.exists():  # half of it is taken for all of it
        with file.open("w") as open_file:
            for _ in range(2):
                open_file.write("half")
                open_file.flush()

def silent(folder):
    try:
        (folder / "a.txt").write_text("all")
        os.fsync(0)
    except OSError:
        pass

def without_a_name(folder):
    try:
        (folder / "a.txt").write_text("all")
    except OSError:
        raise MemoryError

def without_a_lock(folder):
    number = int((folder / "a.txt").read_text()) if (folder / "a.txt").exists() else 0
    (folder / "a.txt").write_text(str(number + 1))

workshop = Workshop(Path(tempfile.mkdtemp(dir=sys.argv[1])))
verdicts, rng = {}, random.Random(0)
for work, fault in (
    (in_two_parts, kill_at_each_write),
    (silent, disk_full),
    (without_a_name, disk_full),
    (without_a_name, read_only),
    (without_a_lock, two_processes),
    (in_two_parts, out_of_memory),
):
    tries = Tries(Target(work.__name__, work), workshop)
    numbers = range(tries.operations) if fault in (kill_at_each_write, disk_full) else range(3)
    found = [fault(tries, number, rng) for number in numbers]
    verdicts[f"{work.__name__}, {fault.__name__}"] = [verdict.word for verdict in found]

def make(folder):
    (folder / "a.json").write_text(json.dumps({"a": 123456789, "b": " " * 50}))

def use(folder):
    return {"a": json.loads((folder / "a.json").read_text())["a"]}

flips = Damage(State("naive", make, use, {}), workshop)
verdicts["naive, flips"] = [flips.judged(number, random.Random(number)).word for number in range(200)]
Path(sys.argv[2]).write_text(json.dumps(verdicts))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_nothing_is_lost_in_the_short_form(tmp_path: Path) -> None:
    result = run("-m", "tests.torture", "--short", "--out", str(tmp_path / "torture.json"))
    assert result.returncode == 0, result.stdout[-10_000:] + result.stderr[-2_000:]
    found = json.loads((tmp_path / "torture.json").read_text())
    totals = found["totals"]
    assert totals["lost"] == 0 and totals["tries"] == sum(row["tries"] for row in found["rows"])
    assert totals["kills"] >= 25 and totals["flips and cuts"] >= 200
    assert {row["fault"] for row in found["rows"]} >= {"disk full", "two processes", "clock", "out of memory"}


@pytest.mark.slow
def test_what_is_lost_is_seen(tmp_path: Path) -> None:
    result = run("-c", PLANTED, str(tmp_path), str(tmp_path / "verdicts.json"))
    assert result.returncode == 0, result.stderr[-5_000:]
    found = json.loads((tmp_path / "verdicts.json").read_text())
    assert all("lost" in words for words in found.values()), found
    flips = found["naive, flips"]
    assert flips.count("lost") > 50 and flips.count("harmless") > 50  # of the latter there are spaces
