"""The Triton kernels are torch's convolutions, by Triton's interpreter: no GPU is needed, but Triton is."""

import functools
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from expected import GEOMETRIES

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")


@functools.cache
def errors() -> dict[str, dict[str, float]]:
    """By geometry and precision, then by kernel."""
    script = Path(__file__).with_name("triton_interpreter.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("precision", "most"), [("float32", 1e-6), ("float16", 1e-3)])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_kernels(name: str, precision: str, most: float) -> None:
    found = errors()[f"{name}, {precision}"]
    assert found.keys() >= {"down", "up", "weight", "fold"}
    assert {kernel: error for kernel, error in found.items() if not error < most} == {}
