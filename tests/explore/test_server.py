"""The server answers its own page and no one else, and nothing that is sent to it does harm."""

import json
import math
import socket
from typing import Any

import pytest

PAGE = ("/", "/main.js", "/explore.css", "/icon.svg")


def test_page_and_its_files_are_served(client: Any):
    for path in PAGE:
        status, headers, content = client.send("GET", path)
        assert status == 200 and content
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["evil.com", "evil.com:8422", "localhost.evil.com", "127.0.0.1.evil.com", "[::2]", "["]
)
@pytest.mark.parametrize("path", ["/", "/api/runs"])
def test_another_name_is_refused(client: Any, host: str, path: str):
    """A name on the internet that points to this machine reaches the server: the Host header shows it."""
    status, _, content = client.send("GET", path, Host=host)
    assert status == 403 and b"only to 127.0.0.1 and localhost" in content


def test_names_of_this_machine_are_answered_on_any_port(client: Any):
    for host in ("localhost", "127.0.0.1:9999", "[::1]:8422", "LOCALHOST:80"):
        assert client.send("GET", "/api/runs", Host=host)[0] == 200


def test_requests_without_one_host_are_refused(client: Any):
    for lines in ("Host: localhost\r\nHost: evil.com\r\n", ""):
        with socket.create_connection(("127.0.0.1", client.port), 10) as connection:
            connection.sendall(f"GET /api/runs HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
            assert connection.recv(100).split()[1] in (b"400", b"403")


@pytest.mark.parametrize("origin", ["http://evil.com", "null", "https://127.0.0.1", "http://localhost:1"])
def test_another_origin_is_refused(client: Any, origin: str):
    status, _, content = client.send("POST", "/api/decode", b"{}", Origin=origin)
    assert status == 403 and b"only to its own page" in content


def test_own_origin_is_answered(client: Any):
    own = f"127.0.0.1:{client.port}"
    assert client.send("POST", "/api/decode", b"{}", Host=own, Origin=f"http://{own}")[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/../server.py", "/%2e%2e/server.py", "/..%2fserver.py", "/page/../../models.py", "//etc/passwd", "/main.py"],
)
def test_no_other_file_has_an_address(client: Any, path: str):
    assert client.send("GET", path)[0] == 404


def test_large_bodies_are_refused(client: Any):
    assert client.send("POST", "/api/decode", b" " * (2**16 + 1))[0] == 413
    assert client.send("POST", "/api/upload", b"", Content_Length=str(2**40))[0] == 413


def test_large_bodies_of_unknown_length_are_refused(client: Any):
    """They are not read to their end."""
    with socket.create_connection(("127.0.0.1", client.port), 10) as connection:
        connection.sendall(b"POST /api/upload HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(20):
            connection.sendall(b"100000\r\n" + b"x" * 2**20 + b"\r\n")
        connection.sendall(b"1\r\nx\r\n")  # one byte more than is allowed, and no end
        assert connection.recv(100).split()[1] == b"413"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 60_000])
def test_questions_are_json_objects(client: Any, body: bytes):
    status, _, content = client.send("POST", "/api/decode", body)
    assert status == 400 and "JSON" in json.loads(content)["error"]


@pytest.mark.parametrize(
    "code", [None, [], [0.0] * 3, [0.0] * 5, [0, 0, 0, "1"], [0, 0, 0, True], [0, 0, 0, 1e7], [0, 0, 0, None], {"0": 1}]
)
def test_codes_are_bounded(client: Any, code: Any):
    for name in ("decode", "columns"):
        assert "code" in client.ask(name, code=code)["error"]


def test_codes_that_are_no_numbers(client: Any):
    for number in (math.nan, math.inf):  # not JSON, but Python reads it
        assert "made of numbers" in client.ask("decode", code=[0, 0, 0, number])["error"]
    assert "lies between" in client.ask("decode", code=[0, 0, 0, 10**400])["error"]  # larger than any float


@pytest.mark.parametrize("example", [-1, 300, 2**40, 1.5, "0", None, [0]])
def test_examples_that_do_not_exist(client: Any, example: Any):
    assert "example" in client.ask("start", example=example)["error"]


@pytest.mark.parametrize("factors", [[], [0, 0, 0, 16], [0, 0, 0, -1], [0.5] * 4, "0000", [[0]] * 4, [2**70] * 4])
def test_factors_that_do_not_exist(client: Any, factors: Any):
    assert "factor" in client.ask("start", factors=factors)["error"]


def test_runs_and_members_that_do_not_exist(client: Any):
    assert client.ask("model", run="bta")["error"] == "unknown run 'bta'; did you mean 'beta'?"
    assert "seed-7" in client.ask("model", member="seed-7")["error"]
    for run in (None, 3, ["beta"], {"a": 1}):
        assert "unknown run" in client.ask("model", run=run)["error"]


def test_weights_that_are_lost(client: Any):
    assert client.ask("model", run="lost")["error"].startswith("the weights of seed-0 cannot be used")


def test_a_fault_is_one_line_without_a_traceback(
    client: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def broken(*_: Any) -> None:
        raise RuntimeError("no such luck\nin detail")

    monkeypatch.setattr("untwine.explore.models.Model.decode", broken)
    assert client.ask("decode", code=[0, 0, 0, 0])["error"].endswith("(RuntimeError: no such luck)")
    said = capfd.readouterr()
    assert said.err == "untwine: decode failed: RuntimeError: no such luck\n" and not said.out
