"""Natural patches: crops of whitened photographs, as in appendix C of Rhodes & Lee 2021."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64, UInt8
from numpy.lib.stride_tricks import sliding_window_view

from untwine.data.contract import Unlabelled
from untwine.data.files import store
from untwine.data.files.factor_table import shortened
from untwine.data.files.folders import files_in, open_each, refuse_empty, square
from untwine.data.files.places import find, places
from untwine.data.files.public import File, Public, broken
from untwine.data.specs import absolute, dataset, fingerprint
from untwine.errors import UntwineError, unknown
from untwine.streams import np_uniform

if TYPE_CHECKING:
    from PIL.Image import Image

_SITE = "www.rctn.org/bruno/sparsenet/IMAGES.mat"
# Nobody published a checksum, so the content itself is checked.
FILE = File(
    "natural_patches/IMAGES.mat", (f"http://{_SITE}", f"https://{_SITE}"), validate=lambda path: _published(path)
)
SHAPE = (512, 512, 10)
EXAMPLES = {"train": 10_000, "test": 1_000}  # crops of each picture
NAMED = ("auto", "olshausen", "scikit-learn")
LEAST = 64  # pixels along the side of a photograph
MOST = 512
_HINT = "source='scikit-learn' or a folder of photographs does without it."
CUTOFF = 0.4  # cycles per pixel


def _files(source: str | os.PathLike[str] = "auto", **arguments: Any) -> tuple[File, ...]:
    return (FILE,) if source in ("auto", "olshausen") else ()


def _settle(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the source that "auto" stands for, an absolute path, and the number of crops."""
    source, examples = arguments["source"], arguments["examples"]
    refuse_empty("natural_patches", source=source)
    if source == "auto":
        source = "scikit-learn" if find(FILE) is None else "olshausen"
        if source == "scikit-learn":
            warnings.warn(
                f"natural_patches: {FILE.name} of Olshausen & Field is not here, so the two photographs that come with "
                "scikit-learn are used. `untwine data get natural-patches` fetches it; "
                "source='scikit-learn' chooses these two without a warning",
                stacklevel=4,
            )
    elif source not in NAMED:
        source = absolute(source) if _in_data(source) is None else os.fspath(source)
    examples = EXAMPLES.get(arguments["split"]) if examples is None else examples
    return arguments | {"source": source, "examples": examples}


@dataset(
    public=Public(
        _files,
        "none stated; not to be redistributed",
        EXAMPLES["train"] * SHAPE[2],
        (1, 16, 16),
        None,
        hint=_HINT,
    ),
    settle=_settle,
    selecting=["split", "examples", "seed"],
)
def natural_patches(
    source: str | os.PathLike[str] = "auto",
    split: str = "train",
    size: int = 16,
    examples: int | None = None,
    seed: int = 0,
) -> Patches:
    """Square crops from whitened photographs of nature.

    "olshausen" are the ten pictures of Olshausen & Field 1996, which they whitened. Other photographs are converted to
    grey, cropped to their central square, averaged down to 512 pixels if they are larger, and whitened in the same way.
    The smallest value in any picture becomes 0 and the largest 255. Such pictures have long tails, so a step is 0.06
    to 0.08 of their standard deviation: rounding adds a noise of 0.0005 of the variance or less, though a patch of
    clear sky is left with a few shades.

    The position of each crop is uniform over its picture. As in the reference, the crops of "train" and "test" come
    from the same pictures and may overlap.

    Args:
        source: "olshausen", "scikit-learn" (the two photographs that come with it), or a folder of photographs: its
            path, or the name of a folder in the data folder. "auto" is the first if its file is in the data folder, and
            the second otherwise, with a warning.
        split: "train" or "test".
        size: Width and height of a crop in pixels.
        examples: The number of crops of each picture; by default 10,000, and 1,000 for "test".
        seed: The seed of the crops.

    >>> data = natural_patches(source="scikit-learn", examples=50)
    >>> data.shape, len(data), data.factors
    ((1, 16, 16), 100, None)
    """
    if split not in EXAMPLES:
        raise unknown("split of natural_patches:", split, EXAMPLES)
    if examples is None or examples < 1 or size < 1:
        raise UntwineError(f"natural_patches: examples {examples} and size {size} must be at least 1")
    if source == "olshausen":
        pictures = _published(store.fetch(FILE, _HINT))
    else:
        pictures = _bundled() if source == "scikit-learn" else _from_folder(_in_data(source) or Path(source))
    sides = [min(picture.shape) for picture in pictures]
    if size > min(sides):
        raise UntwineError(f"natural_patches: size is {size}; the smallest picture has {min(sides)} pixels")
    mutable = source not in NAMED  # a user's folder may change while the spec does not
    return Patches(_bytes(pictures), split, size, examples, seed, mutable)


class Patches(Unlabelled):
    """Crops that are cut when a batch needs them: first those of the first picture, then those of the second, ..."""

    def __init__(
        self,
        pictures: Sequence[UInt8[np.ndarray, "_ _"]],
        split: str,
        size: int,
        examples: int,
        seed: int,
        mutable: bool = False,
    ) -> None:
        super().__init__((1, size, size), examples * len(pictures), None)
        self._content = " ".join(map(fingerprint, pictures)) if mutable else None
        self._crops = examples
        self._windows = [sliding_window_view(picture, (size, size)) for picture in pictures]
        # The first crops of a larger set are those of a smaller one.
        self._corners = [
            (np_uniform(seed, f"natural patches {split}", (examples, 2), number) * windows.shape[:2]).astype(np.int64)
            for number, windows in enumerate(self._windows)
        ]

    @property
    def content(self) -> str | None:
        return self._content

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> UInt8[np.ndarray, "n 1 size size"]:
        pictures, crops = np.divmod(indices, self._crops)
        patches = np.empty((len(indices), *self.shape), np.uint8)
        for number in np.unique(pictures):
            rows = pictures == number
            top, left = self._corners[number][crops[rows]].T
            patches[rows, 0] = self._windows[number][top, left]
        return patches


# --- pictures ---------------------------------------------------------------------------------------


def whitened(picture: Float64[np.ndarray, "side side"]) -> Float64[np.ndarray, "side side"]:
    """A photograph of mean 0 and variance 1, multiplied by f exp(-(f / f0)^4) in the frequency domain.

    f counts cycles per picture in any direction, and f0 is 0.4 of the side in pixels (Olshausen & Field 1997). As
    amplitudes in nature fall like 1 / f, this makes them equal, up to the frequencies where noise would dominate.

    >>> rows = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    >>> wave = np.sin(2 * rows)[:, None] + 0 * rows
    >>> bool(np.allclose(whitened(5 * wave + 3), 2 * np.exp(-((2 / 25.6) ** 4)) * np.sqrt(2) * wave))
    True
    """
    side = len(picture)
    down, across = np.fft.fftfreq(side, 1 / side), np.fft.rfftfreq(side, 1 / side)
    frequency = np.hypot(down[:, None], across)
    gain = frequency * np.exp(-((frequency / (CUTOFF * side)) ** 4))
    return np.fft.irfft2(np.fft.rfft2((picture - picture.mean()) / picture.std()) * gain, picture.shape)


def _bytes(pictures: Sequence[Float64[np.ndarray, "_ _"]]) -> list[UInt8[np.ndarray, "_ _"]]:
    """The pictures as uint8: their common range becomes 0 to 255."""
    low, high = min(picture.min() for picture in pictures), max(picture.max() for picture in pictures)
    return [np.rint((picture - low) / (high - low) * 255).astype(np.uint8) for picture in pictures]


def _published(path: Path) -> list[Float64[np.ndarray, "_ _"]]:
    """The pictures in the file of Olshausen & Field, which are already whitened."""
    import scipy.io

    try:
        pictures = scipy.io.loadmat(path, variable_names=["IMAGES"], appendmat=False).get("IMAGES")
    except Exception as error:  # the error depends on where the file is broken
        raise broken(path, f"it cannot be read as a file of MATLAB ({error})") from None
    if not isinstance(pictures, np.ndarray) or pictures.dtype.kind != "f" or pictures.shape != SHAPE:
        actual = f"{pictures.dtype} {list(pictures.shape)}" if isinstance(pictures, np.ndarray) else "nothing"
        raise broken(path, f"under IMAGES it has {actual} instead of floats {list(SHAPE)}")
    if not np.isfinite(pictures).all() or pictures.min() == pictures.max():
        raise broken(path, "its pictures hold NaN or infinite values, or nothing but one value")
    return list(np.moveaxis(pictures, 2, 0).astype(np.float64))


def _in_data(source: str | os.PathLike[str]) -> Path | None:
    """The folder of that name in a data folder; None if there is none, or a folder of that name is here."""
    name = os.fspath(source)
    if Path(name).name != name or os.path.isdir(name):
        return None
    return next((place / name for place in places() if (place / name).is_dir()), None)


def _bundled() -> list[Float64[np.ndarray, "_ _"]]:
    """The photographs that come with scikit-learn, whitened."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    return [whitened(_square_of(Image.fromarray(picture))) for picture in load_sample_images().images]


def _from_folder(folder: Path) -> list[Float64[np.ndarray, "_ _"]]:
    """The photographs in a folder and its subfolders, sorted and whitened. Unusable ones are left out."""
    if not folder.is_dir():
        names = ", ".join(repr(name) for name in NAMED)
        raise UntwineError(f"natural_patches: there is no folder {folder}; source is {names}, or a folder")
    files = files_in(folder, "natural_patches")
    opened = open_each(files, folder, lambda picture: whitened(_square_of(picture)), "whitening photographs")
    pictures, left_out = opened.pictures, opened.left_out
    if not pictures:
        raise UntwineError(f"natural_patches: none of the photographs in {folder} can be used: {shortened(left_out)}")
    if left_out:
        message = f"natural_patches: left out {len(left_out)} of {len(files)} files: {shortened(left_out)}"
        warnings.warn(message, stacklevel=4)
    return pictures


def _square_of(picture: Image) -> Float64[np.ndarray, "side side"]:
    """The central square of a photograph in grey, without rounding, which whitening would amplify."""
    side = min(picture.size)
    if side < LEAST:
        raise UntwineError(f"{side} pixels high or wide; at least {LEAST} are needed")
    grey = np.asarray(square(picture.convert("F"), min(side, MOST)), np.float64)
    if grey.min() == grey.max():
        raise UntwineError("a single colour")
    return grey
