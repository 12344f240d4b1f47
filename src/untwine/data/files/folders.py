"""Folders of pictures: list the files, open them upright, and crop them to squares."""

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
    """Refuse an empty path, which would mean the working directory."""
    for name, path in paths.items():
        if isinstance(path, str) and not path.strip():
            raise UntwineError(f"{who}: {name} is an empty text; it must name a file or a folder (this one is '.')")


def files_in(folder: Path, who: str) -> list[Path]:
    """The pictures in a folder and its subfolders, sorted. Names that begin with a dot are left out.

    Args:
        folder: The folder.
        who: The dataset that asks, for the error message if there are no pictures.
    """
    candidates = sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    files = [file for file in candidates if not any(part.startswith(".") for part in file.relative_to(folder).parts)]
    if not files:
        raise UntwineError(f"{who}: no pictures in {folder} or its subfolders; looked for {', '.join(SUFFIXES)}")
    return files


@dataclass(frozen=True)
class Opened(Generic[T]):
    """The result of opening a list of files.

    Args:
        pictures: A result for each file that could be used.
        indices: The positions of these files in the list.
        left_out: The other files, each with the reason.
    """

    pictures: list[T]
    indices: list[int]
    left_out: list[str]


def open_each(files: Sequence[Path], folder: Path, use: Callable[[Image], T], doing: str) -> Opened[T]:
    """Open files one by one and call `use` on each. Broken files, and those that `use` refuses, are left out.

    Args:
        files: The files.
        folder: Their folder; messages name files relative to it.
        use: Turns an upright picture into a result.
        doing: What the progress bar says.
    """
    from PIL import Image

    opened: Opened[T] = Opened([], [], [])
    for index, file in enumerate(track(files, doing, len(files))):
        try:
            opened.pictures.append(use(upright(file)))
            opened.indices.append(index)
        # What Pillow raises on a broken file depends on the format and on where it is broken.
        except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError, UntwineError) as error:
            opened.left_out.append(f"{file.relative_to(folder)} ({error})")
    return opened


def upright(file: Path) -> Image:
    """The picture of a file as `uniform` returns it."""
    from PIL import Image

    with Image.open(file) as opened:
        return uniform(opened)


def uniform(opened: Image) -> Image:
    """The picture upright, without transparency: mode "RGB", "L" (grey), or "F" (grey of 0 to 255 as floats)."""
    from PIL import Image, ImageOps

    png = opened.format == "PNG"
    picture = ImageOps.exif_transpose(opened)
    if picture.mode == "F" or picture.mode.startswith("I"):
        # A PNG of more than 8 bits has 16, though some versions of Pillow open it as 32.
        return Image.fromarray(_scale(np.asarray(picture), picture.mode.startswith("I;16") or png))
    grey = picture.mode in ("1", "L", "LA", "La")
    if picture.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in picture.info:
        above = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return picture.convert("L" if grey else "RGB")


def _scale(values: Shaped[np.ndarray, "h w"], sixteen: bool) -> Float32[np.ndarray, "h w"]:
    """Grey floats in [0, 1], or integers, as 0 to 255. Pillow's own conversion would clip instead."""
    if not np.isfinite(values).all():
        raise UntwineError("it holds NaN or infinite values")
    low, high = values.min(), values.max()
    if values.dtype.kind == "f":
        if low < -1e-4 or high > 1 + 1e-4:  # tolerates rounding
            raise UntwineError(f"it holds floats from {low:g} to {high:g}; they must be in [0, 1]")
        return (values.clip(0, 1) * 255).astype(np.float32)
    if low < 0 or high > (65535 if sixteen else 255):
        raise UntwineError(f"it holds integers from {low} to {high}, in 32 bits; save it with 8 or 16 bits")
    return (values / (257 if sixteen else 1)).astype(np.float32)


def eight_bits(picture: Image) -> Image:
    """A picture from `uniform` as "RGB" or "L"; float greys are rounded."""
    from PIL import Image

    if picture.mode != "F":
        return picture
    return Image.fromarray(np.rint(np.asarray(picture).clip(0, 255)).astype(np.uint8))


def square(picture: Image, size: int | None) -> Image:
    """The central square of a picture, resized; None keeps the picture as it is."""
    return picture if size is None else filling(picture, size, size)


def filling(picture: Image, width: int, height: int) -> Image:
    """The largest central part of a picture that has the shape of a size, resized to it.

    Args:
        picture: The picture.
        width: The width of the result in pixels.
        height: Its height.

    >>> from PIL import Image
    >>> filling(Image.new("L", (300, 100)), 20, 10).size
    (20, 10)
    """
    from PIL import Image

    if picture.size == (width, height):
        return picture
    if picture.width * height <= picture.height * width:  # all of the width is used
        across, down = picture.width, picture.width * height / width
    else:
        across, down = picture.height * width / height, picture.height
    left, top = (picture.width - across) // 2, (picture.height - down) // 2
    method = Image.Resampling.BOX if across > width else Image.Resampling.BICUBIC
    return picture.resize((width, height), method, box=(left, top, left + across, top + down))
