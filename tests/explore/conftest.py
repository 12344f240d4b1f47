"""Two small runs, and a server that answers about them."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import untwine as uw

sys.path.insert(0, str(Path(__file__).parents[1] / "browsing"))  # webdriver.py

if not (find_spec("starlette") and find_spec("uvicorn")):  # without the extra explore there is nothing to test
    collect_ignore_glob = ["test_*.py"]


def fit(folder: Path, **changes: Any) -> Path:
    """A run of pictures of two dots, trained for a moment."""
    settings: dict[str, Any] = {
        "method": uw.methods.beta_vae(beta=0.2),
        "dataset": uw.datasets.three_dots(size=16, dots=2, positions=16, radius=0.15, examples=300),
        "network": uw.networks.mlp(hidden=(32,)),
        "latents": 4,
        "seeds": [0, 1],
        "steps": 60,
        "batch_size": 32,
        "lr": 3e-3,
    }
    uw.fit(uw.Run(**(settings | changes)), folder, device="cpu")
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of runs by name: two of pictures, one of vectors, one whose weights are lost."""
    root = tmp_path_factory.mktemp("explored")
    vectors = {
        "method": uw.methods.beta_vae(beta=0.01, likelihood="squared_error"),
        "dataset": uw.datasets.synthetic_nonlinear(samples=200),
        "network": uw.networks.mlp(hidden=(8,)),
        "seeds": [0],
        "steps": 5,
    }
    jl1 = {"method": uw.methods.jl1_vae(beta=0.2, gamma=0.1, anneal=10), "seeds": [0], "steps": 20}
    trained = {
        "beta": fit(root / "beta"),
        "jl1": fit(root / "jl1", **jl1),
        "vectors": fit(root / "vectors", **vectors),
    }
    lost = root / "lost"
    lost.mkdir()
    (lost / "run.json").write_bytes((trained["jl1"] / "run.json").read_bytes())
    return {**trained, "lost": lost}


class Client:
    """What the page does, without a browser."""

    def __init__(self, port: int):
        self.port = port

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def ask(self, name: str, run: str = "beta", member: str = "seed-0", **question: Any) -> dict[str, Any]:
        body = json.dumps({"run": run, "member": member, **question})
        status, _, content = self.send("POST", f"/api/{name}", body)
        assert status == 200, content
        return json.loads(content)

    def upload(self, content: bytes, run: str = "beta", member: str = "seed-0") -> dict[str, Any]:
        status, _, answer = self.send("POST", f"/api/upload?run={run}&member={member}", content)
        assert status == 200, answer
        return json.loads(answer)


@pytest.fixture(scope="session")
def client(folders: dict[str, Path]) -> Iterator[Client]:
    """A client of a running server."""
    import uvicorn

    from untwine.explore import serving
    from untwine.explore.answers import Answers
    from untwine.explore.computing import Computer
    from untwine.explore.runs import open_runs
    from untwine.explore.server import application

    listener = serving.listen(0)
    ready = threading.Event()
    app = application(Answers(open_runs(list(folders.values()), "cpu")), Computer())
    server = serving.Announcing(uvicorn.Config(app, **serving.QUIET), ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    assert ready.wait(30)
    yield Client(listener.getsockname()[1])
    server.should_exit = True
    thread.join(10)
    listener.close()
