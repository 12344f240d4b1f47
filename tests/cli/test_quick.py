"""Help without PyTorch: the same text, and torch is not imported for it."""

import json
import os
import subprocess
import sys

import pytest

from untwine.cli import main, quick
from untwine.errors import UntwineError

# Prints the help of every command, method and network, and whether torch was hollow.
MANY = """
import contextlib, io, json, sys
from untwine.cli import COMMANDS, main, quick

def call():
    from untwine.cli.commands.bench import BENCHES
    from untwine.methods import methods
    from untwine.model.networks import networks

    many = [[command] for command in COMMANDS] + [["bench", name] for name in BENCHES] + [["sweep", "status"]]
    many += [["train", method, "--dataset", "three-dots"] for method in methods.names()]
    many += [["train", "vae", "--network", network] for network in networks.names()]
    many += [["train", "vae", "--dataset", "images", "--optimiser", "adagrad"], ["train", "--resume", "runs/first"]]
    for words in many:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = main([*words, "--help"])
        print(json.dumps([words, code, said.getvalue()]))
    return 0

quick.without_torch(call, [])
print(json.dumps(isinstance(sys.modules["torch"], quick.HollowModule)))
"""


def helped(program: str) -> list:
    """What a process prints that has none of the parts that other tests define."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "JAXTYPING_DISABLE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_help_without_torch_is_the_same():
    *quickly, hollow = helped(MANY)
    *slowly, real = helped(f"import torch{MANY}")
    assert (hollow, real) == (True, False)
    assert len(quickly) > 50
    for one, other in zip(quickly, slowly, strict=True):
        assert one == other
        assert one[1] == 0 and len(one[2].splitlines()) > 5


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
