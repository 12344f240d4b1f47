"""Help without PyTorch: the same text, and torch is not imported for it."""

import contextlib
import io
import json
import subprocess
import sys

import pytest

from untwine.cli import COMMANDS, main, quick
from untwine.cli.commands.bench import BENCHES
from untwine.errors import UntwineError
from untwine.methods import methods
from untwine.model.networks import networks

WORDS = [
    *([command] for command in COMMANDS),
    *(["bench", name] for name in BENCHES),
    *(["train", method, "--dataset", "three-dots"] for method in methods.names()),
    *(["train", "vae", "--network", network] for network in networks.names()),
    ["train", "vae", "--dataset", "images", "--optimiser", "adagrad"],
    ["train", "--resume", "runs/first"],
    ["sweep", "status"],
]
# Prints the help of each list of words, with torch as it is while one command prints its help.
MANY = """
import contextlib, io, json, sys
from untwine.cli import main, quick

def call():
    for words in json.loads(sys.argv[1]):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = main([*words, "--help"])
        print(json.dumps([words, code, said.getvalue()]))
    return 0

quick.without_torch(call, [])
assert isinstance(sys.modules["torch"], quick.HollowModule)
"""


def test_help_without_torch_is_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    done = subprocess.run([sys.executable, "-c", MANY, json.dumps(WORDS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    quickly = [json.loads(line) for line in done.stdout.splitlines()]
    assert [words for words, _, _ in quickly] == WORDS
    for words, code, said in quickly:
        with contextlib.redirect_stdout(io.StringIO()) as slowly:
            assert main([*words, "--help"]) == code == 0
        assert said == slowly.getvalue(), words
        assert len(said.splitlines()) > 5


def test_a_command_of_its_own_process_asks_for_it(monkeypatch: pytest.MonkeyPatch):
    asked: list[list[str]] = []

    def without_torch(call, words):
        asked.append(words)
        return call()

    monkeypatch.setattr(quick, "without_torch", without_torch)
    for words in (["demo", "-h"], ["train", "vae", "--help"], ["methods"], ["demo", "--help", "--import", "json"]):
        monkeypatch.setattr(sys, "argv", ["untwine", *words])
        assert main() == 0
    assert asked == [["demo", "-h"], ["train", "vae", "--help"]]


def test_a_package_that_does_not_bear_it(tmp_path, monkeypatch: pytest.MonkeyPatch):
    program = """
import sys
from untwine.cli import quick

def call():
    import torch
    print(torch.nn.functional.relu([1]).nothing, "hollow" if torch.ones is quick.Hollow else "real")
    raise RuntimeError("a package that wants the real one")

sys.exit(quick.without_torch(call, ["demo", "--help"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "hollow" in done.stdout and "usage: untwine demo" in done.stdout


def test_a_wrong_word_stays_wrong():
    program = """
import sys
from untwine.cli import main
sys.argv = ["untwine", "train", "bta-vae", "--help"]
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2 and "did you mean 'beta-vae'" in done.stderr


def test_torch_that_is_there_is_used():
    assert "torch" in sys.modules

    def call() -> int:
        raise UntwineError("as it is")

    with pytest.raises(UntwineError, match="as it is"):
        quick.without_torch(call, [])
    assert not any(isinstance(finder, quick.Finder) for finder in sys.meta_path)
