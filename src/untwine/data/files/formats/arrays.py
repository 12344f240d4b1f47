"""Arrays in .npy and .npz files of users: what a file claims is looked at before any of it is read."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from untwine.progress import amount
from untwine.room import refuse_larger

# What reading a file raises that is no such file, is cut off, or holds objects, which are never unpickled.
DAMAGE = (ValueError, OSError, EOFError, zipfile.BadZipFile, RuntimeError, NotImplementedError)
_HEADERS = {b"\1\0": np.lib.format.read_array_header_1_0, b"\2\0": np.lib.format.read_array_header_2_0}


def loaded(path: Path, choose: Callable[[list[str]], list[str]]) -> np.ndarray | dict[str, np.ndarray]:
    """The array of a .npy file, or the arrays of an .npz file by name; one of `DAMAGE` where they cannot be read.

    What is larger than the memory, or than the file can hold, is refused before it is read.

    Args:
        path: The file.
        choose: Which arrays of an .npz file to read, of the names that it has.
    """
    if not zipfile.is_zipfile(path):
        _refuse_claims(path)
        array = np.load(path, allow_pickle=False)
        assert isinstance(array, np.ndarray)
        return array
    with np.load(path, allow_pickle=False) as archive:
        wanted = choose(list(archive.files))
        with zipfile.ZipFile(path) as members:
            for name in wanted:
                with members.open(f"{name}.npy" if f"{name}.npy" in members.namelist() else name) as stream:
                    refuse_larger(_claimed(stream), f"the array {name!r} of {path}", "give fewer or smaller pictures")
        return {name: archive[name] for name in wanted}


def _refuse_claims(path: Path) -> None:
    with path.open("rb") as file:
        claimed, begins = _claimed(file), file.tell()
    held = path.stat().st_size - begins
    if claimed > held:
        raise ValueError(f"it claims to hold {amount(claimed)}, and has {amount(held)}")
    refuse_larger(claimed, f"the array of {path}", "give fewer or smaller pictures")


def _claimed(stream: Any) -> int:
    """The bytes that an array takes, as the header says with which a stream of bytes begins."""
    if stream.read(6) != b"\x93NUMPY":
        raise ValueError("it does not begin as an array of NumPy does")
    read_header = _HEADERS.get(stream.read(2))
    if read_header is None:
        return 0  # names of columns that are no ASCII: NumPy knows what to do
    shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    return math.prod(shape) * dtype.itemsize
