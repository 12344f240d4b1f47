"""One function for many specs, by every engine."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import calls
import pytest

import untwine as uw
from untwine.errors import Interrupted, UntwineError
from untwine.launch import on_ray, processes
from untwine.launch.tasks import Means, packed, received

HERE = Path(__file__).parent


def test_the_engine_inline():
    assert uw.launch.map(calls.square, [3, 1, 2]) == [9, 1, 4]
    assert uw.launch.map(calls.square, []) == []
    with pytest.raises(uw.launch.PartlyDone, match="1 of 2 specs failed; number 1: ValueError: a negative number"):
        uw.launch.map(calls.square, [3, -1])


def test_results_come_in_the_order_of_the_specs_and_a_failure_stops_no_other(engine: str):
    with pytest.raises(uw.launch.PartlyDone, match="2 of 5 specs failed; number 1: ValueError: a neg") as caught:
        uw.launch.map(calls.square, [3, -1, 7, 2, 1], engine, workers=1, gpus=0)
    found = caught.value.outcomes
    assert [outcome.value for outcome in found] == [9, None, None, 4, 1]
    assert "calls.py" in found[1].details and found[2].error is not None


def test_what_reaches_beyond_a_function_fails_its_spec_alone(engine: str):
    """An answer that cannot be read back, sys.exit, and an exception without a text."""
    with pytest.raises(uw.launch.PartlyDone) as caught:
        uw.launch.map(calls.misbehave, ["exit", "mute", "unreadable", "fine"], engine, workers=1, gpus=0)
    found = caught.value.outcomes
    assert found[0].error == "it called sys.exit(0)" and found[1].error == "Mute: (it cannot say why)"
    assert "cannot be" in str(found[2].error) and found[3].value == "fine"


def test_inline_has_the_same_failures():
    with pytest.raises(uw.launch.PartlyDone) as caught:
        uw.launch.map(calls.misbehave, ["exit", "mute", "fine"])
    assert [outcome.error for outcome in caught.value.outcomes] == [
        "it called sys.exit(0)",
        "Mute: (it cannot say why)",
        None,
    ]


def test_a_worker_that_is_told_to_stop_is_replaced(tmp_path: Path):
    """kill, without -9, of one worker stops no sweep."""
    assert uw.launch.map(calls.stop_once, [str(tmp_path / "a")], "processes", workers=1, gpus=0) == ["done"]


def test_a_worker_of_processes_starts_no_workers():
    with pytest.raises(uw.launch.PartlyDone, match="starts no further ones: take the engine inline in it"):
        uw.launch.map(calls.misbehave, ["nested"], "processes", workers=1, gpus=0)


def test_a_spec_whose_worker_died_is_tried_again_and_at_last_given_up(engine: str, tmp_path: Path):
    specs = [str(tmp_path / "a"), "always", str(tmp_path / "b")]
    with pytest.raises(uw.launch.PartlyDone) as caught:
        uw.launch.map(calls.die, specs, engine, workers=1, gpus=0, retries=1)
    found = caught.value.outcomes
    assert [outcome.value for outcome in found] == ["done", None, "done"]
    assert str(found[1].error).startswith("its worker died 2 times, the last time")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_interrupted_workers_save_what_they_do(engine: str, tmp_path: Path):
    told = tmp_path / "worker"

    def interrupt() -> None:
        calls.until(told.exists)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(Interrupted, match="what was done is kept"):
            uw.launch.map(calls.stay, [str(told)], engine, workers=1, gpus=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert told.with_name("worker.saved").exists()


def test_what_a_worker_may_use_reaches_it(engine: str):
    threads = os.environ["OMP_NUM_THREADS"]
    names = ["OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"]
    assert uw.launch.map(calls.environment, names, engine, workers=1, gpus=0) == [threads, ""]


# --- Ray ----------------------------------------------------------------------------------------------------


def test_a_task_can_be_cancelled_where_interrupts_were_ignored():
    """A shell lets its background jobs ignore SIGINT, which Ray cancels a task by."""
    work = (packed((calls.interrupts, None), "the function"), os.getcwd(), [], 1.0)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        outcome = on_ray._task(work, 0, packed(0, "spec 0"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(outcome, bytes) and received(0, outcome).value is True


# --- processes ----------------------------------------------------------------------------------------------


def test_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert processes.environments(Means(), 100) == [{"OMP_NUM_THREADS": "1"}] * 8
    assert processes.environments(Means(workers=3), 100) == [{"OMP_NUM_THREADS": "2"}] * 3
    assert processes.environments(Means(), 2) == [{"OMP_NUM_THREADS": "4"}] * 2
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert processes.environments(Means(workers=1), 9) == [{"OMP_NUM_THREADS": "5"}]


def test_each_worker_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5,7")
    assert [place["CUDA_VISIBLE_DEVICES"] for place in processes.environments(Means(), 9)] == ["2", "3", "5", "7"]
    assert [place["CUDA_VISIBLE_DEVICES"] for place in processes.environments(Means(gpus=2), 9)] == ["2,3", "5,7"]


DRIVER = """
import sys, calls
import untwine as uw
if __name__ == "__main__":
    uw.launch.map(calls.stay, [sys.argv[1]], "processes", workers=1, gpus=0)
"""


def run_script(file: Path, text: str, *words: str) -> subprocess.Popen:
    """A script of a user, which imports what these tests import."""
    file.write_text(text)
    path = os.pathsep.join([str(HERE), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen([sys.executable, file, *words], env=environment, stderr=subprocess.PIPE, text=True)


def test_a_worker_ends_with_its_driver(tmp_path: Path):
    """A worker that outlived its driver would keep the folder of its run locked."""
    told = tmp_path / "worker"
    driver = run_script(tmp_path / "driver.py", DRIVER, str(told))
    calls.until(told.exists)
    driver.kill()
    driver.communicate()
    worker = int(told.read_text())
    calls.until(lambda: calls.is_gone(worker))
    assert told.with_name("worker.saved").exists()


def test_a_script_without_a_guard_is_told_so(tmp_path: Path):
    driver = run_script(tmp_path / "driver.py", DRIVER.replace("__name__", "'__main__'"), str(tmp_path / "worker"))
    said = driver.communicate()[1]
    assert driver.returncode == 1 and 'the call stands below: if __name__ == "__main__":' in said.splitlines()[-1]


# --- what cannot be -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "rays"}, "unknown engine 'rays'; did you mean 'ray'"),
        ({"workers": 0}, "workers must be 1 or more"),
        ({"gpus": -1}, "gpus must be 0 or more"),
        ({"retries": -1}, "retries must be 0 or more"),
        ({"engine": "processes", "gpus": 99}, "need 99 GPUs, but there are"),
        ({"engine": "processes", "gpus": 0.5}, "whole GPUs"),
        ({"engine": "processes", "gpus": 0, "workers": 1, "prepare": calls.refuse}, "begin: parts.py is not there"),
        ({"prepare": calls.refuse}, "a worker cannot begin: parts.py is not there"),
        ({"prepare": calls.prepare_badly}, "a worker cannot begin: ValueError: no parts here"),
        ({"engine": "processes", "prepare": lambda: None}, "prepare cannot be sent to other processes"),
        ({"address": "auto"}, "an address is for ray"),
        ({"engine": "processes", "address": "auto"}, "an address is for ray"),
        ({"workers": 2}, "2 workers is for processes or ray"),
    ],
)
def test_means_that_cannot_be(settings: dict, message: str):
    with pytest.raises(UntwineError, match=message):
        uw.launch.map(calls.square, [1], **settings)


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gpus": 1.5}, r"a part of one GPU, or whole ones; not 1\.5"),
        ({"gpus": 99}, "each worker would need 99 GPUs, but this machine has"),
        ({"address": "localhost:1"}, "there is no Ray cluster at localhost:1 .*: ray start --head says its address"),
    ],
)
def test_what_ray_cannot_give(settings: dict, message: str):
    with pytest.raises(UntwineError, match=message):
        uw.launch.map(calls.square, [1], "ray", **settings)


def test_what_cannot_be_sent_is_named():
    with pytest.raises(UntwineError, match=r"the function cannot be sent to other processes .*at the top of a module"):
        uw.launch.map(lambda spec: spec, [1], "processes", workers=1, gpus=0)
    with pytest.raises(UntwineError, match="spec 3 cannot be sent"):
        packed(threading.Lock(), "spec 3")


def test_without_ray_it_says_how_to_add_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UntwineError, match=r"pip install 'untwine\[ray\]'"):
        on_ray.check(Means())
