"""The commands beside `train`, and what holds for all of them."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import untwine as uw
from untwine.cli import COMMANDS, main

Captured = pytest.CaptureFixture[str]


def test_help_names_every_command(capsys: Captured):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {command} " in said for command in COMMANDS)
    assert main([]) == 2
    assert capsys.readouterr().err == said


def test_version(capsys: Captured):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"untwine {uw.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "unknown command 'trian'; did you mean 'train'?"),
        (["--verbose"], "unknown option '--verbose'; see: untwine --help"),
        (["data"], "data needs a command: untwine data list"),
        (["data", "lst"], "did you mean 'list'?"),
        (["methods", "--jsn"], "--json"),
        (["demo", "--steps", "0"], "steps must be a whole number, 1 or more, not 0"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str, capsys: Captured):
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert message in said.err and said.out == ""


def test_train_help_without_a_method(capsys: Captured):
    assert main(["train", "--help"]) == 0
    said = capsys.readouterr().out
    for text in ("untwine train METHOD --dataset NAME", "--resume DIR", "jl1-vae", "three-dots", "--seeds", "--json"):
        assert text in said


def test_methods(capsys: Captured):
    assert main(["methods"]) == 0
    assert "jl1-vae" in capsys.readouterr().out
    assert main(["methods", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["methods"]}
    assert sorted(found) == uw.methods.names()
    assert found["jl1_vae"]["arguments"]["gamma"] == 0.1 and "Eq. 3" in found["jl1_vae"]["summary"]


def test_bench_takes_the_arguments_of_its_function(monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    def run(pack_sizes: tuple[int, ...] = (1, 4), steps: int = 5, device: str = "auto") -> list[dict[str, object]]:
        """Measure."""
        return [{"pack_size": size, "steps_per_second": float(steps)} for size in pack_sizes]

    monkeypatch.setitem(sys.modules, "untwine.bench.training", SimpleNamespace(run=run))
    monkeypatch.setattr("untwine.bench.training", SimpleNamespace(run=run), raising=False)
    assert main(["bench", "--pack-sizes", "1", "2", "--json"]) == 0
    assert [row["pack_size"] for row in json.loads(capsys.readouterr().out)["rows"]] == [1, 2]
    assert main(["bench"]) == 0
    assert "steps per second" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["methods"], ["train", "--help"], ["data", "list"]])
def test_answers_without_torch(arguments: list[str]):
    code = f"""
import sys
import untwine.cli
assert not {{"torch", "numpy", "tyro", "rich"}} & set(sys.modules), "importing the command line is light"
code = untwine.cli.main({arguments!r})
assert "torch" not in sys.modules
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_installed_command():
    command = Path(sys.executable).with_name("untwine")
    if not command.exists():
        pytest.skip("untwine is not installed beside this interpreter")
    done = subprocess.run([command, "train", "beta-vea"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "untwine: unknown method 'beta-vea'; did you mean 'beta-vae'?\n"
