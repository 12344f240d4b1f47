"""Memory that stays with the process while it trains."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from untwine.train import memory

# Pages that the system provides while 8 pieces of 8 MB are got and freed, the last of several times.
PAGES = """
import resource, runpy, sys
import numpy as np

kept_memory = runpy.run_path(sys.argv[1])["kept_memory"]  # the file alone, which is quick

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [np.ones(1 << 20) for _ in range(8)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with kept_memory():
    kept = [pages() for _ in range(4)]
print(kept[-1], pages())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
def test_pages_are_kept_and_then_returned():
    result = subprocess.run([sys.executable, "-c", PAGES, memory.__file__], capture_output=True, text=True, check=True)
    kept, after = map(int, result.stdout.split())
    assert kept < 0.1 * after


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("musl", "1.2"))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: pytest.fail("it was opened"))
    monkeypatch.setattr(memory, "_glibc", memory._glibc.__wrapped__)
    with memory.kept_memory():
        assert memory._glibc() is None
