"""One world for all rows, which no row may change; and a copy of it for rows about damaged files."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the tables


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    from wrong_world import populate

    folder = tmp_path_factory.mktemp("world") / "world"
    populate(folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def world(original: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The world, as the present folder, with an empty data folder and no network."""
    monkeypatch.chdir(original)
    monkeypatch.setenv("HOME", str(original))
    monkeypatch.setenv("MPLCONFIGDIR", str(original.parent / "matplotlib"))
    monkeypatch.setenv("UNTWINE_DATA", str(original / "empty"))
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    return original
