"""Tests that compare numbers after several training steps hold on other processors too.

An environment variable makes torch take the code that it has for an older processor, whose sums are in another order.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# Without vector instructions, and with those of ten years ago; oneDNN and MKL, which ATen calls, follow.
PROCESSORS = {
    "scalar": {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
}


@pytest.mark.slow
@pytest.mark.parametrize("processor", PROCESSORS)
def test_trained_numbers_hold_on_another_processor(processor: str) -> None:
    files = [str(file) for file in sorted(TESTS.glob("*/test_*.py")) if "mark.rounding" in file.read_text()]
    options = ["-m", "rounding", "-q", "-p", "no:cacheprovider", "-p", "no:logging", "-p", "no:xdist", "-o", "addopts="]
    command = [sys.executable, "-m", "pytest", "--import-mode=importlib", *options, *files]
    quick = {"JAXTYPING_DISABLE": "1"}  # the same tests check shapes in this process
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "UNTWINE_"))}
    done = subprocess.run(
        command,
        cwd=TESTS.parent,
        env=inherited | quick | PROCESSORS[processor],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
