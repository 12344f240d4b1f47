"""Files are complete or absent, say their names in errors, and leave nothing behind."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from untwine import files


def ended() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.skipif(os.name != "posix", reason="elsewhere nobody can be asked whether a process runs")
def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path: Path) -> None:
    dead, alive = tmp_path / f".a.json.{ended()}.part", tmp_path / f".a.json.{os.getppid()}.part"
    others = [tmp_path / name for name in (".b.json.1.part", "a.json.1.part", ".a.json.x.part", ".a.json.1.part.bak")]
    for file in (dead, alive, *others):
        file.write_text("half")
    link = tmp_path / f".a.json.{ended()}1.part"
    link.symlink_to(others[0])
    files.write_json(tmp_path / "a.json", 1)
    assert not dead.exists()
    assert all(file.exists() for file in (alive, *others, link))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_an_error_of_writing_has_the_name_of_the_file(tmp_path: Path) -> None:
    """The system gives the name of a file when it is opened, but not when a write to it fails."""
    with pytest.raises(OSError, match="No space left") as plain, open("/dev/full", "wb", 0) as full:
        full.write(b"x")
    assert plain.value.filename is None
    with pytest.raises(OSError, match="No space left") as named, files.naming(tmp_path / "log"):
        raise plain.value
    assert named.value.filename == str(tmp_path / "log")
    with pytest.raises(FileNotFoundError) as other, files.naming(tmp_path / "log"):
        (tmp_path / "none").read_bytes()
    assert other.value.filename == str(tmp_path / "none")


def test_a_failed_write_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        files.write(tmp_path / "run.json", b"new")
    assert error.value.filename == str(tmp_path / "run.json") and not list(tmp_path.iterdir())


def test_every_flipped_bit_of_a_sealed_value_is_seen(tmp_path: Path) -> None:
    file, value = tmp_path / "value.json", {"a": [1, 2.5], "b": None}
    files.write_sealed(file, value)
    content = file.read_bytes()
    assert files.read_sealed(file) == value
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        assert files.read_sealed(file) in (None, value)  # white space may be another
    for other in (b"", b"3", b"[]", json.dumps({"value": value}).encode()):
        file.write_bytes(other)
        assert files.read_sealed(file) is None
    assert files.read_sealed(tmp_path / "none") is None
