"""Folders of pictures: which files they hold, opened upright, and cut to squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from jaxtyping import Float32, Shaped

from untwine.errors import UntwineError
from untwine.progress import track

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")


def refuse_empty(who: str, **paths: object) -> None:
    """Refuse an empty text in place of a path, which would stand for the working directory."""
    for name, path in paths.items():
        if isinstance(path, str) and not path.strip():
            raise UntwineError(f"{who}: {name} is an empty text; it must name a file or a folder (this one is '.')")


def files_in(folder: Path, who: str) -> list[Path]:
    """The pictures of a folder and its subfolders, in sorted order; an error in the name of `who` if there are none.

    Files and folders whose names begin with a dot are left out.
    """
    found = sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    files = [file for file in found if not any(part.startswith(".") for part in file.relative_to(folder).parts)]
    if not files:
        raise UntwineError(f"{who}: no pictures in {folder} or its subfolders; looked for {', '.join(SUFFIXES)}")
    return files


@dataclass(frozen=True)
class Opened(Generic[T]):
    """What was made of the files that could be used, their places in the list of all, and why the others could not."""

    pictures: list[T]
    places: list[int]
    left_out: list[str]


def each(files: Sequence[Path], folder: Path, use: Callable[[Image], T], what: str) -> Opened[T]:
    """Open the files one by one, and use each. One that is broken, or that `use` refuses, is left out."""
    from PIL import Image

    pictures, places, left_out = [], [], []
    for place, file in enumerate(track(files, what, len(files))):
        try:
            pictures.append(use(upright(file)))
            places.append(place)
        # What Pillow raises on a broken file depends on the format and on where it is broken.
        except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError, UntwineError) as error:
            left_out.append(f"{file.relative_to(folder)} ({error})")
    return Opened(pictures, places, left_out)


def upright(file: Path) -> Image:
    """The picture upright, without transparency: "RGB", "L" (grey), or "F", grey of 0 to 255 in finer steps."""
    from PIL import Image, ImageOps

    with Image.open(file) as opened:
        png = opened.format == "PNG"
        picture = ImageOps.exif_transpose(opened)
    if picture.mode == "F" or picture.mode.startswith("I"):
        # A PNG of more than 8 bits has 16, though some versions of Pillow open it as 32.
        return Image.fromarray(_scaled(np.asarray(picture), picture.mode.startswith("I;16") or png))
    grey = picture.mode in ("1", "L", "LA", "La")
    if picture.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in picture.info:
        above = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return picture.convert("L" if grey else "RGB")


def _scaled(values: Shaped[np.ndarray, "h w"], sixteen: bool) -> Float32[np.ndarray, "h w"]:
    """Grey as 0 to 255, which Pillow's own conversion would only cut: floats in [0, 1], or integers."""
    if not np.isfinite(values).all():
        raise UntwineError("it holds NaN or infinite values")
    low, high = values.min(), values.max()
    if values.dtype.kind == "f":
        if low < -1e-4 or high > 1 + 1e-4:  # a little room for rounding, as arrays have
            raise UntwineError(f"it holds floats from {low:g} to {high:g}; they must be in [0, 1]")
        return (values.clip(0, 1) * 255).astype(np.float32)
    if low < 0 or high > (65535 if sixteen else 255):
        raise UntwineError(f"it holds integers from {low} to {high}, in 32 bits; save it with 8 or 16 bits")
    return (values / (257 if sixteen else 1)).astype(np.float32)


def eight_bits(picture: Image) -> Image:
    """A picture of `upright` as "RGB" or "L"; finer greys are rounded."""
    from PIL import Image

    if picture.mode != "F":
        return picture
    return Image.fromarray(np.rint(np.asarray(picture).clip(0, 255)).astype(np.uint8))


def square(picture: Image, size: int | None) -> Image:
    """The central square, resized."""
    from PIL import Image

    if size is None or picture.size == (size, size):
        return picture
    width, height = picture.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    method = Image.Resampling.BOX if side > size else Image.Resampling.BICUBIC
    return picture.resize((size, size), method, box=(left, top, left + side, top + side))
