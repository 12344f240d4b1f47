"""Cars3D from a tiny archive of the public format, and from archives that are not as they should be."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat

from untwine.data.families import cars3d as module
from untwine.data.families.cars3d import cars3d
from untwine.data.files.tables import resized
from untwine.data.specs import build
from untwine.errors import UntwineError


@pytest.fixture(scope="module")
def writer(public_writer):
    return public_writer("cars3d")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder."""
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_the_published_space():
    assert module.SPACE.names == ("elevation", "azimuth", "object") and module.SPACE.sizes == (4, 24, 183)
    assert module.SPACE.kinds == ("ordered", "cyclic", "categorical")
    assert module.PUBLIC.examples == 17568 and module.PUBLIC.files(size=64) == module.FILES
    assert [file.checksum for file in module.FILES] == ["md5:4e866a7919c1beedf53964e6f7a23686"]


def test_every_picture_is_in_its_place(public, writer):
    public("cars3d")
    data = cars3d(size=128)
    assert data.shape == (3, 128, 128) and len(data) == writer.LENGTH == data.factors.states
    for number in range(len(writer.OBJECTS)):
        published = writer.pictures(number)
        for elevation in range(writer.ELEVATIONS):
            for azimuth in range(writer.AZIMUTHS):
                seen = data.observe([[elevation, azimuth, number]])[0]
                assert np.array_equal(seen, published[..., azimuth, elevation].transpose(2, 0, 1))


def test_pictures_are_resized_once_and_kept(public, writer, monkeypatch):
    folder = public("cars3d")
    native, small = cars3d(size=128), cars3d()
    assert small.shape == (3, 64, 64) and small.spec == {"name": "cars3d", "size": 64}
    assert np.array_equal(small.examples(), resized(native.examples(), 64))
    # What was made is enough from then on; without it the archive is missed.
    (folder / module.FILES[0].path).unlink()
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    assert np.array_equal(build(small.spec).examples(), small.examples())
    with pytest.raises(UntwineError, match="nips2015-analogy-data"):
        cars3d(size=32)


def test_the_list_may_come_first_and_with_suffixes(folder, writer, monkeypatch):
    content = writer.members()
    names = "\r\n".join(f"{name}.mat" for name in writer.OBJECTS) + "\r\n\r\n"
    rest = {f"./{name}": value for name, value in content.items() if name != "data/cars/list.txt"}
    writer.write(folder, monkeypatch, {"./data/cars/list.txt": names.encode(), **rest})
    data = cars3d(size=128)
    for number in range(len(writer.OBJECTS)):
        assert np.array_equal(data.observe([[1, 3, number]])[0], writer.pictures(number)[..., 3, 1].transpose(2, 0, 1))


def test_cars_that_are_not_listed_are_left_out(folder, writer, monkeypatch):
    writer.write(folder, monkeypatch, {"data/cars/car_000_mesh.mat": writer.mesh(99), **writer.members()})
    seen = cars3d(size=128).observe([[1, 2, 3]])[0]
    assert np.array_equal(seen, writer.pictures(3)[..., 2, 1].transpose(2, 0, 1))


# --- archives that are not as they should be ------------------------------------------------------------


def mat(**arrays: object) -> bytes:
    file = io.BytesIO()
    savemat(file, arrays, format="5")
    return file.getvalue()


def link(name: str, kind: bytes, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


CAR = "data/cars/car_004_mesh.mat"
LIST = "data/cars/list.txt"
WRONG = {
    "no list": ({LIST: None}, "no data/cars/list.txt"),
    "an empty list": ({LIST: b"\n\n"}, "names 0 objects"),
    "a short list": ({LIST: b"car_004_mesh\n"}, "names 1 objects in 1 lines, not 6"),
    "a name twice": ({LIST: b"car_004_mesh\n" * 6}, "names 1 objects in 6 lines"),
    "a car is missing": ({CAR: None}, "lacks 1 of the objects in list.txt, such as car_004_mesh.mat"),
    "a car is a symbolic link": ({CAR: link(CAR, tarfile.SYMTYPE, "car_001_mesh.mat")}, "lacks 1"),
    "a car is a hard link": ({CAR: link(CAR, tarfile.LNKTYPE, "data/cars/car_001_mesh.mat")}, "lacks 1"),
    "a car is a folder": ({CAR: link(CAR, tarfile.DIRTYPE, "")}, "lacks 1"),
    "a car is elsewhere": ({CAR: None, "data/cars/../" + CAR: b"x", "/" + CAR: b"x", "../" + CAR: b"x"}, "lacks 1"),
    "a car twice": ({"./" + CAR: b""}, "car_004_mesh.mat is in it twice"),
    "no key": ({CAR: mat(mask=np.zeros((2, 2), np.uint8))}, "car_004_mesh.mat has no array 'im'"),
    "no file of MATLAB": ({CAR: b"not MATLAB's" * 50}, "car_004_mesh.mat cannot be read as a MATLAB file"),
    "nothing": ({CAR: b""}, "car_004_mesh.mat cannot be read as a MATLAB file"),
    "another shape": ({CAR: mat(im=np.zeros((64, 64, 3, 4, 2), np.uint8))}, r"uint8 \[64, 64, 3, 4, 2\] instead of"),
    "another type": ({CAR: mat(im=np.zeros((128, 128, 3, 4, 2)))}, "is float64"),
    "objects": ({CAR: mat(im=np.array([[1], "two"], object))}, "is object"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_archives_are_refused(folder, writer, monkeypatch, what):
    changed, message = WRONG[what]
    content = {**writer.members(), **changed}
    path = writer.write(folder, monkeypatch, {name: value for name, value in content.items() if value is not None})
    with pytest.raises(UntwineError, match=message) as caught:
        cars3d()
    assert str(path) in str(caught.value) and "delete it" in str(caught.value)
    # Nothing of the archive was unpacked, and nothing half-made is left.
    assert {file.suffix for file in folder.parent.rglob("*") if file.is_file()} <= {".gz", ".lock", ".json"}


@pytest.mark.parametrize("cut", [0, 10, 3000, -200, -20])
def test_archives_that_were_cut_off_are_refused(public, writer, monkeypatch, cut):
    folder = public("cars3d")
    path = folder / module.FILES[0].path
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    writer.expect(path, monkeypatch)
    if cut == -20:  # what is missing is only the end of the padding
        assert len(cars3d(size=8)) == writer.LENGTH
        return
    with pytest.raises(UntwineError, match="delete it"):
        cars3d(size=8)


def test_damaged_meshes_are_pictures_or_refused(writer, tmp_path, monkeypatch):
    """A changed byte gives this error, whichever byte it is."""
    monkeypatch.setattr(module, "SPACE", replace(module.SPACE, sizes=(2, 4, 6)))
    good, refused = writer.mesh(5), 0
    for place in (0, 60, *range(120, 260, 4)):
        bad = good[:place] + bytes([good[place] ^ 0x5A]) + good[place + 1 :]
        try:
            found = module._pictures(tmp_path, "car.mat", bad, 128)
        except UntwineError:
            refused += 1
        else:
            assert found.shape == (2, 4, 3, 128, 128)
    assert refused > 20


def test_wrong_arguments_are_refused(public):
    public("cars3d")
    with pytest.raises(UntwineError, match="size of dataset 'cars3d' must be a whole number, 1 or more"):
        cars3d(size=0)
    with pytest.raises(UntwineError, match="size of dataset 'cars3d' must be a whole number"):
        cars3d(size="64")  # type: ignore[arg-type]
