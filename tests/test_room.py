"""What memory is free by each of the limits that a system can set."""

import subprocess
import sys
from pathlib import Path

import pytest

from untwine import room
from untwine.errors import UntwineError


def group(root: Path, lines: str, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> int | None:
    """What is free by the control groups of a made-up system.

    Args:
        root: Where its files are written.
        lines: What it says of the process.
        files: Its files of control groups.
        monkeypatch: Lets these files be read.
    """
    (root / "process").mkdir()
    (root / "process" / "cgroup").write_text(lines)
    for name, content in files.items():
        (root / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "groups" / name).write_text(f"{content}\n")
    monkeypatch.setattr(room, "_PROCESS", root / "process")
    monkeypatch.setattr(room, "_GROUPS", root / "groups")
    return room._of_group()


def test_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = {"memory.max": "5000", "memory.current": "1000", "memory.stat": "anon 7\ninactive_file 30\nactive_file 4"}
    assert group(tmp_path, "0::/\n", files, monkeypatch) == 5000 - 1000 + 34


def test_a_job_of_a_cluster_is_bound_by_the_groups_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = {"job/memory.max": "5000", "job/memory.current": "1000"}
    files |= {"job/step/memory.max": "max", "job/step/memory.current": "900"}
    files |= {"memory.max": "9000", "memory.current": "8000", "other/memory.max": "1", "other/memory.current": "0"}
    assert group(tmp_path, "0::/job/step\n", files, monkeypatch) == 1000


def test_the_first_version_of_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = {"memory/box/memory.limit_in_bytes": "70", "memory/box/memory.usage_in_bytes": "20"}
    assert group(tmp_path, "3:cpu,cpuacct:/box\n2:hugetlb,memory:/box\n", files, monkeypatch) == 50


@pytest.mark.parametrize("content", ["max", "", "many"])
def test_no_limit(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert group(tmp_path, "0::/\n", {"memory.max": content, "memory.current": "1"}, monkeypatch) is None


def test_the_least_room_counts(monkeypatch: pytest.MonkeyPatch):
    for name, free in {"_of_system": 300, "_of_group": 100, "_of_process": None}.items():
        monkeypatch.setattr(room, name, lambda free=free: free)
    assert room.free_memory() == 100
    with pytest.raises(UntwineError, match="and 100 bytes are free: take fewer"):
        room.refuse_larger(10**12, "a batch", "take fewer")
    monkeypatch.setattr(room, "_of_group", lambda: -5)
    assert room.free_memory() == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="others do not say how much a process has")
def test_a_limit_of_the_process():
    program = """
import resource
from untwine.room import free_memory
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
print(free_memory())
"""
    free = int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
    assert 2**30 < free < 2**31
