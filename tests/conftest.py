"""Tiny files of the public formats, for every test that needs a dataset of files, and one Ray for all that need it."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PUBLIC = Path(__file__).parent / "public"


def writer(name: str) -> ModuleType:
    """The module of `tests/public` that writes a dataset's files."""
    spec = importlib.util.spec_from_file_location(f"tests_public_{name}", PUBLIC / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def public_writer() -> Callable[[str], ModuleType]:
    return writer


@pytest.fixture(scope="session")
def drawn_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="untwine-drawn-") as folder:
        yield Path(folder)


@pytest.fixture
def drawn_data(drawn_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder for datasets that are drawn, in which each is drawn once for all tests."""
    monkeypatch.setenv("UNTWINE_DATA", str(drawn_folder))
    return drawn_folder


@pytest.fixture
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """`public("mnist")` makes a data folder that holds tiny files of MNIST's format, and returns it."""

    def publish(name: str) -> Path:
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        monkeypatch.setenv("UNTWINE_DATA", str(folder))
        made: Any = writer(name)
        made.publish(folder, monkeypatch)
        return folder

    return publish


@pytest.fixture(scope="session")
def ray() -> Iterator[None]:
    """Ray on this machine, for all tests that need one; `untwine` finds that it is there."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'untwine[ray]'")
    import ray

    from untwine.launch import on_ray
    from untwine.launch.tasks import Means

    on_ray._connect(on_ray._ray(), Means(workers=2))
    yield
    ray.shutdown()
