"""Pictures within a page: arrays as image data, and figures as SVG that follows the page's colours."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from untwine.report.mosaic import SIGNED
from untwine.report.page.html import Markup, tag
from untwine.report.styles import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

Tiles = Float[np.ndarray, "rows columns channels y x"]

LARGEST = 96  # pixels of a tile's longer side: larger images are made smaller
SMALL_IMAGE = 48  # pixels, up to which images are shown without smoothing
QUALITIES = (88, 60, 30)  # of JPEG: the first whose file is small enough
MOST_BYTES = 0.6  # of a pixel


def in_bytes(tiles: Tiles) -> UInt8[np.ndarray, "rows columns channels y x"]:
    """Images in [0, 1] as bytes; what is beyond is cut."""
    return (np.clip(tiles, 0, 1) * 255).round().astype(np.uint8)


def signed_colours(tiles: Tiles) -> Float[np.ndarray, "rows columns 3 y x"]:
    """Signed images as colours: blue below zero, red above, by the largest magnitude of each row.

    Images of three channels keep them: grey where nothing changes.
    """
    from matplotlib import colormaps

    top = np.abs(tiles).max((1, 2, 3, 4), keepdims=True)
    shown = tiles / np.where(top > 0, top, 1) / 2 + 0.5
    return shown if tiles.shape[2] == 3 else np.moveaxis(colormaps[SIGNED](shown[:, :, 0])[..., :3], -1, 2)


def sheet(tiles: Tiles) -> str:
    """All tiles, in rows and columns without gaps, as one image in a data address: PNG, or JPEG where that is smaller.

    Args:
        tiles: Images in [0, 1].
    """
    from PIL.Image import Resampling, fromarray

    pixels = in_bytes(tiles)
    rows, columns, channels, y, x = pixels.shape
    joined = pixels.transpose(0, 3, 1, 4, 2).reshape(rows * y, columns * x, channels)
    picture = fromarray(joined[..., 0] if channels == 1 else joined)
    factor = LARGEST / max(y, x)
    if factor < 1:
        size = columns * max(1, round(x * factor)), rows * max(1, round(y * factor))
        picture = picture.resize(size, Resampling.BOX)
    kind, content = "png", _saved(picture, "png", optimize=True)
    for quality in QUALITIES:
        smaller = _saved(picture, "jpeg", quality=quality, subsampling=0)
        if len(smaller) < len(content):
            kind, content = "jpeg", smaller
        if len(content) <= MOST_BYTES * picture.width * picture.height:
            break
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _saved(picture: Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def strip(
    images: Float[np.ndarray, "columns channels y x"], text: str, captions: Sequence[Any] | None = None
) -> Markup:
    """Images side by side, as wide as the page allows. They are parts of one sheet.

    Args:
        images: Images in [0, 1].
        text: What they show, for those who cannot see them.
        captions: What stands below each.
    """
    count, _, y, x = images.shape
    tiles = []
    for i in range(count):
        place = f"aspect-ratio: {x} / {y}; background-position: {100 * i / max(1, count - 1):.4f}% 0"
        tile = tag("div", class_=tile_class(x, y), style=place)
        tiles.append(tile if captions is None else tag("div", tile, captions[i]))
    style = f"--sheet: url({sheet(images[None])}); --count: {count}"
    return tag("div", *tiles, class_="strip", style=style, role="img", aria_label=text)


def tile_class(x: int, y: int) -> str:
    """The class of an image: small ones are shown pixel by pixel."""
    return "tile pixels" if max(x, y) <= SMALL_IMAGE else "tile"


def chart(figure: Figure, text: str) -> Markup:
    """A figure as SVG within the page: its colours follow those of the page, as letters do.

    Black and greys are the colour of text, more or less of it; colours of lines have brighter twins on dark pages.

    Args:
        figure: A figure.
        text: What it shows, for those who cannot see it.
    """
    import matplotlib

    buffer = io.StringIO()
    undated: dict[str, Any] = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "untwine"}):
        figure.savefig(buffer, format="svg", transparent=True, bbox_inches="tight", pad_inches=0.02, metadata=undated)
    drawn = buffer.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    # Styles within a figure would be styles of the page.
    drawn = re.sub(r"<(metadata|style).*?</\1>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'<g id="[^"]*"', "<g", drawn)  # ids of several figures would be the same
    drawn = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", drawn)
    drawn = re.sub(r"font-family: [^;\"]*;? ?", "", drawn)
    drawn = re.sub(r"#([0-9a-f]{2})\1\1\b", _as_text_colour, drawn)
    width = re.search(r'width="([\d.]+)pt"', drawn)
    wide = round(float(width[1]) * 1.45) if width else 600
    drawn = re.sub(r'<svg height="[^"]*"', "<svg", drawn, count=1)
    drawn = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"| width="[\d.]+pt"| height="[\d.]+pt"', "", drawn, count=2)
    drawn = re.sub(r' xmlns(:xlink)?="[^"]*"', "", drawn).replace("xlink:href", "href")
    for place, colour in enumerate(COLOURS):
        drawn = drawn.replace(colour.lower(), f"var(--series-{place})")
    return tag("div", Markup(drawn), class_="chart", role="img", aria_label=text, style=f"--wide: {wide}px")


def _as_text_colour(grey: re.Match[str]) -> str:
    """A grey as a share of the text's colour. White stays: it is written on dark cells."""
    level = int(grey[1], 16)
    if level == 255 or grey[1] == "01":
        return grey[0]
    return (
        "currentColor"
        if level == 0
        else f"color-mix(in srgb, currentColor {round(100 * (1 - level / 255))}%, transparent)"
    )
