"""Every public file has the checksum that was published for it, whatever its loader's tests put in its place."""

from __future__ import annotations

import re

import pytest

import untwine.datasets
from untwine.data.specs import public_of

NORB = "smallnorb/smallnorb-5x{}x9x18x6x2x96x96-{}-{}.mat.gz"
PUBLISHED = {
    "cars3d/nips2015-analogy-data.tar.gz": "md5:4e866a7919c1beedf53964e6f7a23686",
    "dsprites/dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz": "md5:7da33b31b13a06f4b04a70402ce90c2e",
    "fashion_mnist/train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "fashion_mnist/train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
    "fashion_mnist/t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
    "fashion_mnist/t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
    "mnist/train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "mnist/train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "mnist/t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
    "mnist/t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
    "mpi3d/mpi3d_toy.npz": "md5:55889cb7c7dfc655d6e0277beee88868",
    "mpi3d/mpi3d_realistic.npz": "md5:59a6225b88b635365f70c91b3e52f70f",
    "mpi3d/mpi3d_real.npz": "md5:0f33f609918fb5c97996692f91129802",
    "natural_patches/IMAGES.mat": None,
    "shapes3d/3dshapes.h5": "sha256:0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
    NORB.format(46789, "training", "dat"): "md5:66054832f9accfe74a0f4c36a75bc0a2",
    NORB.format(46789, "training", "cat"): "md5:23c8b86101fbf0904a000b43d3ed2fd9",
    NORB.format(46789, "training", "info"): "md5:51dee1210a742582ff607dfd94e332e3",
    NORB.format("01235", "testing", "dat"): "md5:e4ad715691ed5a3a5f138751a4ceb071",
    NORB.format("01235", "testing", "cat"): "md5:5aa791cd7e6016cf957ce9bdb93b8603",
    NORB.format("01235", "testing", "info"): "md5:a9454f3864d7fd4bb3ea7fc3eb84924e",
}


def files() -> dict:
    publics = [public_of(untwine.datasets.get(name)) for name in untwine.datasets.names()]
    return {file.path: file for public in publics if public is not None for file in public.every_file()}


def test_checksums(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("untwine.data.families.mnist.DEBIAN", dict.fromkeys(("mnist", "fashion_mnist"), str(tmp_path)))
    assert {path: file.checksum for path, file in files().items()} == PUBLISHED


def test_addresses():
    for path, file in files().items():
        assert file.urls and all(re.fullmatch(r"https?://[^/]+/.+", url) for url in file.urls), path
        assert all(url.endswith(file.name) for url in file.urls), path


@pytest.mark.parametrize("name", untwine.datasets.names())
def test_licences_and_sizes(name: str):
    public = public_of(untwine.datasets.get(name))
    if public is not None:
        assert public.licence and public.examples > 1000 and len(public.shape) == 3
        complete = public.factors is None or public.factors.states == public.examples
        assert complete or name in ("mnist", "fashion_mnist", "mpi3d_multi")
