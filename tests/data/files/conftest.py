"""Fixtures for the tests of data files: an empty data folder, and a web server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from untwine.data.files import download, stamps

sys.path.insert(0, str(Path(__file__).parent))

from file_helpers import Server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "PAUSE", 0.001)
    made = Server()
    yield made
    made.go.set()
    made.web.shutdown()
    made.web.server_close()


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder, and a user cache folder beside it."""
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda project, appauthor: str(tmp_path / "cache" / project))
    for name in ("UNTWINE_OFFLINE", "UNTWINE_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "data"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read for their checksums."""
    read: list[Path] = []
    real = stamps.digest
    monkeypatch.setattr(stamps, "digest", lambda path, *how: (read.append(path), real(path, *how))[1])
    return read


@pytest.fixture(autouse=True)
def may_be_removed(tmp_path: Path) -> Iterator[None]:
    yield
    for path in [tmp_path, *tmp_path.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
