"""What the machine refuses is one line, exit code 1: by real cases where there are any, else by raising."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from untwine import cli
from untwine.cli import main
from untwine.cli.failures import failure


def untwine(*words: str, stdout: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "untwine", *words]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, cwd=cwd)  # type: ignore[call-overload]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [("--version",), ("methods",), ("train", "--help")])
def test_a_full_disk_as_output(words: tuple[str, ...], tmp_path: Path):
    with open("/dev/full", "w") as full:
        done = untwine(*words, stdout=full, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "No space left on device; free some space" in done.stderr


def test_a_closed_pipe_is_silent(tmp_path: Path):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        done = untwine("methods", stdout=closed, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX closes streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["methods", "train --help", "--version"])
def test_streams_that_are_closed(words: str, closed: str, tmp_path: Path):
    """Whoever closes the output wants none: the command does its work as with /dev/null."""
    shell = f"{sys.executable} -m untwine {words} {closed}"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed == "2>&-")


def test_a_name_that_is_too_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    picture = tmp_path / ("x" * 300) / "a.png"
    assert main(["data", "show", "xy-squares", "--out", str(picture)]) == 1
    said = capsys.readouterr().err
    assert "File name too long" in said and said.count("\n") == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tmp_path.chmod(0o500)
    assert main(["data", "show", "xy-squares", "--out", str(tmp_path / "a.png")]) == 1
    assert "you have no right to it" in capsys.readouterr().err


class SafetensorError(Exception):
    """Named as the library's."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a/log.jsonl"), ("a/log.jsonl", "free some space")),
        (PermissionError(errno.EACCES, "Permission denied", "a"), ("a: Permission denied", "no right")),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a/b"), ("a/b", "removed meanwhile")),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), ("xx...xx", "choose a shorter name")),
        (OSError(errno.EROFS, "Read-only file system", "a"), ("cannot be written to",)),
        (OSError(errno.EIO, "Input/output error"), ("the output or a file", "the drive failed")),
        (OSError("no number"), ("no number",)),
        (MemoryError(), ("memory is used up;", "--batch-size")),
        (MemoryError("Unable to allocate 3 TiB"), ("memory is used up (Unable", "--pack-size")),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"), ("the memory is used up",)),
        (torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB"), ("the device's memory is used up",)),
        (SafetensorError("header too large"), ("a file of weights", "header too large")),
        (RecursionError("maximum recursion depth exceeded"), ("nested too deeply",)),
        (UnicodeEncodeError("utf-8", "\udc80", 0, 1, "surrogates not allowed"), ("a name cannot be written",)),
    ],
    ids=repr,
)
def test_each_failure_is_a_line(error, words, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def fails(arguments: list[str], alone: bool) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", fails)
    assert main(["methods"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("untwine: ") and said.count("\n") == 1 and "Traceback" not in said
    for word in words:
        assert word in said


@pytest.mark.parametrize("flag", ["--out", "--resume"])
def test_a_run_that_has_begun_can_go_on(tmp_path: Path, flag: str):
    error = OSError(errno.ENOSPC, "No space left on device", "x")
    folder = tmp_path / "a run"
    assert "go on" not in str(failure(error, ["train", "vae", flag, str(folder)]))
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    for words in (["train", flag, str(folder)], ["train", f"{flag}={folder}"]):
        assert str(failure(error, words)).endswith(f"Then go on with: untwine train --resume '{folder}'")
    assert "go on" not in str(failure(error, ["report", flag, str(folder)]))


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch):
    def fails(arguments: list[str], alone: bool) -> int:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(cli, "_run", fails)
    with pytest.raises(RuntimeError, match="shapes"):
        main(["methods"])
