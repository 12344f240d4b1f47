"""Runs as people have them: stopped, killed, continued, extended, shared, mistaken."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import StopAt, losses, same, tiny
from torch import nn

import untwine as uw
from untwine.errors import Interrupted
from untwine.files import sealed
from untwine.train import loop
from untwine.train.folders import checkpoint, record
from untwine.train.member import identity
from untwine.train.remarks.progress import Reporter

HERE = Path(__file__).parent


def states(path: Path) -> dict[str, str]:
    return {entry["name"]: entry["state"] for entry in record.read(path)["members"]}


def test_a_folder_holds_what_the_design_says(tmp_path: Path) -> None:
    run = tiny(seeds=[0, 1])
    ensemble = uw.fit(run, tmp_path / "out")
    assert same(ensemble, uw.fit(run))
    names = sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert names == [".lock", "log.jsonl", "members/seed-0.safetensors", "members/seed-1.safetensors", "run.json"]
    content = record.read(tmp_path / "out")
    assert content["run"] == run.spec()
    pack = content["packs"][0]
    assert pack["members"] == ["seed-0", "seed-1"]
    assert pack["torch"] == torch.__version__
    assert pack["threads"] == torch.get_num_threads()
    assert {"device", "hardware", "batching", "python", "untwine"} <= set(pack)
    lines = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [5, 10, 15, 20]
    assert set(lines[0]["members"]) == {"seed-0", "seed-1"}
    assert set(lines[0]["members"]["seed-0"]) == {"loss", "reconstruction", "kl", "jacobian"}


def test_the_log_is_the_mean_since_the_last_line() -> None:
    every, fifth = uw.fit(tiny(log_every=1)), uw.fit(tiny(log_every=5))
    assert losses(fifth, "seed-0")[1] == pytest.approx(sum(losses(every, "seed-0")[5:10]) / 5, rel=1e-5)
    assert same(every, fifth)


def test_watching_changes_the_log_alone(tmp_path: Path) -> None:
    names = ("deterministic_reconstruction", "stochastic_reconstruction", "linearised_reconstruction", "jacobian_l1")
    watched = uw.fit(tiny(uw.methods.beta_vae(0.1, likelihood="squared_error"), watch=names))
    plain = uw.fit(tiny(uw.methods.beta_vae(0.1, likelihood="squared_error")))
    assert same(watched, plain)
    assert set(watched.history[-1]["members"]["seed-0"]) == {"loss", "reconstruction", "kl", *names}
    assert all(value > 0 for value in watched.history[-1]["members"]["seed-0"].values())


@pytest.mark.parametrize("sampling", ["iid", "epochs"])
def test_going_on_after_a_failure_is_bitwise_the_same(tmp_path: Path, sampling: str) -> None:
    run = tiny(seeds=[0, 1], sampling=sampling, optimiser="amsgrad", steps=90, log_every=7)
    expected = uw.fit(run, tmp_path / "whole")
    for at in (1, 33, 70, 90):  # each try starts where the last one was cut off
        with pytest.raises(RuntimeError, match="the power went"):
            uw.fit(run, tmp_path / "cut", progress=StopAt(at), checkpoint_seconds=0.0)
    assert states(tmp_path / "cut") == {"seed-0": "training", "seed-1": "training"}
    assert same(uw.fit(run, tmp_path / "cut"), expected)
    assert (tmp_path / "cut" / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()
    assert not (tmp_path / "cut" / "checkpoint").exists()


def test_a_damaged_checkpoint_costs_time_only(tmp_path: Path) -> None:
    run = tiny(steps=60)
    with pytest.raises(RuntimeError):
        uw.fit(run, tmp_path, progress=StopAt(30), checkpoint_seconds=0.0)
    newest = max((tmp_path / "checkpoint").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-9])
    with pytest.warns(UserWarning, match="is damaged"):
        again = uw.fit(run, tmp_path)
    assert same(again, uw.fit(run))


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from helpers import tiny
import untwine as uw
uw.fit(tiny(seeds=[0, 1], steps=400, log_every=50), sys.argv[2], checkpoint_seconds=float(sys.argv[3]))
"""


def child(out: Path, seconds: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(HERE), str(out), str(seconds)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for(condition: Any, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < until, "the child did not get going"
        time.sleep(0.002)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_say_how_to_go_on(tmp_path: Path, number: int) -> None:
    process = child(tmp_path, seconds=1e9)
    wait_for((tmp_path / "log.jsonl").exists, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "go on with: untwine train --resume" in errors
    saved = checkpoint.newest(tmp_path / "checkpoint", {"pack": 0})
    assert saved is not None and saved.step > 0
    assert f"saved at step {saved.step:,}" in errors


def test_a_signal_without_a_folder_says_that_nothing_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    class Signal(Reporter):
        def step(self, step: int) -> None:
            if step == 3:
                os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="nothing was saved"):
        uw.fit(tiny(), progress=Signal())
    assert signal.getsignal(signal.SIGINT) is before


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    process = child(tmp_path)
    wait_for((tmp_path / "run.json").exists, process)
    try:
        with pytest.raises(uw.UntwineError, match=f"in use by process {process.pid}"):
            uw.fit(tiny(seeds=[0, 1], steps=400, log_every=50), tmp_path)
    finally:
        process.kill()
        process.wait()


def test_more_seeds_train_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uw.fit(tiny(seeds=[0, 1, 2, 3]), tmp_path)
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "members").iterdir()}
    trained = []
    original = loop.Trainer

    def spy(pack: Any, *rest: Any) -> Any:
        trained.append([member.name for member in pack.members])
        return original(pack, *rest)

    monkeypatch.setattr(loop, "Trainer", spy)
    five = uw.fit(tiny(seeds=[0, 1, 2, 3, 4]), tmp_path)
    assert trained == [["seed-4"]]
    assert {p: p.stat().st_mtime_ns for p in files} == files
    assert len(five) == 5
    alone = uw.fit(tiny(seeds=[4]))
    for name, value in alone.member(0).state_dict().items():
        torch.testing.assert_close(five.member(4).state_dict()[name], value, rtol=1e-5, atol=1e-6)
    trained.clear()
    uw.fit(tiny(seeds=[0, 4]), tmp_path)  # all there: nothing to do
    assert trained == []


def test_packs_of_a_limited_size(tmp_path: Path) -> None:
    run = tiny(seeds=[0, 1, 2])
    split = uw.fit(run, tmp_path, pack_size=2)
    assert [pack["members"] for pack in record.read(tmp_path)["packs"]] == [["seed-0", "seed-1"], ["seed-2"]]
    whole, memory = uw.fit(run), uw.fit(run, pack_size=1)
    for i in range(3):
        for name, value in whole.member(i).state_dict().items():
            torch.testing.assert_close(split.member(i).state_dict()[name], value, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(memory.member(i).state_dict()[name], value, rtol=1e-5, atol=1e-6)


def test_another_run_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    uw.fit(tiny(), tmp_path)
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(uw.UntwineError, match=r"holds another run: its lr is 0\.001, not 0\.002"):
        uw.fit(tiny(lr=2e-3), tmp_path)
    with pytest.raises(uw.UntwineError, match=r"holds another run: its network.hidden is \[.*\], not \[7\]"):
        uw.fit(tiny(network=uw.networks.mlp(hidden=(7,))), tmp_path)
    assert (tmp_path / "run.json").read_bytes() == before
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("mine")
    with pytest.raises(uw.UntwineError, match="holds no run but other files"):
        uw.fit(tiny(), tmp_path / "letters")


def test_a_repeated_seed_with_other_numbers_has_its_own_file(tmp_path: Path) -> None:
    both = uw.fit(tiny(uw.methods.beta_vae(beta=[0.1, 10.0]), seeds=[0, 0]), tmp_path)
    names = [member.name for member in both.members]
    assert names == ["beta=0.1, seed 0", "beta=10, seed 0"]
    files = sorted(path.name for path in (tmp_path / "members").iterdir())
    assert files == ["beta=0.1,seed-0.safetensors", "beta=10,seed-0.safetensors"]
    assert set(both.history[0]["members"]) == set(names)
    three = uw.fit(tiny(uw.methods.beta_vae(beta=[0.1, 10.0, 1.0]), seeds=[0, 0, 0]), tmp_path)
    assert len(three) == 3
    alone = uw.fit(tiny(uw.methods.beta_vae(beta=10.0)))
    for name, value in alone.member(0).state_dict().items():
        torch.testing.assert_close(three.member(1).state_dict()[name], value, rtol=1e-5, atol=1e-6)


def test_a_number_may_become_several(tmp_path: Path) -> None:
    uw.fit(tiny(uw.methods.beta_vae(beta=1.0)), tmp_path)
    both = uw.fit(tiny(uw.methods.beta_vae(beta=[1.0, 2.0]), seeds=[0, 0]), tmp_path)
    assert len(both) == 2
    assert [pack["members"] for pack in record.read(tmp_path)["packs"]] == [["seed-0"], [both.members[1].name]]
    again = record.stored(tmp_path)
    assert [member.id for member in again.members()] == [member.id for member in both.members]
    with pytest.raises(uw.UntwineError, match="holds another run"):
        uw.fit(tiny(uw.methods.beta_vae(beta=3.0)), tmp_path)


def test_resume_needs_nothing_but_the_folder(tmp_path: Path) -> None:
    run = tiny(uw.methods.beta_vae(beta=[0.5, 2.0]), seeds=[0, 1], data_seeds=[7, 8])
    with pytest.raises(RuntimeError):
        uw.fit(run, tmp_path, progress=StopAt(12), checkpoint_seconds=0.0)
    assert record.stored(tmp_path) == run
    assert same(uw.resume(tmp_path), uw.fit(run))


def test_what_cannot_be_built_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(uw.UntwineError, match="columns were asked for"):
        uw.fit(tiny(uw.methods.jl1_vae(columns=9, anneal=0)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_ramp_longer_than_the_run_is_pointed_out() -> None:
    with pytest.warns(UserWarning, match="goes on until step 1,000, but the run has only 20 steps"):
        uw.fit(tiny(uw.methods.beta_vae(anneal=1000)))


def test_a_dataset_from_an_array_trains_and_resumes(tmp_path: Path) -> None:
    array = torch.linspace(0, 1, 600).reshape(100, 6).numpy()
    run = tiny(dataset=uw.datasets.images(array), method=uw.methods.vae(likelihood="squared_error"))
    with pytest.raises(RuntimeError):
        uw.fit(run, tmp_path, progress=StopAt(7), checkpoint_seconds=0.0)
    assert same(uw.fit(run, tmp_path), uw.fit(run))
    with pytest.raises(uw.UntwineError, match="array"):
        uw.Run.from_json(run.to_json()).make_dataset()


def test_tensorboard_gets_every_term(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    uw.fit(tiny(seeds=[0, 1]), tmp_path, tensorboard=True)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard" / "seed-1"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"loss", "reconstruction", "kl", "jacobian"}
    assert [event.step for event in events.Scalars("loss")] == [5, 10, 15, 20]


@pytest.mark.parametrize(("device", "message"), [("gpu9", "unknown device"), ("xpu", "not available")])
def test_a_device_that_is_not_there(device: str, message: str) -> None:
    with pytest.raises(uw.UntwineError, match=message):
        uw.fit(tiny(), device=device)


def test_the_log_may_change_along_the_way(tmp_path: Path) -> None:
    uw.fit(tiny(watch=("jacobian_l1",)), tmp_path)
    uw.fit(tiny(seeds=[0, 1], log_every=2), tmp_path)
    again = uw.resume(tmp_path)
    assert len(again) == 2
    terms = {entry["pack"]: set(next(iter(entry["members"].values()))) for entry in again.history}
    assert "jacobian_l1" in terms[0]
    assert "jacobian_l1" not in terms[1]
    with pytest.raises(RuntimeError):
        uw.fit(tiny(seeds=[2]), tmp_path, progress=StopAt(7), checkpoint_seconds=0.0)
    later = uw.fit(tiny(seeds=[2], watch=["jacobian_l1"]), tmp_path)
    assert "jacobian_l1" in later.history[-1]["members"]["seed-2"]


def test_fit_returns_the_members_of_the_run_in_its_order(tmp_path: Path) -> None:
    uw.fit(tiny(seeds=[3, 1, 2]), tmp_path)
    assert [member.name for member in uw.fit(tiny(seeds=[2, 3]), tmp_path).members] == ["seed-2", "seed-3"]
    assert [member.name for member in uw.load(tmp_path).members] == ["seed-3", "seed-1", "seed-2"]


def test_lost_weights_are_trained_again(tmp_path: Path) -> None:
    first = uw.fit(tiny(seeds=[0, 1]), tmp_path)
    (tmp_path / "members" / "seed-1.safetensors").unlink()
    with pytest.warns(UserWarning, match="weights of seed-1 are lost"):
        again = uw.fit(tiny(seeds=[0, 1]), tmp_path)
    assert [pack["members"] for pack in record.read(tmp_path)["packs"]] == [["seed-0", "seed-1"], ["seed-1"]]
    for name, value in first.member(1).state_dict().items():
        torch.testing.assert_close(again.member(1).state_dict()[name], value, rtol=1e-5, atol=1e-6)


def test_changed_data_are_noticed(tmp_path: Path) -> None:
    uw.fit(tiny(), tmp_path)
    content = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(sealed({**content, "data_size": 299})))
    with pytest.raises(uw.UntwineError, match=r"trained on 299 examples of .*, but the dataset has 300"):
        uw.fit(tiny(seeds=[0, 1]), tmp_path)


@pytest.mark.parametrize("key", ["run", "members", "packs", "data_size", "shape"])
def test_a_damaged_outline_is_named(tmp_path: Path, key: str) -> None:
    uw.fit(tiny(), tmp_path)
    content = json.loads((tmp_path / "run.json").read_text())
    for wrong in ({k: v for k, v in content.items() if k != key}, {**content, key: "x"}):
        (tmp_path / "run.json").write_text(json.dumps(wrong))
        for call in (uw.load, uw.resume):
            with pytest.raises(uw.UntwineError, match=f"run.json is damaged: its '{key}'"):
                call(tmp_path)


def test_a_misspelt_key_in_a_file_is_named(tmp_path: Path) -> None:
    uw.fit(tiny(), tmp_path)
    content = json.loads((tmp_path / "run.json").read_text())
    for spec in (content["run"], content["members"][0]["spec"]):
        spec["lrr"] = spec.pop("lr")
    content["members"][0]["id"] = identity(content["members"][0]["spec"], 0, 0)
    (tmp_path / "run.json").write_text(json.dumps(sealed(content)))
    with pytest.raises(uw.UntwineError, match=r"run\.json: .*did you mean 'lr'"):
        uw.resume(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(uw.UntwineError, match="cannot be a folder: a file is in its way"):
            uw.fit(tiny(), out)
    assert (tmp_path / "file").read_text() == "mine"


def test_junk_in_a_folder_is_left_alone(tmp_path: Path) -> None:
    uw.fit(tiny(), tmp_path)
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b"[]\n\xff\xfe\n{}\n")
    (tmp_path / "checkpoint" / "mine").mkdir(parents=True)
    assert len(uw.fit(tiny(seeds=[0, 1]), tmp_path)) == 2
    assert (tmp_path / "checkpoint" / "mine").is_dir()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pack_size": 0}, "pack_size of fit must be a whole number, 1 or more"),
        ({"checkpoint_seconds": -1.0}, "checkpoint_seconds of fit must be 0 or more"),
        ({"tensorboard": True}, "need a folder"),
        ({"batching": "lop"}, "batching of fit must be"),
    ],
)
def test_options_that_make_no_sense(options: dict, message: str) -> None:
    with pytest.raises(uw.UntwineError, match=message):
        uw.fit(tiny(), **options)


@pytest.mark.parametrize("kept", [False, True])
def test_the_method_and_the_model_are_built_once(kept: bool, tmp_path: Path) -> None:
    """For a run of one seed, from its name to the trained ensemble."""
    built: list[str] = []

    @uw.method
    def counted_for_tests(beta: float = 0.1) -> uw.Objective:
        """A method that says when it is built."""
        built.append("method")
        return uw.methods.beta_vae(beta, likelihood="squared_error")

    @uw.network
    def counted_network_for_tests() -> Any:
        """A network that says when its modules are built."""

        def make(info: uw.Info, outputs: int) -> tuple[nn.Module, nn.Module]:
            built.append("model")
            return nn.Linear(info.shape[0], outputs), nn.Linear(info.latents, info.shape[0])

        return make

    run = tiny("counted_for_tests", network="counted_network_for_tests", steps=3)
    trained = uw.fit(run, tmp_path / "run" if kept else None)
    assert built == ["method", "model"]
    assert trained.encode(run.make_dataset().batch(range(5))).shape == (1, 5, 3)
    if kept:
        assert same(trained, uw.load(tmp_path / "run"))


def test_run_json_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uw.fit(tiny(steps=2), tmp_path)
    reads: list[Path] = []
    original = record.read
    monkeypatch.setattr(record, "read", lambda path: reads.append(path) or original(path))
    uw.load(tmp_path)
    assert reads == [tmp_path]
