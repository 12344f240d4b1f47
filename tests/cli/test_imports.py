"""A user's own parts on the command line: `--import MODULE_OR_FILE`, and packages with the entry point group."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest
from interrupts import interrupted

from untwine.cli import imports, main

Captured = pytest.CaptureFixture[str]

PARTS = '''
"""One part of every kind."""

import numpy as np
import torch
from neighbour import WIDTH

import untwine as uw


class _Wide(uw.PriorModule):
    def __init__(self, latents: int, scale: float):
        super().__init__()
        self.latents = latents
        self.register_buffer("scale", torch.tensor(scale), persistent=False)

    def forward(self):
        scale = self.scale.expand(self.latents)
        normal = torch.distributions.Normal(torch.zeros_like(scale), scale, False)
        return torch.distributions.Independent(normal, 1, False)


@uw.part
class WidePrior(uw.Prior):
    """A wider normal."""

    scale: float = 2.0

    def build(self, info: uw.Info) -> uw.PriorModule:
        return _Wide(info.latents, self.scale)


@uw.method
def wide_vae(beta: float = 1.0, scale: float = 2.0) -> uw.Objective:
    """A VAE with a wide prior.

    Args:
        beta: The weight of the KL, of our own.
        scale: The scale of the prior.
    """
    return uw.methods.beta_vae(beta=beta, prior=WidePrior(scale))


@uw.network
def narrow(hidden: int = WIDTH):
    """A narrow network.

    Args:
        hidden: Units of the hidden layer.
    """

    def build(info: uw.Info, outputs: int):
        pixels = int(np.prod(info.shape))
        encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(pixels, hidden), torch.nn.ReLU())
        encoder.append(torch.nn.Linear(hidden, outputs))
        decoder = torch.nn.Sequential(torch.nn.Linear(info.latents, pixels), torch.nn.Unflatten(1, info.shape))
        return encoder, decoder

    return build


@uw.dataset
def few_squares(spacing: int = 2) -> uw.Dataset:
    """Few squares.

    Args:
        spacing: Pixels between two places.
    """
    return uw.datasets.xy_squares(spacing=spacing, size=16, square=2)


@uw.metric
def reach(codes, factors, quantile: float = 0.9):
    """A quantile of the magnitude of codes."""
    return float(np.quantile(np.abs(codes), quantile)), {}
'''
TRAIN = ["train", "wide-vae", "--dataset", "few-squares", "--dataset.spacing", "1", "--network", "narrow"]
TRAIN += ["--prior", "wide(scale=1.5)", "--batch-size", "8", "--latents", "3", "--steps", "800", "--log-every", "10"]

# Without the import, everything that the run names is unknown; with it, the run is finished and scored.
AFTERWARDS = """
import contextlib, io, json, sys
from untwine.cli import main

def say(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return code, out.getvalue(), err.getvalue()

code, out, err = say("train", "--resume", "run")
assert code and not out, (code, out)
assert "--import MODULE_OR_FILE" in err and "import the module that defines it" in err, err
assert not any("neighbour" in name for name in sys.modules), "a file that was loaded has named a module"

own = ["--import", "mine/parts.py"]
code, out, err = say("train", "--resume", "run", "--json", *own)
assert code == 0, err
assert [m["state"] for m in json.loads(out)["members"].values()] == ["done"]
code, out, err = say("evaluate", *own, "run", "--metrics", "reach", "mig", "--json")
assert code == 0, err
assert {entry["metric"] for entry in json.loads(out)["runs"]["run"]["scores"]} == {"reach", "mig"}
for command in (["methods"], ["train", "--help"], ["data", "list"]):
    name = "few-squares" if command[0] == "data" else "wide-vae"
    code, out, err = say(*command, *own)
    assert code == 0 and name in out, out
code, out, err = say("train", "wide-vae", "--dataset", "few-squares", "--network", "narrow", "--help", *own)
assert code == 0 and "of our own" in out and "--network.hidden" in out and "--dataset.spacing" in out
code, out, err = say("perceive", "few-squares", "--pairs", "100", "--traversals", "1", "--json", *own)
assert code == 0, err
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_train_resume_and_evaluate_with_parts_of_a_file():
    Path("mine").mkdir()
    Path("mine/parts.py").write_text(PARTS)
    Path("mine/neighbour.py").write_text("WIDTH = 12\n")
    code, _, err = interrupted([*TRAIN, "--import", "mine/parts.py", "--out", "run"])
    assert code == 1 and "interrupted; saved at step" in err, err
    stored = json.loads(Path("run/run.json").read_text())
    assert stored["run"]["method"]["name"] == "wide_vae" and stored["run"]["network"]["name"] == "narrow"
    assert stored["run"]["method"]["prior"] == {"part": "WidePrior", "scale": 1.5}
    done = subprocess.run([sys.executable, "-c", AFTERWARDS], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_module_of_this_folder_and_repeated_uses(capsys: Captured):
    Path("first_of_mine.py").write_text("seen = 1\n")
    Path("second-of-mine.py").write_text("seen = 2\n")
    try:
        assert main(["methods", "--json", "--import", "first_of_mine", "--import=second-of-mine.py"]) == 0
        assert sys.modules["first_of_mine"].seen == 1
        [second] = [name for name in sys.modules if name.startswith("second-of-mine_")]
        module = sys.modules[second]
        assert main(["methods", "--json", "--import", "first_of_mine.py", "--import", "second-of-mine.py"]) == 0
        assert sys.modules[second] is module, "a file is imported once"
    finally:
        for name in [name for name in sys.modules if name.startswith(("first_of_mine", "second-of-mine"))]:
            del sys.modules[name]
        sys.path[:] = [path for path in sys.path if path != str(Path.cwd())]


def test_a_file_does_not_take_the_name_of_another_module():
    Path("json.py").write_text("own = True\n")
    imports.import_parts(["json.py"])
    assert not hasattr(sys.modules["json"], "own")


@pytest.mark.parametrize(
    ("source", "named", "message"),
    [
        (None, "absent_parts.py", "cannot import 'absent_parts.py': it does not exist"),
        (None, "./", "it is a folder"),
        (None, "absent_parts", "there is no module 'absent_parts'"),
        (
            "import absent_module",
            "wrong_a.py",
            "ModuleNotFoundError: No module named 'absent_module' (wrong_a.py, line 1)",
        ),
        ("x = 1\n1 / 0", "wrong_b.py", "ZeroDivisionError: division by zero (wrong_b.py, line 2)"),
        ("x = (", "wrong_c.py", "SyntaxError: '(' was never closed (wrong_c.py, line 1)"),
        ("import sys; sys.exit(3)", "wrong_d.py", "SystemExit: 3"),
        (
            "import untwine as uw\n@uw.method\ndef vae(): ...",
            "wrong_e.py",
            "the method 'vae' exists already, in untwine.methods.vae",
        ),
    ],
)
def test_a_wrong_import(source: str | None, named: str, message: str, capsys: Captured):
    if source is not None:
        Path(named).write_text(source)
    assert main(["methods", "--import", named]) == 2
    said = capsys.readouterr()
    assert message in said.err and said.out == "" and "Traceback" not in said.err
    assert Path(named).stem not in sys.modules


def test_import_needs_a_name(capsys: Captured):
    for words in (["methods", "--import"], ["methods", "--import", "--json"]):
        assert main(words) == 2
        assert "--import needs a module or a file" in capsys.readouterr().err


def test_an_unknown_name_asks_for_the_import(capsys: Captured):
    assert main(["train", "sentence", "--dataset", "three-dots"]) == 2
    assert "--import MODULE_OR_FILE" in capsys.readouterr().err


def test_installed_packages_bring_parts(monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    Path("installed_parts.py").write_text("seen = True\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    points = importlib.metadata.EntryPoints(
        [
            importlib.metadata.EntryPoint("mine", "installed_parts", imports.GROUP),
            importlib.metadata.EntryPoint("broken", "broken_parts", imports.GROUP),
            importlib.metadata.EntryPoint("other", "absent", "another.group"),
        ]
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **wanted: points.select(**wanted))
    monkeypatch.delitem(sys.modules, "installed_parts", raising=False)
    assert main(["methods", "--json"]) == 0
    said = capsys.readouterr()
    assert sys.modules["installed_parts"].seen
    assert "warning: the parts of the package 'broken_parts' cannot be imported: ModuleNotFoundError" in said.err
    assert json.loads(said.out)["methods"]
    monkeypatch.delitem(sys.modules, "installed_parts")
