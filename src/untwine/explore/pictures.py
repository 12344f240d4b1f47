"""Pictures for a page: arrays as data URLs, and uploaded files as arrays."""

from __future__ import annotations

import base64
import functools
import io
import math
import warnings

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from untwine.data.files.folders import eight_bits, filling, uniform
from untwine.errors import UntwineError
from untwine.report.mosaic import SIGNED

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")  # that may be uploaded: none of them runs a program
MOST_PIXELS = 64_000_000  # of an uploaded picture: a large photograph; a small file may claim far more
_RED, _BLUE = "#c0453b", "#3a78b5"  # bars above and below zero, readable on light and dark


def picture_url(example: Shaped[np.ndarray, "..."], scale: float = 1.0) -> str:
    """An example as the URL of a picture: a PNG of an image, bars of a vector.

    Args:
        example: An image `[1 or 3, y, x]` of bytes or of floats in [0, 1], or a vector.
        scale: The largest magnitude of a vector's numbers; longer bars are cut.

    >>> picture_url(np.zeros((1, 2, 2), np.uint8)).partition(",")[0]
    'data:image/png;base64'
    """
    if example.ndim == 1:
        return _bars(example, scale)
    return _png(example if example.dtype == np.uint8 else _bytes(example))


def column_urls(columns: Float[np.ndarray, "latents ..."]) -> list[str]:
    """Columns of a Jacobian as URLs of pictures; the largest magnitude of all of them has the full colour.

    One channel is red where it grows with the latent and blue where it falls; three are grey where nothing changes.

    Args:
        columns: Columns `[latents, channels, y, x]`, or `[latents, n]` of vectors.
    """
    top = float(np.abs(columns).max()) or 1.0
    if columns.ndim == 2:
        return [_bars(column, top) for column in columns]
    levels = _bytes(columns / (2 * top) + 0.5)
    if levels.shape[1] == 1:
        levels = np.moveaxis(_signed_colours()[levels[:, 0]], -1, 1)
    return [_png(level) for level in levels]


def prepared(content: bytes, shape: tuple[int, ...]) -> UInt8[np.ndarray, "channels y x"]:
    """An uploaded picture as a model takes it: upright, its central part, resized, grey or in colour.

    Args:
        content: The bytes of the file.
        shape: The shape of the model's images, `(channels, y, x)`.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit here is our own
            with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
                if math.prod(opened.size) > MOST_PIXELS:  # nothing but the size has been read
                    raise Image.DecompressionBombError
                channels, y, x = shape
                picture = eight_bits(filling(uniform(opened), x, y)).convert("L" if channels == 1 else "RGB")
    except UntwineError as error:
        raise UntwineError(f"this picture cannot be used: {error}") from None
    except Image.DecompressionBombError:
        raise UntwineError(
            f"this picture has more than {MOST_PIXELS // 10**6} million pixels: make it smaller"
        ) from None
    except Image.UnidentifiedImageError:
        raise UntwineError(f"this file is no picture that can be read here; use {', '.join(FORMATS)}") from None
    # What Pillow raises on a broken file depends on the format and on where it is broken.
    except (OSError, SyntaxError, ValueError, EOFError, ArithmeticError) as error:
        why = str(error).partition("\n")[0][:200] or type(error).__name__
        raise UntwineError(f"this picture is broken ({why})") from None
    return np.ascontiguousarray(np.array(picture).reshape(y, x, channels).transpose(2, 0, 1))


def _bytes(values: Float[np.ndarray, "..."]) -> UInt8[np.ndarray, "..."]:
    """Numbers in [0, 1] as bytes; those outside are cut."""
    return np.rint(np.nan_to_num(values).clip(0, 1) * 255).astype(np.uint8)


def _png(pixels: UInt8[np.ndarray, "channels y x"]) -> str:
    from PIL import Image

    file = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)))
    image.save(file, "PNG", compress_level=1)  # the way to the page is short
    return _url("image/png", file.getvalue())


def _bars(values: Shaped[np.ndarray, " n"], scale: float) -> str:
    """A vector as bars above and below a line."""
    heights = (np.nan_to_num(values.astype(np.float64)) / (scale or 1)).clip(-1, 1) * 48
    wide = 100 / len(heights)
    bars = "".join(
        f'<rect x="{(i + 0.1) * wide:.2f}" y="{50 - max(height, 0):.2f}" width="{0.8 * wide:.2f}" '
        f'height="{abs(height):.2f}" fill="{_RED if height > 0 else _BLUE}"/>'
        for i, height in enumerate(heights.tolist())
    )
    line = '<path d="M0 50H100" stroke="#888" stroke-width=".5"/>'
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">{bars}{line}</svg>'
    return _url("image/svg+xml", drawing.encode())


def _url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


@functools.cache
def _signed_colours() -> UInt8[np.ndarray, "256 3"]:
    """The colours of signed numbers in figures, from the smallest to the largest."""
    from matplotlib import colormaps

    return colormaps[SIGNED](np.arange(256), bytes=True)[:, :3]
