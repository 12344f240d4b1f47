"""SmallNORB from tiny files of the public format, and from files that are not as they should be."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from untwine.data.families import smallnorb as module
from untwine.data.families.smallnorb import smallnorb
from untwine.data.files.formats import norb
from untwine.data.files.tables import resized
from untwine.data.specs import build
from untwine.errors import UntwineError


@pytest.fixture(scope="module")
def writer(public_writer):
    return public_writer("smallnorb")


def test_the_published_space_and_files():
    assert module.SPACE.names == ("category", "instance", "elevation", "azimuth", "lighting")
    assert module.SPACE.sizes == (5, 5, 9, 18, 6) and module.PUBLIC.examples == 24300
    assert module.SPACE.kinds == ("categorical", "categorical", "ordered", "cyclic", "categorical")
    assert module.INSTANCES == {"train": (4, 6, 7, 8, 9), "test": (0, 1, 2, 3, 5)}
    # The names say what they hold: categories, instances, elevations, azimuths, lightings, cameras, pixels.
    for split, instances in module.INSTANCES.items():
        files = module.PUBLIC.files(split=split, camera=0, size=64)
        digits = "".join(map(str, instances))
        ends = ["dat", "cat", "info"]
        assert [file.name for file in files] == [
            f"smallnorb-5x{digits}x9x18x6x2x96x96-{split}ing-{end}.mat.gz" for end in ends
        ]
        assert all(file.urls[0].endswith(f"/norb-v1.0-small/{file.name}") for file in files)
    both = module.PUBLIC.files(split="both", camera=1, size=32)
    assert len(both) == 6 and len({file.checksum for file in both}) == 6
    with pytest.raises(UntwineError, match="unknown split of smallnorb 'tets'; did you mean 'test'"):
        module.PUBLIC.files(split="tets")


@pytest.mark.parametrize("split", ["train", "test", "both"])
@pytest.mark.parametrize("camera", [0, 1])
def test_every_picture_is_in_its_place(public, writer, split, camera):
    public("smallnorb")
    data = smallnorb(split, camera=camera, size=96)
    toys = sorted(toy for one in ("train", "test") if split in (one, "both") for toy in writer.INSTANCES[one])
    assert data.factors.sizes == (2, len(toys), 3, 4, 2) and data.shape == (1, 96, 96)
    assert len(data) == data.factors.states == (192 if split == "both" else 96)
    for one in ("train", "test") if split == "both" else (split,):
        for row, pictures in zip(writer.labels(one), writer.pictures(writer.labels(one)), strict=True):
            category, toy, elevation, azimuth, lighting = row
            seen = data.observe([[category, toys.index(toy), elevation, azimuth // 2, lighting]])
            assert np.array_equal(seen[0, 0], pictures[camera])


def test_pictures_are_resized_once_and_kept(public, monkeypatch):
    folder = public("smallnorb")
    native, small = smallnorb(size=96), smallnorb()
    assert small.shape == (1, 64, 64)
    assert small.spec == {"name": "smallnorb", "split": "train", "camera": 0, "size": 64}
    assert np.array_equal(small.examples(), resized(native.examples(), 64))
    for file in module.FILES.values():
        (folder / file.path).unlink()
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    assert np.array_equal(build(small.spec).examples(), small.examples())
    with pytest.raises(UntwineError, match="training"):
        smallnorb(camera=1)


def test_only_the_files_of_a_split_are_needed(public, monkeypatch):
    folder = public("smallnorb")
    for file in module.PUBLIC.files(split="train"):
        (folder / file.path).unlink()
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    assert len(smallnorb("test", size=8)) == 96
    with pytest.raises(UntwineError, match="training"):
        smallnorb("both", size=8)


@pytest.mark.parametrize("at_once", [100, 5 * 2 * 96 * 96 + 1])  # one scene or five, and a few labels or all
def test_reading_in_parts_changes_nothing(public, monkeypatch, at_once):
    public("smallnorb")
    expected = smallnorb(size=24).examples()
    monkeypatch.setattr(norb, "_CHUNK", at_once)
    table = module._table(("train",), 0, 24)
    assert np.array_equal(table, expected)


# --- files that are not as they should be ---------------------------------------------------------------


def refused(folder, part: str, message: str) -> None:
    with pytest.raises(UntwineError, match=message) as caught:
        smallnorb(size=16)
    assert str(folder / module.FILES["train", part].path) in str(caught.value)
    assert "delete it" in str(caught.value)
    assert not list(folder.rglob("*.npy"))


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("dat", lambda content: b"\x00" + content[1:], "begins with 004c3d1e04000000"),
        ("cat", lambda content: content[3::-1] + content[4:], "begins with 1e3d4c54"),  # the other byte order
        ("info", lambda content: b"", "begins with nothing"),
        ("cat", lambda content: content[:4] + struct.pack("<i", -1) + content[8:], "begins with"),
        ("cat", lambda content: content[:11], "ends in its header"),
        ("dat", lambda content: content[:-1], "ends after 95 of 96 rows"),
        ("dat", lambda content: content[:4000], "ends after 0 of 96 rows"),
        ("info", lambda content: content[:-16], "ends after 95 of 96 rows"),
        ("info", lambda content: content + b"\x00", "more follows"),
        (
            "dat",
            lambda content: struct.pack("<I", 0x1E3D4C54) + content[4:],
            r"int32 \[96, 2, 96, 96\] instead",
        ),
        ("cat", lambda content: content[:8] + struct.pack("<i", 95) + content[12:], r"\[95\] instead of int32 \[96\]"),
        (
            "info",
            lambda content: content[:4] + struct.pack("<i", 1) + content[8:],
            r"\[96\] instead of int32 \[96, 4",
        ),
    ],
)
def test_wrong_matrices_are_refused(public, writer, monkeypatch, part, change, message):
    folder = public("smallnorb")
    content = gzip.compress(change(writer.contents("train")[part]))
    writer.write(folder, monkeypatch, {("train", part): content})
    refused(folder, part, message)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("dat", lambda packed: packed[:-9]),
        ("dat", lambda packed: packed[: len(packed) // 2]),
        ("cat", lambda packed: packed[:5]),
        ("info", lambda packed: b"no gzip at all"),
        ("dat", lambda packed: packed[:-8] + b"\x00" * 8),  # checksum and length
        ("info", lambda packed: packed[:60] + b"\xff" * 20 + packed[80:]),
    ],
)
def test_broken_archives_are_refused(public, writer, monkeypatch, part, change):
    folder = public("smallnorb")
    packed = change(gzip.compress(writer.contents("train")[part], 1))
    writer.write(folder, monkeypatch, {("train", part): packed})
    refused(folder, part, "does not hold what it should")


@pytest.mark.parametrize(
    ("column", "value", "part", "message"),
    [
        (0, 2, "cat", r"category 2, which is none of \[0, 1\]"),
        (1, 0, "info", r"instance 0, which is none of \[4, 9\]"),  # one of the other split
        (2, -1, "info", "elevation -1"),
        (3, 3, "info", r"azimuth 3, which is none of \[0, 2, 4, 6\]"),
        (4, 2, "info", "lighting 2"),
    ],
)
def test_labels_that_do_not_exist_are_refused(public, writer, monkeypatch, column, value, part, message):
    folder = public("smallnorb")
    rows = writer.labels("train")
    rows[17, column] = value
    changed = {"cat": rows[:, 0].copy(), "info": rows[:, 1:].copy()}[part]
    writer.write(folder, monkeypatch, {("train", part): gzip.compress(writer.matrix(changed))})
    refused(folder, part, message)


def test_a_missing_combination_is_refused(public, writer, monkeypatch):
    folder = public("smallnorb")
    rows = writer.labels("train")
    rows[5] = rows[40]
    parts = {"cat": rows[:, 0].copy(), "info": rows[:, 1:].copy()}
    writer.write(folder, monkeypatch, {("train", part): gzip.compress(writer.matrix(parts[part])) for part in parts})
    double = f"'category': {rows[40, 0]}, 'instance': {rows[40, 1]}, 'elevation': {rows[40, 2]}"
    refused(folder, "info", f"1 combinations are missing; others are there twice, such as {{{double}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "traning"}, "unknown split of smallnorb 'traning'; did you mean 'train'"),
        ({"split": "all"}, "unknown split of smallnorb 'all'; known: both, test, train"),
        ({"camera": 2}, "camera of smallnorb must be a whole number, from 0 to 1"),
        ({"camera": -1}, "camera of smallnorb"),
        ({"size": 0}, "size of dataset 'smallnorb' must be a whole number, 1 or more"),
    ],
)
def test_wrong_arguments_are_refused(public, arguments, message):
    public("smallnorb")
    with pytest.raises(UntwineError, match=message):
        smallnorb(**arguments)
