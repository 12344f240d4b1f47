"""A type checker reads a user's script: it refuses the wrong lines, and no others."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("users_script.txt")


def expected(kind: str) -> dict[int, str]:
    """The marks of one kind in the script by line, from 1."""
    marks = re.compile(rf"# {kind}: (.+)")
    lines = enumerate(SCRIPT.read_text().splitlines(), 1)
    return {number: mark[1] for number, line in lines if not line.startswith("`#") and (mark := marks.search(line))}


@pytest.fixture(scope="module")
def diagnostics(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    if find_spec("basedpyright") is None:
        pytest.skip("basedpyright is not installed (pip install 'untwine[dev]')")
    folder = tmp_path_factory.mktemp("typing")  # outside the project, whose settings are for the project alone
    (folder / "script.py").write_text(SCRIPT.read_text())
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard"}))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "script.py"]
    # As an installed library is read: through the interpreter's own search path.
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)["generalDiagnostics"]


def test_wrong_lines_are_refused_and_no_others(diagnostics: list[dict]):
    errors = [entry for entry in diagnostics if entry["severity"] == "error"]
    refused = {entry["range"]["start"]["line"] + 1: entry["rule"] for entry in errors}
    messages = {entry["range"]["start"]["line"] + 1: entry["message"] for entry in errors}
    assert refused == expected("error"), messages


def test_results_have_types(diagnostics: list[dict]):
    told = {}
    for entry in diagnostics:
        if entry["severity"] == "information" and (found := re.search(r'is "(.+)"$', entry["message"])):
            told[entry["range"]["start"]["line"] + 1] = found[1]
    assert told == expected("is")
