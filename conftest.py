"""Settings for the tests in tests/ and for the examples in the docstrings of src/, hence in the root."""

import builtins
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

THREADS = 1 if os.environ.get("OMP_NUM_THREADS") == "1" else 2  # one, if asked for, tries another order of sums
# Examples are looked for in every module; these can be imported only where Triton is installed.
collect_ignore = (
    [] if find_spec("triton") else [f"src/untwine/kernels/{name}.py" for name in ("triton_launch", "triton_kernels")]
)

# Every shape annotation of untwine is checked while the tests run. The hook rewrites modules as they are
# imported, so untwine must not have been imported before. An int may stand for a float, as in pyright.
assert "untwine" not in sys.modules, "untwine was imported before its shape checks could be switched on"
if os.environ.get("JAXTYPING_DISABLE") != "1":
    install_import_hook("untwine", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

# Sums depend on how many threads share them. The variable reaches subprocesses and a torch not yet imported.
os.environ["OMP_NUM_THREADS"] = str(THREADS)
# Threads that spin while they wait ruin each other on a busy machine, and tests of tiny models anywhere.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Ray lets its workers wait for whatever else runs: tests beside others would wait for minutes.
os.environ.setdefault("RAY_worker_niceness", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slow tests: at the end of a session one of them would keep a single worker busy."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_runtest_setup() -> None:
    """Hold torch to the same threads in every test, without importing it for those that do without."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != THREADS:
        torch.set_num_threads(THREADS)


def pytest_runtest_teardown() -> None:
    """Forget what an example showed last: it stays in `builtins._`, which tyro takes for a translation."""
    builtins.__dict__.pop("_", None)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The data cache that UNTWINE_DATA names; a test that needs real data is skipped where there is none."""
    folder = os.environ.get("UNTWINE_DATA")
    if not folder:
        pytest.skip("UNTWINE_DATA is not set")
    path = Path(folder)
    if not path.is_dir():
        pytest.skip(f"UNTWINE_DATA names no folder: {folder}")
    return path
