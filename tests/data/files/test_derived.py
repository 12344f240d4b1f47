"""Derived files are made once, and again if they have changed."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from file_helpers import HINT, counting, left, never, put, read_only, sha256, started

from untwine.data.files.derived import derived
from untwine.errors import Unavailable, UntwineError


def test_a_derived_file_is_made_once_under_its_own_suffix(data, hashed):
    times: list[Path] = []
    for _ in range(3):
        path = derived("made/numbers-v1.npy", counting(times), "counting")
        assert path == data / "made" / "numbers-v1.npy" and np.load(path).tolist() == list(range(5))
    assert len(times) == 1 and times[0].suffix == ".npy" and times[0] != path and len(hashed) == 1
    assert left(data) == {"numbers-v1.npy"}
    stamp = json.loads((data / "made" / ".numbers-v1.npy.stamp.json").read_text())
    assert stamp["checksum"] == sha256(path.read_bytes()) and stamp["derived"] is True


@pytest.mark.parametrize("damage", ["shorter", "other", "no stamp", "not derived"])
def test_a_derived_file_that_is_not_as_it_was_made_is_made_again(data, damage):
    times: list[Path] = []
    path = derived("numbers.npy", counting(times), "counting")
    stamp = data / ".numbers.npy.stamp.json"
    match damage:
        case "shorter":
            path.write_bytes(path.read_bytes()[:-1])
        case "other":
            path.write_bytes(path.read_bytes()[:-1] + b"!")
            os.utime(path, ns=(0, 0))
        case "no stamp":
            stamp.unlink()
        case _:  # a public file of that name, say
            stamp.write_text(json.dumps(json.loads(stamp.read_text()) | {"derived": False}))
    with pytest.warns(UserWarning, match=f"{path} is not as it was made; counting again"):
        assert derived("numbers.npy", counting(times), "counting") == path
    assert len(times) == 2 and np.load(path).tolist() == list(range(5))


def test_a_derived_file_with_another_time_is_read_rather_than_made(data, tmp_path, hashed, monkeypatch):
    path = derived("sub/numbers.npy", counting([]), "counting")
    os.utime(path, ns=(0, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert derived("sub/numbers.npy", never, "counting") == path
        assert len(hashed) == 2  # when it was made, and once now
        shutil.copytree(data, tmp_path / "copy", copy_function=shutil.copy)
        monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "copy"))
        os.utime(tmp_path / "copy" / "sub" / "numbers.npy", ns=(1, 1))
        for _ in range(2):
            assert derived("sub/numbers.npy", never, "counting") == tmp_path / "copy" / "sub" / "numbers.npy"
    assert len(hashed) == 3


def test_a_derived_file_with_another_time_in_a_read_only_folder(data, tmp_path, hashed):
    path = derived("sub/numbers.npy", counting([]), "counting")
    os.utime(path, ns=(0, 0))
    read_only(data)
    for _ in range(2):
        assert derived("sub/numbers.npy", never, "counting") == path
    assert len(hashed) == 2
    shutil.rmtree(tmp_path / "cache")
    put(tmp_path / "cache", b"a file where there should be a folder")
    for _ in range(2):
        assert derived("sub/numbers.npy", never, "counting") == path
    assert len(hashed) == 3


def test_a_derived_file_that_cannot_be_read_is_passed_over(data, tmp_path, monkeypatch):
    path = derived("sub/numbers.npy", counting([]), "counting")
    read_only(data)
    real = os.access
    monkeypatch.setattr(os, "access", lambda file, how: Path(file) != path and real(file, how))
    with pytest.warns(UserWarning, match=f"{path} cannot be read; counting again"):
        own = derived("sub/numbers.npy", counting([]), "counting")
    assert own == tmp_path / "cache" / "untwine" / "sub" / "numbers.npy"
    assert derived("sub/numbers.npy", never, "counting") == own


@pytest.mark.parametrize("way", ["numbers.npy", ".numbers.part.npy", ".numbers.npy.lock", ".numbers.npy.stamp.json"])
@pytest.mark.filterwarnings("ignore:.*is not as it was made")
def test_a_folder_in_the_way_of_what_is_made(data, way):
    put(data / way / "in it")
    with pytest.raises(
        Unavailable, match=rf"counting: {data}/.*numbers.*: Is a directory.*UNTWINE_DATA.*{HINT}"
    ) as one:
        derived("numbers.npy", counting([]), "counting", hint=HINT)
    assert "Make room" not in str(one.value)
    assert left(data) == {"in it"}


def test_a_file_that_may_not_grow_so_large(data):
    """As with `ulimit -f`, where the write fails."""
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    derived("numbers.npy", lambda path: path.write_bytes(bytes(20_000)), "counting")
except Exception as error:
    print(type(error).__name__, error)
"""
    said = started(code).communicate()[0]
    assert re.match(rf"Unavailable counting: {data}/numbers.npy could not be made: File too large", said)
    assert left(data) == set()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, UntwineError, FileNotFoundError(2, "not there")])
def test_nothing_stays_of_what_could_not_be_made(data, error):
    def make(path: Path) -> None:
        path.write_bytes(b"half")
        raise error

    said = None if isinstance(error, type) else f"counting: {data / 'numbers.npy'} could not be made: not there"
    with pytest.raises(error if isinstance(error, type) else Unavailable, match=said):
        derived("numbers.npy", make, "counting")
    assert left(data) == set()
    (data / ".numbers.part.npy").write_bytes(b"of a process that was killed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.load(derived("numbers.npy", counting([]), "counting")).tolist() == list(range(5))


def test_what_is_made_needs_room(data, monkeypatch):
    real = shutil.disk_usage(data.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=1_500_000))
    with pytest.raises(
        Unavailable, match=rf"counting: .*2\.0 GB are needed in {data}.*1\.5 MB are free.*UNTWINE_DATA.*{HINT}"
    ):
        derived("numbers.npy", never, "counting", size=2_000_000_000, hint=HINT)
    assert derived("numbers.npy", counting([]), "counting", size=1_500_000).is_file()


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), OSError("5 requested and 1 written")]
)
def test_a_disk_that_fills_up_while_something_is_made(data, monkeypatch, error):
    def make(path: Path) -> None:
        path.write_bytes(b"half")
        raise error

    if error.errno is None:  # as NumPy says it
        real = shutil.disk_usage(data.parent)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=0))
    with pytest.raises(Unavailable, match=f"counting: .*the disk of {data} is full.*UNTWINE_DATA.*{HINT}"):
        derived("numbers.npy", make, "counting", hint=HINT)
    assert left(data) == set()


def test_two_processes_make_once(data, tmp_path):
    code = f"""
import os, time
def make(path):
    print("made")
    while not os.path.exists({str(tmp_path / "go")!r}):
        time.sleep(0.005)
    path.write_text("numbers")
print(derived("sub/numbers.txt", make, "counting").read_text())
"""
    children = [started(code) for _ in range(2)]
    time.sleep(0.2)
    (tmp_path / "go").touch()
    said = "".join(child.communicate()[0] for child in children).split()
    assert sorted(said) == ["made", "numbers", "numbers"]
