"""`untwine sweep` as a user types it."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from untwine.cli import main
from untwine.train.steps.trainer import Trainer

Captured = pytest.CaptureFixture[str]
SMALL = """
[run]
method = { name = "beta-vae", likelihood = "squared-error" }
dataset = { name = "synthetic-linear", samples = 100, levels = 16 }
network = { name = "mlp", hidden = [4] }
latents = 2
seeds = "0-1"
steps = 20
batch_size = 8
lr = 0.01
log_every = 10
"""
SWEEP = f"""{SMALL}
[grid]
"method.beta" = [0.001, 0.1]
[score]
metrics = ["mig"]
points = 50
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str = SWEEP, name: str = "betas.toml") -> str:
    Path(name).write_text(text)
    return name


def sweep(*words: str) -> int:
    return main(["sweep", *words, "--device", "cpu"])


def status(file: str, capsys: Captured) -> dict[str, Any]:
    assert main(["sweep", "status", file, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_from_a_dry_run_to_the_table(capsys: Captured):
    file = written()
    assert sweep(file, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "1 pack would train for about" in said and "Nothing was written." in said
    assert sweep(file, "--dry-run", "--pack", "3", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["units"], planned["only_scored"]) == (2, 0)
    (kind,) = planned["runs"]
    assert kind["seconds"] > 0 and (kind["members"], kind["packs"], kind["steps"]) == (4, 2, 20)
    assert status(file, capsys)["members"] == {"waiting": 4}
    assert [path.name for path in Path().iterdir()] == [file]  # nothing was written
    assert sweep(file) == 0
    said = capsys.readouterr().out
    assert "2 of 2" in said and "4 models: 4 done." in said and "sweeps/betas: table.csv" in said
    assert max(map(len, said.splitlines())) <= 80
    assert status(file, capsys)["members"] == {"done": 4}
    assert main(["sweep", "status", file]) == 0
    assert "sweeps/betas: 4 models: 4 done." in capsys.readouterr().out
    assert sweep(file, "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path("sweeps/betas/table.json").read_text())
    assert sweep(file, "--dry-run") == 0 and capsys.readouterr().out == "Nothing is left to do.\n"


def test_after_ctrl_c_the_same_command_goes_on(capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    file = written()
    assert sweep(file, "--pack", "2", "--out", "whole") == 0
    steps, seen = Trainer.steps, []

    def interrupted(self: Trainer) -> Any:
        for entry in steps(self):
            seen.append(self.state.step)
            if len(seen) == 30:  # in the second of two packs
                signal.raise_signal(signal.SIGINT)
            yield entry

    monkeypatch.setattr(Trainer, "steps", interrupted)
    assert sweep(file, "--pack", "2") == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith("kept: the same command goes on from there")
    assert status(file, capsys)["members"] == {"done": 2, "training": 2}
    assert sweep(file, "--pack", "2") == 0
    assert len(seen) == 40  # each step of each pack was taken once
    for name in ("table.csv", "table.json"):
        assert Path("sweeps/betas", name).read_bytes() == Path("whole", name).read_bytes()


@pytest.mark.parametrize(
    ("name", "said"), [("run.json", "holds a run of its own"), ("table.csv", "is of no sweep and would be overwritten")]
)
def test_a_folder_of_others_is_left_as_it_is(name: str, said: str, capsys: Captured):
    Path("mine").mkdir()
    Path("mine", name).write_text("mine")
    assert sweep(written(), "--out", "mine") == 1
    assert said in capsys.readouterr().err
    assert [(file.name, file.read_text()) for file in Path("mine").iterdir()] == [(name, "mine")]


def test_a_failure_is_told_while_the_others_finish(capsys: Captured):
    file = written(f'{SMALL}\n[[runs]]\n[[runs]]\nnetwork = {{ name = "conv" }}\n')
    assert sweep(file, "--out", "tried") == 1
    said = capsys.readouterr()
    assert "2 done" in said.out and "2 failed" in said.out
    assert re.search(r"seeds 0,1 \(runs/[0-9a-f]{16}\): network 'conv' takes images", said.err)
    assert "0 of 2" in said.out and "2 of 2" in said.out


@pytest.mark.slow
def test_workers_know_parts_of_ones_own(capsys: Captured):
    Path("mine.py").write_text(
        "import untwine as uw\n\n@uw.method\ndef my_swept_vae(beta: float = 1.0) -> uw.Objective:\n"
        '    """A VAE."""\n'
        "    return uw.Objective(likelihood=uw.likelihoods.squared_error, posterior=uw.posteriors.diagonal_normal, "
        'prior=uw.priors.standard_normal, penalties={"kl": beta * uw.penalties.kl})\n'
    )
    text = SMALL.replace('{ name = "beta-vae", likelihood = "squared-error" }', '"my-swept-vae"')
    file = written(f"score = false\n{text}")
    assert sweep(file, "--import", "mine.py", "--engine", "processes", "--workers", "1", "--gpus", "0") == 0
    assert "2 of 2" in capsys.readouterr().out


WRONG = [
    (f"{SMALL}\n[run]", "is no TOML: "),
    ("steps = 3", "unknown section of a sweep: 'steps'; known: grid, run, runs, score"),
    ("run = 3", "run of a sweep is a table of settings, not 3"),
    ('[run]\ndataset = "xy-squares"', "a run needs a method"),
    (f"{SMALL}lattents = 3", "unknown field of a run: 'lattents'; did you mean 'latents'?"),
    (SMALL.replace("beta-vae", "beta-va"), "unknown method 'beta-va'; did you mean 'beta_vae'?"),
    (f'{SMALL}"method.bet" = 3', "unknown argument of method 'beta-vae': 'bet'; did you mean 'beta'?"),
    (
        f"{SMALL}\n[grid]\nlr = [0.1, -1]",
        "run 2 (method=beta-vae, dataset=synthetic-linear, lr=-1): lr must be",
    ),
    (f"{SMALL}\n[grid]\nlatents = 3", "grid: latents has a list of values, not 3"),
    (f"{SMALL}\n[grid]\nseeds = [3]", "seeds stand under [run] or [[runs]], not in a grid"),
    (SMALL.replace('"0-1"', '"0-"'), "seeds are written as 0-9 or 0,1,5, not '0-'"),
    (f"score = 3\n{SMALL}", "score is a table of evaluate's arguments, or false, not 3"),
    (f'{SMALL}\n[score]\nmetricz = ["mig"]', "unknown argument of score: 'metricz'; did you mean 'metrics'?"),
    (f'{SMALL}\n[score]\nmetrics = ["mgi"]', "unknown metric 'mgi'; did you mean 'mig'?"),
    (f"{SMALL}\n[score]\npoints = -3", "points"),
    (SMALL.replace("16 }", "-1 }"), "levels"),
    ("a = " + "[" * 5000, "is no TOML"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_file_that_is_wrong_is_named_in_one_line(text: str, message: str, capsys: Captured):
    file = written(text)
    assert sweep(file) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"untwine: {file}") and message in line
    assert [path.name for path in Path().iterdir()] == [file]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "sweep needs one file, before any options"),
        (["betas.toml", "betas.toml"], "sweep needs one file"),
        (["status"], "sweep needs one file"),
        (["gammas.toml"], "gammas.toml cannot be read: No such file or directory"),
        (["."], ". cannot be read: Is a directory"),
        (["betas.toml", "--engine", "rays"], "unknown choice 'rays'; did you mean 'ray'?"),
        (["betas.toml", "--workers", "0"], "workers must be 1 or more, not 0"),
        (["betas.toml", "--retries", "-1"], "retries must be 0 or more, not -1"),
        (["betas.toml", "--pack", "0"], "pack must be 1 or more, not 0"),
        (["betas.toml", "--engine", "processes", "--gpus", "0.5"], "processes need whole GPUs, not 0.5"),
        (["betas.toml", "--device", "gpu"], "unknown device 'gpu'"),
    ],
)
def test_a_command_that_is_wrong_writes_nothing(words: list[str], message: str, capsys: Captured):
    file = written()
    assert main(["sweep", *words]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == [file]
