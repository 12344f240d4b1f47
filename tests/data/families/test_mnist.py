"""MNIST and Fashion-MNIST: what their files hold, where they are found, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from untwine.data.families import mnist as idx
from untwine.data.families.mnist import fashion_mnist, mnist
from untwine.data.files import places
from untwine.data.files.verify import check_file
from untwine.data.specs import build, public_of
from untwine.errors import UntwineError

BOTH = [("mnist", mnist), ("fashion_mnist", fashion_mnist)]


def header(*shape: int, kind: int = 8) -> bytes:
    return struct.pack(f">4B{len(shape)}I", 0, 0, kind, len(shape), *shape)


def content(folder: Path, name: str, split: str) -> tuple[bytes, bytes]:
    """The bytes of images and labels without their headers."""
    part = {"train": "train", "test": "t10k"}[split]
    images = gzip.decompress((folder / name / f"{part}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / name / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    return images[16:], labels[8:]


def put(folder: Path, patch: pytest.MonkeyPatch, which: int, packed: bytes) -> Path:
    """Publish another file as MNIST's training images (0) or labels (1)."""
    files = list(idx.FILES["mnist"]["train"])
    checksum = f"md5:{hashlib.md5(packed).hexdigest()}"
    files[which] = replace(files[which], checksum=checksum, size=len(packed))
    patch.setitem(idx.FILES["mnist"], "train", tuple(files))
    (folder / files[which].path).write_bytes(packed)
    return folder / files[which].path


# --- what the files hold ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "made"), BOTH)
@pytest.mark.parametrize("split", ["train", "test"])
def test_images_and_labels_are_those_of_the_files(public, name, made, split):
    folder = public(name)
    images, labels = content(folder, name, split)
    data = made(split=split)
    assert data.shape == (1, 28, 28) and len(data) == len(labels) == {"train": 40, "test": 20}[split]
    assert data.examples().tobytes() == images
    assert data.factors_of(np.arange(len(data)))[:, 0].tolist() == list(labels)
    assert data.spec == {"name": name, "split": split, "size": 28}
    assert np.array_equal(build(data.spec).examples(), data.examples())


@pytest.mark.parametrize(("name", "made"), BOTH)
def test_both_are_train_then_test(public, name, made):
    public(name)
    train, test, both = made(), made(split="test"), made(split="both")
    assert np.array_equal(both.examples(), np.concatenate([train.examples(), test.examples()]))
    numbers = np.arange(20)
    assert np.array_equal(both.factors_of(40 + numbers), test.factors_of(numbers))


@pytest.mark.parametrize(("name", "made", "factor"), [(*BOTH[0], "digit"), (*BOTH[1], "class")])
def test_the_class_is_the_only_factor_and_not_all_there_is(public, name, made, factor):
    public(name)
    data = made()
    assert (data.factors.names, data.factors.sizes, data.factors.kinds) == ((factor,), (10,), ("categorical",))
    assert not data.complete
    labels = data.factors_of(np.arange(40))[:, 0].tolist()
    for label in range(10):
        assert np.array_equal(data.observe([[label]]), data.batch([labels.index(label)]))


def test_examples_may_be_given_to_torch(public):
    public("mnist")
    assert mnist().examples().flags.writeable and mnist().examples().flags.c_contiguous


def test_other_sizes_are_resized_bilinearly(public):
    public("fashion_mnist")
    small, large = fashion_mnist(), fashion_mnist(size=32)
    assert large.shape == (1, 32, 32) and large.spec["size"] == 32
    for number in (0, 7, 39):
        picture = Image.fromarray(small.batch([number])[0, 0]).resize((32, 32), Image.Resampling.BILINEAR)
        assert np.array_equal(large.batch([number])[0, 0], np.asarray(picture))
    assert np.array_equal(large.factors_of([3]), small.factors_of([3]))


# --- what is refused --------------------------------------------------------------------------------

IMAGES, LABELS = header(3, 28, 28) + bytes(3 * 784), header(3) + bytes([1, 2, 3])


@pytest.mark.parametrize(
    ("which", "bad", "message"),
    [
        (0, b"\1" + IMAGES[1:], "is no idx file and begins with 01 00 08 03"),
        (0, b"", "begins with nothing"),
        (0, header(3, 28, 28, kind=13) + bytes(4 * 3 * 784), "type 0x0d, and must hold unsigned bytes"),
        (0, IMAGES[:-1], r"has 2,351 bytes of data, and \[3, 28, 28\] takes 2,352"),
        (0, IMAGES + b"\0", "has 2,353 bytes of data"),
        (0, IMAGES[:10], "ends before the lengths of its 3 dimensions"),
        (0, b"\0\0\x08\0", "it has 0 dimensions, where images have 3 and labels 1"),
        (0, header(*[1] * 200) + b"\0", "it has 200 dimensions"),
        (0, header(2**32 - 1, 2**32 - 1, 2**32 - 1), "has 0 bytes of data"),
        (0, header(3, 14, 56) + bytes(3 * 784), r"holds \[3, 14, 56\] where images \[n, 28, 28\] should be"),
        (0, header(3, 784) + bytes(3 * 784), r"holds \[3, 784\] where"),
        (0, header(0, 28, 28), r"holds \[0, 28, 28\] where"),
        (1, header(2) + bytes(2), r"holds labels \[2\], but train-images-idx3-ubyte.gz holds 3 images"),
        (1, header(3, 1) + bytes(3), r"holds labels \[3, 1\]"),
        (1, header(3) + bytes([1, 10, 3]), "class 10, and they are 0 to 9"),
    ],
)
def test_files_that_do_not_hold_what_they_should_are_refused(public, monkeypatch, which, bad, message):
    folder = public("mnist")
    good = [gzip.compress(IMAGES), gzip.compress(LABELS)]
    put(folder, monkeypatch, 0, good[0])
    put(folder, monkeypatch, 1, good[1])
    assert len(mnist()) == 3
    path = put(folder, monkeypatch, which, gzip.compress(bad))
    with pytest.raises(UntwineError, match=message) as caught:
        mnist()
    assert str(path) in str(caught.value) and "delete it" in str(caught.value)


@pytest.mark.parametrize("cut", [lambda packed: packed[:-20], lambda packed: packed[:5], lambda packed: b"no gzip"])
def test_broken_archives_are_refused(public, monkeypatch, cut: Callable[[bytes], bytes]):
    folder = public("mnist")
    put(folder, monkeypatch, 0, cut(gzip.compress(IMAGES)))
    with pytest.raises(UntwineError, match="cannot be unpacked"):
        mnist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "tset"}, "unknown split of mnist: 'tset'; did you mean 'test'"),
        ({"size": 0}, "size of dataset 'mnist' must be a whole number, 1 or more"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(public, arguments, message):
    public("mnist")
    with pytest.raises(UntwineError, match=message):
        mnist(**arguments)


# --- where they are ---------------------------------------------------------------------------------


@pytest.fixture
def debian(public, tmp_path, monkeypatch) -> Path:
    """A folder as Debian's package has it: the same content, compressed anew; the data folder is empty."""
    folder, packages = public("fashion_mnist"), tmp_path / "share"
    packages.mkdir()
    for file in sorted((folder / "fashion_mnist").iterdir()):
        unpacked = gzip.decompress(file.read_bytes())
        monkeypatch.setitem(idx.CONTENT, f"fashion_mnist/{file.name}", hashlib.sha256(unpacked).hexdigest())
        (packages / file.name).write_bytes(gzip.compress(unpacked, 1, mtime=7))
        assert (packages / file.name).read_bytes() != file.read_bytes()
        file.unlink()
    monkeypatch.setitem(idx.DEBIAN, "fashion_mnist", str(packages))
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    return packages


def test_what_debian_has_is_used(debian):
    public = public_of(fashion_mnist)
    assert public is not None
    assert [places.find(file) for file in public.files(split="train", size=28)] == [
        debian / "train-images-idx3-ubyte.gz",
        debian / "train-labels-idx1-ubyte.gz",
    ]
    images, labels = (gzip.decompress(file.read_bytes()) for file in sorted(debian.glob("t10k*")))
    data = fashion_mnist(split="test")
    assert data.examples().tobytes() == images[16:]
    assert data.factors_of(np.arange(20))[:, 0].tolist() == list(labels[8:])


def test_what_debian_has_is_verified_by_its_content(debian):
    file = debian / "train-labels-idx1-ubyte.gz"
    unpacked = bytearray(gzip.decompress(file.read_bytes()))
    unpacked[-1] ^= 1  # still a label, but not the published one
    file.write_bytes(gzip.compress(bytes(unpacked)))
    assert check_file(public_of(fashion_mnist).files()[1]).state == "wrong"
    with pytest.raises(UntwineError, match=r"labels-idx1-ubyte.gz does not hold what it should: unpacked, .* sha256"):
        fashion_mnist()
    assert len(fashion_mnist(split="test")) == 20


def test_the_data_folder_comes_first(debian, public):
    for file in debian.iterdir():
        file.write_bytes(b"broken")
    with pytest.raises(UntwineError, match="cannot be unpacked"):
        fashion_mnist()
    public("fashion_mnist")
    assert len(fashion_mnist()) == 40


@pytest.mark.parametrize(("name", "made"), BOTH)
def test_files_that_are_nowhere_are_named(tmp_path, monkeypatch, name, made):
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    monkeypatch.setitem(idx.DEBIAN, name, str(tmp_path / "nowhere"))
    with pytest.raises(UntwineError, match="train-images-idx3"):
        made()


@pytest.mark.parametrize(("name", "made"), BOTH)
def test_what_is_known_of_the_files(name, made):
    public = public_of(made)
    assert public is not None and public.examples == 60_000
    files = public.files(split="both", size=28)
    assert len(files) == 4 and {file.path for file in files} == {path for path in idx.CONTENT if path.startswith(name)}
    assert public.files(split="train") + public.files(split="test") == files
    assert len({file.checksum for file in files}) == 4
    for file in files:
        assert len(file.urls) >= 2 and all(url.endswith(f"/{file.name}") for url in file.urls)


# --- the real ones ----------------------------------------------------------------------------------

PUBLISHED = {  # pixel mean and standard deviation of the training images, as commonly used to normalise them
    "mnist": (0.1307, 0.3081, [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949], 5),
    "fashion_mnist": (0.2860, 0.3530, [6000] * 10, 9),
}


@pytest.mark.parametrize(("name", "made"), BOTH)
def test_the_published_files(data_dir, name, made):
    if any(places.find(file) is None for file in public_of(made).files(split="both")):
        pytest.skip(f"{name} is not in {data_dir}")
    mean, std, counts, first = PUBLISHED[name]
    train, test = made(), made(split="test")
    assert (len(train), len(test)) == (60_000, 10_000)
    assert np.bincount(train.factors_of(np.arange(60_000))[:, 0]).tolist() == counts
    assert train.factors_of([0]).tolist() == [[first]]
    pixels = np.bincount(train.examples().ravel(), minlength=256) / train.examples().size
    values = np.arange(256) / 255
    assert abs(pixels @ values - mean) < 5e-5
    assert abs(np.sqrt(pixels @ values**2 - (pixels @ values) ** 2) - std) < 5e-5
    assert np.bincount(test.factors_of(np.arange(10_000))[:, 0]).sum() == 10_000
    for file in public_of(made).files(split="both"):
        unpacked = gzip.decompress(places.find(file).read_bytes())
        assert hashlib.sha256(unpacked).hexdigest() == idx.CONTENT[file.path]


def test_debians_package(tmp_path, monkeypatch):
    if not Path(idx.DEBIAN["fashion_mnist"]).is_dir():
        pytest.skip("the package dataset-fashion-mnist is not installed")
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path))
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    assert len(fashion_mnist(split="both")) == 70_000
