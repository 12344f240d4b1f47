"""MPI3D and MPI3D-Multi from tiny files of the public format, packed or not, and from wrong ones."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from untwine.data.families import mpi3d as module
from untwine.data.families.mpi3d import mpi3d, mpi3d_multi
from untwine.data.specs import build
from untwine.errors import UntwineError


@pytest.fixture(scope="module")
def writer(public_writer):
    return public_writer("mpi3d")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder."""
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    return tmp_path


def test_the_published_space_and_files():
    assert module.SPACE.names == ("colour", "shape", "size", "camera", "background", "horizontal", "vertical")
    assert module.SPACE.sizes == (6, 6, 2, 3, 3, 40, 40) and module.PUBLIC.examples == 1_036_800
    kinds = dict(zip(module.SPACE.names, module.SPACE.kinds, strict=True))
    assert {name for name in kinds if kinds[name] == "categorical"} == {"colour", "shape", "background"}
    assert {name for name in kinds if kinds[name] == "ordered"} == {"size", "camera", "horizontal", "vertical"}
    for variant in ("toy", "realistic", "real"):
        (file,) = module.PUBLIC.files(variant=variant)
        assert file.name == f"mpi3d_{variant}.npz" and all(url.endswith(f"/{file.name}") for url in file.urls)
        assert module.MULTI.files(variant=variant, examples=1, seed=0) == (file,)
    assert module.MULTI.factors.sizes == (40,) * 8 and set(module.MULTI.factors.kinds) == {"ordered"}
    with pytest.raises(UntwineError, match="unknown variant of mpi3d 'realistc'; did you mean 'realistic'"):
        module.PUBLIC.files(variant="realistc")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("variant", ["toy", "realistic", "real"])
def test_every_picture_is_in_its_place(folder, writer, monkeypatch, packed, variant):
    writer.write(folder, monkeypatch, packed, variants=(variant,))
    data = mpi3d(variant)
    published = writer.images(writer.SIZES, variant)
    assert len(data) == len(published) == data.factors.states and data.shape == (3, 64, 64)
    assert np.array_equal(data.examples(), published.transpose(0, 3, 1, 2))
    grid = published.reshape(*writer.SIZES, 64, 64, 3)
    for state in data.factors.sample(20, seed=0):
        assert np.array_equal(data.observe([state])[0], grid[tuple(state)].transpose(2, 0, 1))
    assert data.batch([5]).flags.c_contiguous
    # Only what was packed is unpacked to a copy, and that is enough from then on.
    assert [path.name for path in folder.rglob("*.npy")] == ([f"{variant}-1.npy"] if packed else [])
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    (folder / module.FILES[variant].path).unlink()
    if packed:
        assert np.array_equal(build(data.spec).examples(), data.examples())
    else:
        with pytest.raises(UntwineError, match=f"mpi3d_{variant}"):
            mpi3d(variant)


def test_pictures_are_mapped_and_not_loaded(folder, writer, monkeypatch):
    for packed in (False, True):
        writer.write(folder, monkeypatch, packed)
        table = module._table(module.FILES["real"], "real")
        assert isinstance(table, np.memmap) and not table.flags.writeable


def test_an_array_that_is_not_the_first_is_found_in_place(folder, writer, monkeypatch):
    """Other members come first, and the member's local header is longer than the directory says."""
    path = folder / module.FILES["toy"].path
    writer.write(folder, monkeypatch, False)
    shutil.copy(path, folder / "old.npz")
    with zipfile.ZipFile(folder / "old.npz") as old, zipfile.ZipFile(path, "w") as new:
        new.writestr("labels.npy", b"something else")
        with new.open(zipfile.ZipInfo("images.npy"), "w", force_zip64=True) as file:
            file.write(old.read("images.npy"))
    monkeypatch.setattr(module, "FILES", {"toy": writer.described(module.FILES["toy"], path)})
    assert np.array_equal(mpi3d("toy").examples(), writer.images(writer.SIZES, "toy").transpose(0, 3, 1, 2))


def test_unpacking_in_parts_changes_nothing(public, writer, monkeypatch):
    public("mpi3d")
    monkeypatch.setattr(module, "_CHUNK", 1001)
    assert np.array_equal(mpi3d().examples(), writer.images(writer.SIZES).transpose(0, 3, 1, 2))


# --- files that are not as they should be ---------------------------------------------------------------

STATES = 192
WRONG = {
    "no key": ({"images": None, "pictures": np.zeros(3)}, "no array 'images'; in it is pictures.npy"),
    "nothing": ({"images": None}, "no array 'images'; in it is nothing"),
    "another type": ({"images": np.zeros((STATES, 64, 64, 3), np.int8)}, "int8"),
    "floats": ({"images": np.zeros((STATES, 8, 8, 3))}, "float64"),
    "too few": ({"images": np.zeros((STATES - 1, 64, 64, 3), np.uint8)}, r"\[191, 64, 64, 3\] instead of uint8 \[192"),
    "channels first": ({"images": np.zeros((STATES, 3, 64, 64), np.uint8)}, r"\[192, 3, 64, 64\] instead"),
    "Fortran's order": ({"images": np.zeros((3, 64, 64, STATES), np.uint8).T.copy("F")}, "in Fortran's order"),
    "objects": ({"images": np.array([None, 1])}, "object"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("packed", [False, True])
def test_wrong_arrays_are_refused(folder, writer, monkeypatch, packed, what):
    arrays, message = WRONG[what]
    writer.write(folder, monkeypatch, packed, variants=("real",), **arrays)
    with pytest.raises(UntwineError, match=message) as caught:
        mpi3d()
    assert "mpi3d_real.npz" in str(caught.value) and "delete it" in str(caught.value)
    assert not list(folder.rglob("*.npy"))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("damage", ["cut", "empty", "no zip", "header", "member", "content"])
def test_broken_archives_are_refused(folder, writer, monkeypatch, packed, damage):
    writer.write(folder, monkeypatch, packed, variants=("real",))
    path = folder / module.FILES["real"].path
    content = bytearray(path.read_bytes())
    if damage == "member":  # it says that it is an array, and is not
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
            archive.writestr("images.npy", b"no array")
        content = bytearray(path.read_bytes())
    content = {"cut": content[:-30], "empty": b"", "no zip": b"<html>not found</html>"}.get(damage, content)
    if damage == "header":
        content[0:2] = b"XX"
    if damage == "content":
        content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    monkeypatch.setattr(module, "FILES", {"real": writer.described(module.FILES["real"], path)})
    if damage == "content" and not packed:  # nobody but the checksum of the file could notice that
        assert (mpi3d().examples() != writer.images(writer.SIZES).transpose(0, 3, 1, 2)).sum() == 1
        return
    with pytest.raises(UntwineError, match=r"mpi3d_real\.npz does not hold what it should"):
        mpi3d()
    assert not list(folder.rglob("*.npy"))


def test_an_array_that_is_shorter_than_it_says_is_refused(folder, writer, monkeypatch):
    writer.write(folder, monkeypatch, False)
    path = folder / module.FILES["real"].path
    with zipfile.ZipFile(path) as archive:
        whole = archive.read("images.npy")
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("images.npy", whole[:-1])
        monkeypatch.setattr(module, "FILES", {"real": writer.described(module.FILES["real"], path)})
        with pytest.raises(UntwineError, match="which do not fit"):
            mpi3d()


def test_an_unknown_variant_is_refused():
    for function in (mpi3d, mpi3d_multi):
        with pytest.raises(UntwineError, match="unknown variant of mpi3d 'toys'; did you mean 'toy'"):
            function("toys")


# --- four at once ---------------------------------------------------------------------------------------


def test_multi_is_four_of_them_with_every_other_pixel(folder, writer, monkeypatch):
    """Blue (3), cube (1), large (1), top camera (0), salmon (2), as Rhodes & Lee have it."""
    sizes = (4, 2, 2, 1, 3, 3, 2)
    writer.write(folder, monkeypatch, False, sizes, ("real",))
    grid = writer.images(sizes).reshape(*sizes, 64, 64, 3)[3, 1, 1, 0, 2]
    data = mpi3d_multi(examples=30, seed=5)
    assert data.factors.names == tuple(f"{axis}{tile}" for tile in range(1, 5) for axis in ("horizontal", "vertical"))
    assert data.factors.sizes == (3, 2) * 4 and data.shape == (3, 64, 64) and len(data) == 30
    assert data.spec == {"name": "mpi3d_multi", "variant": "real", "examples": 30, "seed": 5}
    for state, picture in zip(data.factors_of(np.arange(30)), data.batch(np.arange(30)), strict=True):
        tiles = [grid[state[2 * tile], state[2 * tile + 1]][::2, ::2] for tile in range(4)]
        expected = np.vstack([np.hstack(tiles[:2]), np.hstack(tiles[2:])])
        assert np.array_equal(picture, expected.transpose(2, 0, 1))
    assert np.array_equal(build(data.spec).examples(), data.examples())


def test_multi_reads_the_pictures_that_it_needs_once(folder, writer, monkeypatch):
    writer.write(folder, monkeypatch, False, (4, 2, 2, 1, 3, 3, 2), ("real",))
    data = mpi3d_multi(examples=30)
    before = data.examples()
    data._inner._inner._rows = None  # whoever reads again fails
    assert np.array_equal(data.observe(data.factors_of(np.arange(30))), before)
    assert data._table.shape == (6, 3, 32, 32)


def test_multi_needs_the_values_that_it_holds(public, monkeypatch):
    public("mpi3d")
    assert module.HELD == {"colour": 3, "shape": 1, "size": 1, "camera": 0, "background": 2}
    monkeypatch.setattr(module, "SPACE", replace(module.SPACE, sizes=(2, 2, 2, 2, 2, 2, 3)))
    with pytest.raises(UntwineError, match="factor 'colour' is 3"):
        mpi3d_multi()
