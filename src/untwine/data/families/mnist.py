"""MNIST and Fashion-MNIST, from the files in which they were published."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from untwine.arguments import Count
from untwine.data.factors import FactorSpace
from untwine.data.files import store
from untwine.data.files.formats import idx
from untwine.data.files.places import find
from untwine.data.files.public import File, Public, broken
from untwine.data.files.tables import resized
from untwine.data.specs import dataset
from untwine.data.states import Labelled
from untwine.errors import unknown

SIDE = 28
SPLITS = ("train", "test")
SPACES = {
    "mnist": FactorSpace(("digit",), (10,), ("categorical",)),
    "fashion_mnist": FactorSpace(("class",), (10,), ("categorical",)),
}
# The folders of Debian's packages.
DEBIAN = {"mnist": "/usr/share/datasets/mnist", "fashion_mnist": "/usr/share/datasets/fashion-mnist"}
HINTS = {"mnist": "", "fashion_mnist": "Debian and Ubuntu have it as the package dataset-fashion-mnist."}


def _files(folder: str, mirrors: tuple[str, ...], facts: tuple[tuple[str, int], ...]) -> dict[str, tuple[File, File]]:
    """Images and labels of each split, from the md5 and the size of their four files."""
    names = [f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
    files = [
        File(f"{folder}/{name}", tuple(mirror + name for mirror in mirrors), f"md5:{md5}", size)
        for name, (md5, size) in zip(names, facts, strict=True)
    ]
    return {"train": (files[0], files[1]), "test": (files[2], files[3])}


FILES = {
    "mnist": _files(
        "mnist",
        ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"),
        (
            ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
            ("d53e105ee54ea40749a09fcbcd1e9432", 28_881),
            ("9fb629c4189551a2d022fa330f9573f3", 1_648_877),
            ("ec29112dd5afa0611ce80d1b7f02629c", 4_542),
        ),
    ),
    "fashion_mnist": _files(
        "fashion_mnist",
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        (
            ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
            ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
            ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
            ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
        ),
    ),
}
# The sha256 of each file after decompression, which does not depend on who compressed it.
CONTENT = {
    "mnist/train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "mnist/train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "mnist/t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "mnist/t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    "fashion_mnist/train-images-idx3-ubyte.gz": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "fashion_mnist/train-labels-idx1-ubyte.gz": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "fashion_mnist/t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "fashion_mnist/t10k-labels-idx1-ubyte.gz": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def _needed(name: str, split: str = "train", **arguments: Any) -> tuple[File, ...]:
    """The files with images and labels of a split, or of both."""
    if split not in (*SPLITS, "both"):
        raise unknown(f"split of {name}:", split, (*SPLITS, "both"))
    splits = SPLITS if split == "both" else (split,)
    return tuple(_as_installed(name, file) for split in splits for file in FILES[name][split])


def _as_installed(name: str, file: File) -> File:
    """The file, or Debian's copy of it if there is no other.

    Debian compresses it anew, so that copy has no published checksum; its content is compared with `CONTENT` instead.
    """
    if find(file) is None and (Path(DEBIAN[name]) / file.name).is_file():
        validate = functools.partial(_check_content, file.path)
        return dataclasses.replace(file, checksum=None, size=None, elsewhere=(DEBIAN[name],), validate=validate)
    return file


def _public(name: str, licence: str) -> Public:
    needed, choices = functools.partial(_needed, name), {"split": (*SPLITS, "both")}
    return Public(needed, licence, 60_000, (1, SIDE, SIDE), SPACES[name], choices, HINTS[name])


@dataset(public=_public("mnist", "CC BY-SA 3.0"), selecting=["split"])
def mnist(split: str = "train", size: Count = SIDE) -> Labelled:
    """Handwritten digits, white on black (LeCun, Cortes and Burges).

    The only factor is the digit, and many images share it: `observe` shows the first example of a digit.

    Args:
        split: "train" (60,000 images), "test" (10,000), or "both", one after the other.
        size: Width and height in pixels; other than 28, images are resized bilinearly.
    """
    return _read("mnist", split, size)


@dataset(public=_public("fashion_mnist", "MIT"), selecting=["split"])
def fashion_mnist(split: str = "train", size: Count = SIDE) -> Labelled:
    """Photographs of clothes, grey on black (Xiao, Rasul and Vollgraf 2017).

    The only factor is the class: T-shirt or top, trousers, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle
    boot. `observe` shows the first example of a class. Mathieu et al. 2019 use a size of 32.

    Args:
        split: "train" (60,000 images), "test" (10,000), or "both", one after the other.
        size: Width and height in pixels; other than 28, images are resized bilinearly.
    """
    return _read("fashion_mnist", split, size)


def _read(name: str, split: str, size: int) -> Labelled:
    files = _needed(name, split)
    paths = [store.fetch(file, HINTS[name]) for file in files]
    parts = [_split(*pair, SPACES[name].sizes[0]) for pair in zip(paths[0::2], paths[1::2], strict=True)]
    images = np.concatenate([images for images, _ in parts])[:, None]
    labels = np.concatenate([labels for _, labels in parts]).astype(np.int64)[:, None]
    return Labelled(resized(images, size), labels, space=SPACES[name])


def _split(
    images_path: Path, labels_path: Path, classes: int
) -> tuple[UInt8[np.ndarray, "n h w"], UInt8[np.ndarray, " n"]]:
    """The images and labels of a split, after a check that they belong together."""
    images, labels = idx.read(images_path), idx.read(labels_path)
    if images.ndim != 3 or images.shape[1:] != (SIDE, SIDE) or not len(images):
        raise broken(images_path, f"it holds {list(images.shape)} where images [n, {SIDE}, {SIDE}] should be")
    if labels.shape != images.shape[:1]:
        raise broken(
            labels_path, f"it holds labels {list(labels.shape)}, but {images_path.name} holds {len(images)} images"
        )
    if labels.max() >= classes:
        raise broken(labels_path, f"it has an image of class {labels.max()}, and they are 0 to {classes - 1}")
    return images, labels


def _check_content(name: str, path: Path) -> None:
    """Refuse a file whose decompressed content is not the published one."""
    digest = hashlib.sha256(idx.decompress(path)).hexdigest()
    if digest != CONTENT[name]:
        raise broken(path, f"unpacked, it has the sha256 {digest}, not {CONTENT[name]}")
