"""`untwine explore` on the command line: its messages, its port, and how it stops."""

import http.client
import json
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from untwine.cli import main
from untwine.errors import UntwineError
from untwine.explore import serving
from untwine.explore.runs import open_runs
from untwine.files import sealed
from untwine.train.member import identity

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "explore needs the folder of a run, before any options: untwine explore RUN [RUN ...] [OPTIONS]"),
        (["gone"], 1, "gone is no folder: give the folder of a run"),
        (["gone", "--port", "0"], 2, "a port is a number from 1 to 65535, not 0"),
        (["gone", "--port", "x"], 2, "'x' is not a whole number"),
        (["gone", "--device", "abacus"], 2, "unknown device 'abacus'; use auto, cpu, cuda or mps"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], code: int, message: str, capsys: Captured):
    assert main(["explore", *arguments]) == code
    said = capsys.readouterr()
    assert message in said.err and said.out == ""


def test_help_shows_examples(capsys: Captured):
    assert main(["explore", "--help"]) == 0
    said = capsys.readouterr().out
    assert "untwine explore runs/beta runs/jl1 --open" in said and "--port" in said


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_a_missing_extra_is_one_line(package: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    for module in ("serving", "server"):  # as if they had not been imported before
        monkeypatch.delitem(sys.modules, f"untwine.explore.{module}", raising=False)
        monkeypatch.delattr(f"untwine.explore.{module}", raising=False)
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, module, None)
    assert main(["explore", "gone"]) == 1
    assert capsys.readouterr().err == "untwine: explore needs further packages: pip install 'untwine[explore]'\n"


def test_a_free_port_is_chosen_where_the_usual_one_is_taken(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(serving, "PORT", port)
        with serving.listen() as listener:
            host, other = listener.getsockname()
            assert host == "127.0.0.1" and other != port
            assert serving.address(listener) == f"http://127.0.0.1:{other}/"
        with pytest.raises(UntwineError, match=f"port {port} cannot be used"):
            serving.listen(port)


def test_answers_are_sent_at_once():
    """asyncio sets TCP_NODELAY on connections whose protocol is named; without it each answer waits for 40 ms."""
    with serving.listen(0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.proto == socket.IPPROTO_TCP


def test_no_browser_is_no_failure(monkeypatch: pytest.MonkeyPatch):
    def none(*_: Any) -> None:
        raise serving.webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(serving.webbrowser, "get", none)
    thread = serving.open_browser("http://127.0.0.1:1/")
    thread.join(10)
    assert not thread.is_alive()


def test_folders_of_runs_and_names(folders: dict[str, Path], tmp_path: Path):
    root = folders["beta"].parent
    assert list(open_runs([root], "cpu")) == ["beta", "jl1", "lost", "vectors"]
    (tmp_path / "beta").symlink_to(folders["jl1"])
    names = list(open_runs([folders["beta"], folders["jl1"], folders["beta"]], "cpu"))
    assert names == ["beta", "jl1"]  # none twice
    copy = tmp_path / "copy" / "beta"
    copy.mkdir(parents=True)
    (copy / "run.json").write_text((folders["beta"] / "run.json").read_text())
    assert list(open_runs([folders["beta"], copy], "cpu")) == [f"{root.name}/beta", "copy/beta"]


def test_runs_without_a_finished_model_are_left_out(folders: dict[str, Path], tmp_path: Path):
    content = json.loads((folders["beta"] / "run.json").read_text())
    for entry in content["members"]:
        entry["state"] = "waiting"
    (tmp_path / "run.json").write_text(json.dumps(sealed(content)))
    with pytest.warns(UserWarning, match=r"left out: no member of .* is finished; go on with: untwine train --resume"):
        assert list(open_runs([folders["beta"], tmp_path], "cpu")) == ["beta"]
    with pytest.raises(UntwineError, match=r"no member of .* is finished"):
        open_runs([tmp_path], "cpu")


SLOW = """
import time
import untwine

@untwine.dataset
def endless():
    time.sleep(600)
"""


def test_server_stops_cleanly(folders: dict[str, Path], tmp_path: Path):
    """By Ctrl-C and by SIGTERM, also while data are loaded for a page; started at the same time, on two ports."""
    content = json.loads((folders["jl1"] / "run.json").read_text())
    for spec in (content["run"], *(entry["spec"] for entry in content["members"])):
        spec["dataset"] = {"name": "endless"}
    for entry in content["members"]:
        entry["id"] = identity(entry["spec"], entry["seed"], entry["data_seed"])
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "run.json").write_text(json.dumps(sealed(content)))
    (tmp_path / "endless.py").write_text(SLOW)
    command = [sys.executable, "-m", "untwine", "explore", str(tmp_path / "slow")]
    command += ["--device", "cpu", "--import", str(tmp_path / "endless.py")]
    servers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ports, connections = [], []
    for server in servers:
        assert server.stdout
        said = server.stdout.readline() + server.stdout.readline()
        found = re.fullmatch(r"Exploring slow at http://127\.0\.0\.1:(\d+)/\nCtrl-C stops it\.\n", said)
        assert found, server.communicate()
        ports.append(int(found[1]))
        connection = http.client.HTTPConnection("127.0.0.1", ports[-1], timeout=30)
        connection.request("GET", "/api/runs")
        assert connection.getresponse().read()
        connections.append(connection)
    assert len(set(ports)) == 2
    connections[0].request("POST", "/api/model", json.dumps({"run": "slow", "member": "seed-0"}))
    assert not select.select([connections[0].sock], [], [], 0.5)[0]  # no answer: the data are being loaded
    for server, number in zip(servers, (signal.SIGINT, signal.SIGTERM), strict=True):
        server.send_signal(number)
    for server, connection in zip(servers, connections, strict=True):
        out, err = server.communicate(timeout=30)
        assert (server.returncode, out, err) == (0, "Stopped.\n", "")
        connection.close()
