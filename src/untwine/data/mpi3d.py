"""MPI3D: a robot's arm that holds an object, drawn or photographed (Gondal et al. 2019), and four arms at once."""

from __future__ import annotations

import contextlib
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
from jaxtyping import Int64, UInt8

from untwine.data import store
from untwine.data.factors import FactorSpace
from untwine.data.pictures import broken, mapped, save
from untwine.data.public import File, Public
from untwine.data.specs import dataset
from untwine.data.tabled import Tabled
from untwine.data.tiled import Held, Tiled, tiled_space
from untwine.errors import unknown
from untwine.progress import counter

SPACE = FactorSpace(
    ("colour", "shape", "size", "camera", "background", "horizontal", "vertical"),
    (6, 6, 2, 3, 3, 40, 40),
    ("categorical", "categorical", "ordered", "ordered", "categorical", "ordered", "ordered"),
)
# White, green, red, blue, brown, olive; cone, cube, cylinder, hexagonal, pyramid, sphere; small, large; camera at the
# top, in the centre, at the bottom; background purple, sea green, salmon.
HELD = {"colour": 3, "shape": 1, "size": 1, "camera": 0, "background": 2}  # in MPI3D-Multi (rhodes2021)
SIDE = 64
_MD5 = {
    "toy": "55889cb7c7dfc655d6e0277beee88868",
    "realistic": "59a6225b88b635365f70c91b3e52f70f",
    "real": "0f33f609918fb5c97996692f91129802",
}
FILES = {
    variant: File(
        f"mpi3d/mpi3d_{variant}.npz",
        (
            f"https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main/mpi3d_{variant}.npz",
            f"https://storage.googleapis.com/disentanglement_dataset/Final_Dataset/mpi3d_{variant}.npz",
        ),
        f"md5:{md5}",
    )
    for variant, md5 in _MD5.items()
}
_MEMBER = "images.npy"
_AT_ONCE = 2**24  # bytes that are unpacked at a time
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def _file(variant: str = "real", **arguments: object) -> tuple[File, ...]:
    if variant not in FILES:
        raise unknown("variant of mpi3d", variant, FILES)
    return (FILES[variant],)


PUBLIC = Public(files=_file, licence="CC BY 4.0", examples=SPACE.states, shape=(3, SIDE, SIDE), factors=SPACE)
MULTI = Public(
    files=_file,
    licence="CC BY 4.0",
    examples=500_000,
    shape=(3, SIDE, SIDE),
    factors=tiled_space(FactorSpace(("horizontal", "vertical"), (40, 40), ("ordered", "ordered")), 4),
)


@dataset(public=PUBLIC)
def mpi3d(variant: str = "real") -> Tabled:
    """A robot's arm in every position: colour, shape and size of what it holds, camera, background, and two angles.

    `variant` is `toy` (simple renderings), `realistic` (careful ones) or `real` (photographs). Each has 1,036,800
    colour pictures, 64 x 64: 12.7 GB, of which only those that are asked for are read.

    >>> SPACE.names, SPACE.states
    (('colour', 'shape', 'size', 'camera', 'background', 'horizontal', 'vertical'), 1036800)
    >>> mpi3d("reel")
    Traceback (most recent call last):
    untwine.errors.UntwineError: unknown variant of mpi3d 'reel'; did you mean 'real'?
    """
    (file,) = _file(variant)
    table = _table(file, variant)

    def rows(numbers: Int64[np.ndarray, " n"]) -> UInt8[np.ndarray, "n 3 h w"]:
        return np.ascontiguousarray(table[numbers].transpose(0, 3, 1, 2))

    return Tabled(SPACE, (3, SIDE, SIDE), rows)


@dataset(public=MULTI)
def mpi3d_multi(variant: str = "real", examples: int = 500_000, seed: int = 0) -> Tiled:
    """MPI3D-Multi (Rhodes & Lee 2021, appendix): four arms side by side, each moving on its own: eight factors.

    Every tile is a picture of `mpi3d` with every other pixel kept. All hold a large blue cube, seen from the top
    before a salmon background; horizontal1, vertical1, horizontal2, ... are the positions of the arms, row by row.

    Args:
        variant: That of `mpi3d`: toy, realistic or real.
        examples: How many training examples are drawn.
        seed: Of the training examples.

    >>> MULTI.factors.names[:3], MULTI.factors.states == 40**8
    (('horizontal1', 'vertical1', 'horizontal2'), True)
    """
    _file(variant)
    return Tiled(Held(mpi3d(variant), HELD), rows=2, columns=2, stride=2, examples=examples, seed=seed)


# --- the file -------------------------------------------------------------------------------------------


def _shape() -> tuple[int, ...]:
    return (SPACE.states, SIDE, SIDE, 3)


def _table(file: File, variant: str) -> UInt8[np.ndarray, "states h w 3"]:
    """All pictures, mapped into memory: where they lie in the archive if they are not packed, else from a copy."""
    unpacked = f"mpi3d/{variant}-1.npy"
    if not any((place / unpacked).is_file() for place in (store.folder(), store.writable())):
        archive = store.fetch(file)
        inside = _inside(archive)
        if inside is not None:
            return np.memmap(archive, np.uint8, "r", inside, _shape())
    made = store.derived(
        unpacked,
        lambda path: save(path, _shape(), _unpacked(store.fetch(file))),
        f"unpacking {file.name}",
        math.prod(_shape()),
    )
    return mapped(made, _shape())


def _inside(archive: Path) -> int | None:
    """Where in the archive the pictures begin; None if they are packed."""
    with _images(archive) as (member, stream):
        if member.compress_type != zipfile.ZIP_STORED:
            return None
        header = stream.tell()
    with archive.open("rb") as file:
        file.seek(member.header_offset)
        # What comes before the content: 30 bytes, a name, and more. The archive's directory may say less of it.
        name, more = struct.unpack("<26x2H", file.read(30))
    return member.header_offset + 30 + name + more + header


def _unpacked(archive: Path) -> Iterator[bytes]:
    with (
        _images(archive) as (_, stream),
        counter(f"unpacking {archive.name}", math.prod(_shape()), in_bytes=True) as count,
    ):
        while part := stream.read(_AT_ONCE):
            yield part
            count(len(part))


@contextlib.contextmanager
def _images(archive: Path) -> Iterator[tuple[zipfile.ZipInfo, zipfile.ZipExtFile]]:
    """The pictures as a stream that stands where its header ends, which says what it must."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            if _MEMBER not in zipped.namelist():
                found = ", ".join(zipped.namelist()) or "nothing"
                raise broken(archive, f"it has no array 'images'; in it is {found:.200}")
            member = zipped.getinfo(_MEMBER)
            with cast(zipfile.ZipExtFile, zipped.open(member)) as stream:
                _check(archive, member, stream)
                yield member, stream
    # An encrypted member is a RuntimeError; a method of packing that is not known, a NotImplementedError.
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, RuntimeError) as error:
        raise broken(archive, error) from None


def _check(archive: Path, member: zipfile.ZipInfo, stream: zipfile.ZipExtFile) -> None:
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise broken(archive, f"its array 'images' is written in version {version} of the format")
    shape, fortran_order, dtype = _HEADERS[version](stream)
    if (shape, fortran_order, dtype) != (_shape(), False, np.uint8):
        order = " in Fortran's order" if fortran_order else ""
        raise broken(archive, f"its array 'images' is {dtype} {list(shape)}{order} instead of uint8 {list(_shape())}")
    if member.file_size != stream.tell() + math.prod(shape):
        raise broken(archive, f"its array 'images' takes {member.file_size} bytes, which do not fit {list(shape)}")
