"""Folders of pictures: which files they hold, opened upright, and cut to squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from untwine.errors import UntwineError
from untwine.progress import track

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")


def files_in(folder: Path, who: str) -> list[Path]:
    """The pictures of a folder and its subfolders, in sorted order; an error in the name of `who` if there are none."""
    found = sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    files = [file for file in found if not file.name.startswith(".")]
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
    """The picture upright, without transparency, as "L" (grey) or "RGB"."""
    from PIL import Image, ImageOps

    with Image.open(file) as opened:
        picture = ImageOps.exif_transpose(opened)
    if picture.mode.startswith("I"):  # 16 bits; Pillow's own conversion would cut everything above 255 to white
        return Image.fromarray((np.asarray(picture).clip(0, 65535) / 257).round().astype(np.uint8))
    grey = picture.mode in ("1", "L", "LA", "La", "F")
    if picture.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in picture.info:
        above = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return picture.convert("L" if grey else "RGB")


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
