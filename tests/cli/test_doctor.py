"""`untwine doctor` says what there is, and fails where training does; threads wait as the user asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from untwine import threads
from untwine.bench import health
from untwine.cli import main

Captured = pytest.CaptureFixture[str]


def test_doctor_says_what_there_is(capsys: Captured):
    assert main(["doctor", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert set(known) == {"versions", "devices", "data", "extras", "free", "self_test"}
    assert known["versions"]["torch"] and known["versions"]["python"].startswith("3.")
    assert known["devices"]["cores"] >= 1 and known["devices"]["threads"] >= 1
    test = known["self_test"]
    assert test["passed"] and len(test["checks"]) == 4 and all(check["passed"] for check in test["checks"])


def test_doctor_exits_with_1_where_bits_differ(capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    """Every look at the weights sees something else."""
    looks = iter(range(100))
    monkeypatch.setattr(health, "_bits", lambda ensemble: next(looks))
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "FAILED: two runs of the same seeds differ" in said and "The self-test FAILED" in said


def test_doctor_goes_on_where_the_data_folder_is_none(capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UNTWINE_DATA", "/" + "x" * 5000)
    assert main(["doctor", "--json"]) == 0
    assert "cannot be a folder" in json.loads(capsys.readouterr().out)["data"]["error"]


def test_a_missing_extra_says_how_to_add_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    entry = next(extra for extra in health.extras() if extra["name"] == "explore")
    assert not entry["installed"] and entry["install"] == "pip install 'untwine[explore]'"


def test_every_extra_for_users_is_known():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(health.EXTRAS) == set(project["optional-dependencies"]) - {"dev", "docs"}


# --- how threads wait ---------------------------------------------------------------------------------------


def policy_in(code: str, **environment: str) -> str:
    """The wait policy of a fresh process after the code, and whether torch was loaded before it was set."""
    kept = {key: value for key, value in os.environ.items() if key not in (threads.VARIABLE, "GOMP_SPINCOUNT")}
    report = f"import os; print('policy:', os.environ.get({threads.VARIABLE!r}))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], env=kept | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.rsplit("policy:", 1)[1].strip()


COMMAND = "from untwine.cli import main; main(['methods'])"


@pytest.mark.parametrize("code", ["import untwine", COMMAND])
def test_threads_sleep_while_they_wait(code: str):
    assert policy_in(code) == "PASSIVE"


@pytest.mark.parametrize("code", ["import untwine", COMMAND])
def test_a_users_own_choice_wins(code: str):
    assert policy_in(code, OMP_WAIT_POLICY="ACTIVE") == "ACTIVE"
    assert policy_in(code, GOMP_SPINCOUNT="1000") == "None"


def test_nothing_is_set_where_torch_was_loaded_before():
    """It would have no effect, and would reach the processes that the user starts."""
    assert policy_in("import sys; sys.modules['torch'] = None\nimport untwine") == "None"
