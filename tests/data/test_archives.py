"""Archives from elsewhere: their files are read as they are, and none of them leaves its folder."""

from __future__ import annotations

import io
import re
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from untwine.data import archives
from untwine.errors import Unavailable

LONG = np.arange(100_000, dtype="<u4").tobytes()
HARMLESS = {"list.txt": b"one two", "./cars/a.mat": b"AAA", "cars/deep/b.mat": LONG}


def left(folder: Path) -> set[str]:
    """The files in a folder, other than locks."""
    return {path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


def tarred(path: Path, entries: list[tarfile.TarInfo | str], kind: Any = "w:gz") -> Path:
    with tarfile.open(path, kind) as archive:
        folder = tarfile.TarInfo("cars")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for entry in [*HARMLESS, *entries]:
            info = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            content = HARMLESS.get(info.name, b"evil") if info.isreg() else b""
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path: Path, entries: list[zipfile.ZipInfo | str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("cars")
        for entry in [*HARMLESS, *entries]:
            archive.writestr(entry, HARMLESS.get(entry, b"evil") if isinstance(entry, str) else b"/etc/passwd")
    return path


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:xz", "zip"])
def test_archives_are_read_and_unpacked(tmp_path, kind):
    archive = zipped(tmp_path / "a.zip", []) if kind == "zip" else tarred(tmp_path / "a.tar", [], kind)
    expected = {name.removeprefix("./"): content for name, content in HARMLESS.items()}
    assert {name: file.read() for name, file in archives.members(archive)} == expected
    with archives.opened(archive, "cars/a.mat") as file:
        assert file.read() == b"AAA"
    with pytest.raises(Unavailable, match=r"a\.\w+ has no cars/c\.mat"), archives.opened(archive, "cars/c.mat"):
        pass
    into = archives.extract(archive, tmp_path / "unpacked" / "cars3d")
    assert {
        path.relative_to(into).as_posix(): path.read_bytes() for path in into.rglob("*") if path.is_file()
    } == expected
    archive.unlink()
    assert archives.extract(archive, into) == into  # it is there
    assert left(into.parent) == {Path(name).name for name in expected}


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    "evil",
    [
        "../evil",
        "cars/../../evil",
        "/tmp/evil",
        "..\\evil",
        "C:\\evil",
        "C:evil",
        "\\\\host\\share\\evil",
        special("link", tarfile.SYMTYPE, "/etc"),
        special("link", tarfile.SYMTYPE, "list.txt"),
        special("link", tarfile.LNKTYPE, "list.txt"),
        special("device", tarfile.CHRTYPE),
        special("pipe", tarfile.FIFOTYPE),
        zip_link(),
    ],
    ids=lambda evil: evil if isinstance(evil, str) else type(evil).__name__,
)
def test_no_member_leaves_the_folder(tmp_path, evil):
    made = []
    if not isinstance(evil, zipfile.ZipInfo):
        made.append(tarred(tmp_path / "evil.tar.gz", [evil]))
    if not isinstance(evil, tarfile.TarInfo):
        made.append(zipped(tmp_path / "evil.zip", [evil]))
    name = evil.filename if isinstance(evil, zipfile.ZipInfo) else getattr(evil, "name", evil)
    for archive in made:
        with pytest.raises(Unavailable, match=f"{re.escape(str(archive))} is refused: .*{re.escape(repr(name))}"):
            archives.extract(archive, tmp_path / "in" / "here")
        with pytest.raises(Unavailable, match="is refused"):
            list(archives.members(archive))
    assert left(tmp_path) == {path.name for path in made} and not (tmp_path / "in" / "here").exists()


@pytest.mark.parametrize("kind", ["w", "w:gz", "zip", "text"])
def test_a_damaged_archive_is_said_to_be_so(tmp_path, kind):
    path = tmp_path / "archive"
    if kind == "text":
        path.write_text("no archive")
    else:
        zipped(path, []) if kind == "zip" else tarred(path, [], kind)
        content = bytearray(path.read_bytes())
        if kind == "zip":
            content[len(content) // 2] ^= 255  # within a member; else it is cut
        path.write_bytes(content if kind == "zip" else content[: len(content) // 2])
    with pytest.raises(Unavailable, match=f"{path} is damaged, or no archive"):
        archives.extract(path, tmp_path / "here")
    with pytest.raises(Unavailable, match=f"{path} is damaged"), archives.opened(path, "cars/deep/b.mat") as file:
        file.read()
    assert not (tmp_path / "here").exists() and left(tmp_path) == {"archive"}


def test_a_member_that_is_both_a_file_and_a_folder_is_refused(tmp_path):
    archive = tarred(tmp_path / "a.tar", ["list.txt/evil"])
    with pytest.raises(Unavailable, match="could not be unpacked"):
        archives.extract(archive, tmp_path / "here")
    assert not (tmp_path / "here").exists()
