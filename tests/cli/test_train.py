"""`untwine train` as a user types it, on runs that take a moment."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from interrupts import interrupted

import untwine as uw
from untwine.cli import main
from untwine.errors import Interrupted
from untwine.progress import waiting

DATA = ["--dataset", "synthetic-linear", "--dataset.samples", "500"]
NETWORK = ["--network", "mlp", "--network.hidden", "8"]
SMALL = [*DATA, *NETWORK, "--latents", "2", "--steps", "6", "--log-every", "3", "--likelihood", "squared-error"]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(folder: str) -> dict[str, Any]:
    return json.loads(Path(folder, "run.json").read_text())


def weights(folder: str) -> dict[str, str]:
    return {entry["name"]: entry["sha256"] for entry in written(folder)["members"]}


# --- from flags to runs ---------------------------------------------------------------------------------


def test_flags_reach_the_run():
    method = ["jl1-vae", "--beta", "2", "--gamma", "0.5", "--anneal", "3", "--columns", "1"]
    more = ["--seeds", "3,5", "--data-seeds", "7", "--lr", "1e-2", "--batch-size", "16", "--clip", "1"]
    last = ["--optimiser", "amsgrad", "--optimiser.eps", "1e-6", "--sampling", "epochs", "--watch", "jacobian-l1"]
    assert main(["train", *method, *SMALL, "--dataset.ratio", "3", *more, *last, "--out", "run"]) == 0
    content = written("run")
    expected = uw.Run(
        method=uw.methods.jl1_vae(beta=2, gamma=0.5, anneal=3, columns=1, likelihood="squared-error"),
        dataset=uw.datasets.synthetic_linear(ratio=3, samples=500),
        network=uw.networks.mlp(hidden=(8,)),
        latents=2,
        steps=6,
        log_every=3,
        lr=1e-2,
        batch_size=16,
        clip=1.0,
        optimiser={"name": "amsgrad", "eps": 1e-6},
        sampling="epochs",
        watch=("jacobian_l1",),
    )
    assert content["run"] == expected.spec()
    assert [(m["seed"], m["data_seed"]) for m in content["members"]] == [(3, 7), (5, 7)]


def test_defaults_are_those_of_python(monkeypatch: pytest.MonkeyPatch):
    found: list[Any] = []
    monkeypatch.setattr("untwine.cli.commands.train.fit", lambda *given: found.append(given))
    published = ["--steps", "300000"]  # without them a CPU gets fewer (test_lengths.py)
    assert main(["train", "jl1-vae", "--dataset", "three-dots", *published]) == 0
    [(run, out, options, as_json)] = found
    assert run == uw.Run(method="jl1_vae", dataset="three_dots")
    assert (out, as_json) == (Path("runs/jl1-vae-three-dots"), False)
    expected = {"device": "auto", "path": "auto", "pack_size": None, "checkpoint_seconds": 60.0, "tensorboard": False}
    assert options == expected


def test_numbers_by_member_and_pack_size(capsys: pytest.CaptureFixture[str]):
    given = ["--beta", "1,2,4", "--lr", "1e-3,1e-3,1e-2", "--seeds", "0-2", "--pack-size", "2", "--out", "run"]
    assert main(["train", "beta_vae", *SMALL, *given]) == 0
    content = written("run")
    assert [m["spec"]["method"]["beta"] for m in content["members"]] == [1.0, 2.0, 4.0]
    assert [len(pack["members"]) for pack in content["packs"]] == [2, 1]
    said = capsys.readouterr()
    assert said.err == ""
    assert all(
        word in said.out for word in ("beta=4, lr=0.01, seed 2", "reconstruction", "done, 6 steps", "untwine.load")
    )


def test_method_may_come_later_and_names_may_have_underscores():
    assert main(["train", "--dataset=synthetic_linear", "vae", *SMALL[2:]]) == 0
    assert written("runs/vae-synthetic-linear")["run"]["method"]["name"] == "vae"


def test_own_pictures():
    import numpy as np

    np.save("mine.npy", np.zeros((20, 16, 16), np.uint8))
    given = ["--dataset", "images", "--dataset.source", "mine.npy", *NETWORK, "--steps", "2"]
    assert main(["train", "vae", *given]) == 0
    assert written("runs/vae-images")["shape"] == [1, 16, 16]


# --- what is printed ------------------------------------------------------------------------------------


def test_json_is_all_there_is(capsys: pytest.CaptureFixture[str]):
    assert main(["train", "vae", *SMALL, "--seeds", "0-1", "--out", "run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["out"] == "run" and said["trained"] == ["seed-0", "seed-1"]
    assert said["members"]["seed-1"]["state"] == "done"
    assert set(said["members"]["seed-1"]["terms"]) == {"loss", "reconstruction", "kl"}


def test_warnings_take_one_line(capsys: pytest.CaptureFixture[str]):
    assert main(["train", "beta-vae", *SMALL, "--anneal", "10"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("untwine: warning: the schedule of 'kl' goes on until step 10")


def test_divergence_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["train", "vae", *SMALL, "--seeds", "0-1", "--lr", "1e17,1e-3", "--out", "run"]) == 0
    said = capsys.readouterr()
    assert "diverged at step 1\n" in said.out and "done, 6 steps" in said.out
    assert said.err.count("\n") == 1
    assert said.err.startswith(
        "untwine: warning: lr=1e+17, seed 0 diverged at step 1 and was stopped: 'reconstruction'"
    )
    assert main(["train", "vae", *SMALL, "--lr", "1e17", "--out", "other", "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["members"]["seed-0"]["state"] == "diverged"
    assert "every model diverged: 'reconstruction' was" in said.err and "smaller learning rate (lr)" in said.err


def test_help_teaches_everything(capsys: pytest.CaptureFixture[str]):
    assert main(["train", "jl1-vae", "--dataset", "three-dots", "--network", "conv", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for text in (
        "gamma |J_g(z)|_1",
        "Eq. 3",
        "--gamma",
        "(default: 0.1)",
        "--dataset.positions",
        "--network.channels",
        "--batch-size",
        "300000; on a",
        "--checkpoint-seconds",
        "runs/jl1-vae-three-dots",
    ):
        assert text in said, text


# --- going on -------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_line_while_it_waits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    with waiting("loading"):
        pass
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr", screen := Terminal())
    with waiting("loading"):
        assert screen.getvalue() == "loading ..."
    assert screen.getvalue() == "loading ...\r           \r"


def test_a_finished_run_trains_nothing_and_new_seeds_alone(capsys: pytest.CaptureFixture[str]):
    command = ["train", "vae", *SMALL, "--out", "run"]
    assert main([*command, "--seeds", "0"]) == 0
    first = weights("run")
    capsys.readouterr()
    assert main([*command, "--seeds", "0"]) == 0
    assert "Nothing to train: run is finished." in capsys.readouterr().out
    assert main([*command, "--seeds", "0-1"]) == 0
    assert "Trained seed-1; the others were there already." in capsys.readouterr().out
    assert weights("run")["seed-0"] == first["seed-0"] and len(weights("run")) == 2
    assert main(["train", "--resume", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trained"] == []


def test_resume_goes_on_with_members_of_different_numbers(monkeypatch: pytest.MonkeyPatch):
    from untwine.train import loop

    command = ["train", "beta-vae", *SMALL, "--seeds", "0-1"]
    assert main([*command, "--beta", "1,2", "--out", "whole"]) == 0
    assert main([*command, "--beta", "1,4", "--out", "whole"]) == 0
    assert main([*command, "--beta", "1,2", "--out", "stopped"]) == 0

    def stopped(*_: Any) -> None:
        raise Interrupted("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(loop, "_train", stopped)
        assert main([*command, "--beta", "1,4", "--out", "stopped"]) == 1
    assert [m["state"] for m in written("stopped")["members"]] == ["done", "done", "waiting"]
    assert main(["train", "--resume", "stopped"]) == 0
    assert weights("stopped") == weights("whole")


def test_interrupt_saves_and_resume_finishes():
    steps = ["--steps", "400", "--log-every", "10"]
    code, out, err = interrupted(["train", "vae", *SMALL, *steps, "--out", "run"])
    assert (code, out) == (1, "")
    assert err.startswith("untwine: interrupted; saved at step") and err.endswith("untwine train --resume run\n")
    assert err.count("\n") == 1
    assert main(["train", "--resume", "run"]) == 0
    assert [(m["state"], m["steps"]) for m in written("run")["members"]] == [("done", 400)]


# --- mistakes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which method?"),
        (["beta-vea", *SMALL], "unknown method 'beta-vea'; did you mean 'beta-vae'?"),
        (["vae"], "--dataset NAME"),
        (["vae", "--dataset", "three-dot"], "unknown dataset 'three-dot'; did you mean 'three-dots'?"),
        (["vae", *DATA, "--network", "mpl"], "unknown network 'mpl'; did you mean 'mlp'?"),
        (["vae", *DATA, "--optimiser", "adm"], "unknown optimiser 'adm'; did you mean 'adam'?"),
        (["beta-vae", *SMALL, "--bta", "2"], "--beta"),
        (["beta-vae", *SMALL, "--dataset.sample", "2"], "--dataset.samples"),
        (["beta-vae", *SMALL, "--beta", "two"], "'two' is not a number"),
        (["vae", *SMALL, "--steps", "1.5"], "'1.5' is not a whole number"),
        (["vae", *SMALL, "--seeds", "one"], "seeds are written as 0-9 or 0,1,5"),
        (["vae", *SMALL, "--steps", "0"], "steps must be a whole number, 1 or more, not 0"),
        (["vae", *SMALL, "--sampling", "epoch"], "did you mean 'epochs'?"),
        (["vae", *SMALL, "--likelihood", "bernouli"], "did you mean 'bernoulli'?"),
        (["beta-vae", *SMALL, "--beta", "1,2"], "give one value for each member"),
        (["vae", *DATA, "--network", "rhodes64"], "try 'mlp'"),
        (["vae", "--dataset", "images"], "--dataset.source"),
        (["vae", "--dataset", "images", "--dataset.source", "none"], "there is no /"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(["train", *arguments]) == 2
    said = capsys.readouterr()
    assert message in " ".join(said.err.split()) and said.out == ""
    assert not Path("runs").exists(), "nothing is made before all is checked"


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_resume_of_no_run(folder: str, capsys: pytest.CaptureFixture[str]):
    assert main(["train", "--resume", folder]) == 1
    assert capsys.readouterr().err.endswith("holds no run: there is no run.json in it\n")


def test_failures_have_no_traceback(capsys: pytest.CaptureFixture[str]):
    assert main(["train", "vae", *SMALL, "--out", "run"]) == 0
    capsys.readouterr()
    assert main(["train", "vae", *SMALL, "--latents", "3", "--out", "run"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "untwine: run holds another run: its latents is 2, not 3; choose another folder\n"
