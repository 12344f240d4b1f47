"""Your own data: a folder of pictures, a .npy or .npz file, or an array."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Shaped, UInt8

from untwine.data.contract import Dataset, Unlabelled
from untwine.data.files.collection import Collection, columns_of, gather, to_array
from untwine.data.files.factor_table import FactorTable, shortened
from untwine.data.files.folders import SUFFIXES, eight_bits, files_in, open_each, refuse_empty, square
from untwine.data.files.formats import arrays
from untwine.data.files.formats.frames import Columns
from untwine.data.files.formats.sheets import factor_table
from untwine.data.files.pixels import SHAPES, channels_first, refuse_values, to_pixels
from untwine.data.specs import absolute, dataset, is_hash
from untwine.data.states import InMemory, Labelled
from untwine.errors import UntwineError
from untwine.room import refuse_larger

if TYPE_CHECKING:
    from PIL.Image import Image


def _settle(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with absolute paths, with an array in place of a collection, and with a table of factors."""
    refuse_empty("images", source=arguments["source"], factors=arguments["factors"])
    settled = _in_memory({**arguments, "source": to_array(arguments["source"])})
    settled |= {key: absolute(settled[key]) for key in ("source", "factors")}
    factors = settled["factors"]
    # Files are read later; a hash, as `full_spec` has it, is not read at all.
    if factors is None or isinstance(factors, str) or is_hash(factors):
        return settled
    # The bytes of an array identify it, unless they are the addresses of objects.
    if not isinstance(factors, np.ndarray) or factors.dtype == object:
        settled["factors"] = factor_table(factors, arguments["kinds"])
    return settled


def _in_memory(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with an array in place of a list or a torch Dataset, and with the table of its labels if asked."""
    source, labels = arguments["source"], arguments["labels"]
    collected = not (isinstance(source, str | os.PathLike | np.ndarray) or is_hash(source))
    if labels and arguments["factors"] is not None:
        raise UntwineError("images: factors and labels=True are two tables of factors; give one")
    if labels and not collected:
        raise UntwineError("images: labels are those of a torch Dataset, or of a list of (picture, label)")
    if not collected:
        return arguments
    table, beside = gather(source, arguments["size"])
    settled = {**arguments, "source": table, "labels": False}
    if labels:
        settled["factors"] = columns_of(beside)
        if "label" in settled["factors"] and not arguments["kinds"]:
            settled["kinds"] = ("label=categorical",)  # numbers of classes have no order
    return settled


@dataset(settle=_settle, added=("labels",))
def images(
    source: str | os.PathLike[str] | np.ndarray | Collection | Any,
    size: int | None = None,
    channels: int | None = None,
    factors: str | os.PathLike[str] | FactorTable | Columns | None = None,
    kinds: tuple[str, ...] = (),
    labels: bool = False,
) -> Dataset:
    """Pictures from a folder (with its subfolders, in sorted order), a .npy or .npz file, an array, or a torch Dataset.

    Pictures are cropped to their central square and resized: averaged when they shrink, bicubic when they grow.
    Transparent parts become white, and an animation is represented by its first frame. Files and folders whose names
    begin with a dot are ignored.

    Arrays hold 0..255, or [0, 1] if they are floats or booleans; integers that are all 0 or 1 are black and white. In
    four dimensions the channels are the last axis if it has 1 or 3 entries, else the second. A float array [n, d] holds
    plain vectors. Of an .npz file the array "images" or "imgs" is used, else the first.

    In Python the source may also be a tensor, a list (of arrays, tensors, pictures of Pillow, or paths), or a torch
    Dataset with a length. Their items are read once and one by one; nothing is kept but the table of bytes. They keep
    their size, which must be the same, unless `size` is given; paths become 64 x 64 as in a folder. What stands beside
    a picture in an item, such as its class, is ignored, or is its factors with `labels=True`.

    With a table of factors, models can be scored on the data and its perceived distances explained. The table has a row
    for each picture and a column for each factor. It is a .csv or .tsv file whose first line names the columns, a .npy
    file [n, k], or an .npz file with an array "factors" [n, k] or with columns [n] by name; in Python also an array, a
    list of rows, a dict of columns, or a data frame. A column called file, filename, image or path names the picture of
    each row by its path in the folder. Without one, the rows are in the order of the pictures, which must be the same
    by letters and by numbers. All other columns are factors: numbers are ordered, texts categorical, and categories of
    pandas keep their order. A column of decimals with more than 64 different values is cut into 20 bins of equal width.
    The values keep their names (`data.factors.values`): figures and messages use them.

    Args:
        source: The folder or the file; in Python also an array, a tensor, a list or a torch Dataset.
        size: Width and height in pixels. By default pictures from a folder become 64 x 64, and arrays keep their size.
        channels: 1 (grey) or 3 (colour); by default 1 if every picture is grey, and 3 otherwise.
        factors: The table of factors: a .csv, .tsv, .npy or .npz file; in Python also an array, rows, columns or a data
            frame.
        kinds: Kinds of factors, such as angle=cyclic or digit=categorical; by default numbers are ordered and texts
            categorical.
        labels: Whether the labels in the items of a torch Dataset, or of a list of (picture, label), are the factors.
            A single number for each picture is taken as its class.

    >>> images(np.zeros((5, 32, 32)), channels=3).shape
    (3, 32, 32)
    >>> images(np.zeros((4, 8, 8)), factors=np.indices((2, 2)).reshape(2, -1).T, kinds=("factor1=cyclic",)).factors
    FactorSpace(names=('factor0', 'factor1'), sizes=(2, 2), kinds=('ordered', 'cyclic'))
    >>> images(np.zeros((3, 8, 8)), factors={"toy": ["duck", "car", "duck"], "angle": [0, 35, 35]}).factors.values
    (('car', 'duck'), (0, 35))
    """
    if channels not in (None, 1, 3):
        raise UntwineError(f"images: channels is {channels}; it must be 1 (grey) or 3 (colour)")
    if size is not None and size < 1:
        raise UntwineError(f"images: size is {size}; it must be at least 1")
    if factors is None and kinds:
        raise UntwineError(
            f"images: kinds ({', '.join(map(str, kinds))}) are those of factors, of which there is no table"
        )
    assert isinstance(source, str | os.PathLike | np.ndarray) and not labels  # as settled
    rows = None if factors is None else factor_table(factors, kinds)
    if rows is not None:
        rows.kinds(kinds)  # raises an error before many pictures are read
    table, rows = _table(source, size, channels, rows)
    # A spec has the hash of an array or a table, but only the path of a file.
    mutable = not isinstance(source, np.ndarray) or isinstance(factors, str | os.PathLike)
    return Table(table, None, mutable) if rows is None else Labelled(table, *rows.numbered(kinds), mutable)


class Table(InMemory, Unlabelled):
    """Examples in memory, without factors."""


def _table(
    source: str | os.PathLike[str] | np.ndarray, size: int | None, channels: int | None, rows: FactorTable | None
) -> tuple[Shaped[np.ndarray, "n ..."], FactorTable | None]:
    """The examples, and the table of their factors in the same order."""
    path = None if isinstance(source, np.ndarray) else Path(source).expanduser()
    if path is not None and path.is_dir():
        return _from_folder(path, size or 64, channels, rows)
    if path is None:
        assert isinstance(source, np.ndarray)
        table = _from_array(source, size, channels, "the array")
    elif not path.exists():
        raise UntwineError(f"images: there is no {path}; give a folder, a .npy or .npz file, or an array")
    elif path.suffix.lower() in SUFFIXES:
        raise UntwineError(f"images: {path} is a single picture; give the folder of all of them: {path.parent}")
    else:
        table = _from_array(_load(path), size, channels, str(path))
    if rows is not None and rows.files is not None:
        raise UntwineError(
            f"images: {rows.where} says which files its rows are about, but examples of an array have no files: "
            "remove that column, if the rows are in the order of the examples"
        )
    return table, rows and rows.in_order(len(table), "examples")


# --- folders ----------------------------------------------------------------------------------------


def _from_folder(
    folder: Path, size: int, channels: int | None, rows: FactorTable | None
) -> tuple[UInt8[np.ndarray, "n channels size size"], FactorTable | None]:
    files = files_in(folder, "images")
    _refuse_size(len(files), size)
    rows = rows and rows.of([file.relative_to(folder).as_posix() for file in files])
    opened = open_each(files, folder, lambda picture: eight_bits(square(picture, size)), "pictures")
    pictures, unreadable = opened.pictures, opened.left_out
    if not pictures:
        raise UntwineError(f"images: none of the {len(files)} files in {folder} is readable: {shortened(unreadable)}")
    if unreadable and rows is not None and rows.files is None:
        raise UntwineError(
            f"images: {len(unreadable)} of the {len(files)} files could not be read: "
            f"{shortened(unreadable)}. {rows.where} "
            "does not say by file names which rows are theirs: remove these files and their rows"
        )
    if unreadable:
        left_out = f"images: left out {len(unreadable)} of {len(files)} files that could not be read"
        warnings.warn(f"{left_out}: {shortened(unreadable)}", stacklevel=5)
    channels = channels or (1 if all(picture.mode == "L" for picture in pictures) else 3)
    return _stack(pictures, channels), rows and rows.take(opened.indices)


def _refuse_size(count: int, size: int) -> None:
    refuse_larger(count * size**2, f"images: {count:,} pictures of {size:,} x {size:,}", "choose a smaller size")


def _stack(pictures: Iterable[Image], channels: int) -> UInt8[np.ndarray, "n channels height width"]:
    mode = "L" if channels == 1 else "RGB"
    stacked = np.stack([np.asarray(picture.convert(mode)) for picture in pictures])
    return stacked[:, None] if channels == 1 else np.ascontiguousarray(stacked.transpose(0, 3, 1, 2))


# --- arrays -----------------------------------------------------------------------------------------


def _load(path: Path) -> np.ndarray:
    """The array in a .npy or .npz file. Pickled objects are never loaded."""
    try:
        loaded = arrays.loaded(path, lambda names: [name for name in ("images", "imgs") if name in names] or names[:1])
        if isinstance(loaded, np.ndarray):
            return loaded
        if not loaded:
            raise UntwineError(f"images: {path} holds no array")
        return next(iter(loaded.values()))
    except arrays.DAMAGE as error:
        raise UntwineError(
            f"images: cannot read {path} as a .npy or .npz file of numbers (arrays of objects are "
            f"pickled, and never loaded): {error}"
        ) from error


def _from_array(array: np.ndarray, size: int | None, channels: int | None, where: str) -> Shaped[np.ndarray, "n ..."]:
    if array.ndim not in (2, 3, 4) or not array.size:
        raise UntwineError(f"images: {where} has shape {list(array.shape)}; it must be {SHAPES}, and not empty")
    refuse_values(array, where)
    if array.ndim == 2:
        return _vectors(array, size, channels, where)
    pixels = to_pixels(channels_first(array, where), where)
    channels = int(channels or pixels.shape[1])
    if channels == pixels.shape[1] and (size is None or pixels.shape[2:] == (size, size)):
        return pixels
    if size is not None:
        _refuse_size(len(pixels), size)
    from PIL import Image

    channels_last = pixels.transpose(0, 2, 3, 1)
    arrays = channels_last[..., 0] if pixels.shape[1] == 1 else channels_last
    pictures = (Image.fromarray(np.ascontiguousarray(array)) for array in arrays)
    return _stack((square(picture, size) for picture in pictures), channels)


def _vectors(array: np.ndarray, size: int | None, channels: int | None, where: str) -> np.ndarray:
    if array.dtype.kind != "f":
        raise UntwineError(
            f"images: {where} has shape {list(array.shape)} and holds {array.dtype}; make it float32 for "
            "plain vectors, or reshape it to [n, height, width] for pictures"
        )
    if size is not None or channels is not None:
        raise UntwineError(f"images: {where} holds vectors {list(array.shape)}; they take no size or channels")
    return array.astype(np.float32)
