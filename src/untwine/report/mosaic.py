"""Mosaics: pictures in rows and columns on one pair of axes, with labels and captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from untwine.analysis import arrays
from untwine.checks import as_array
from untwine.errors import UntwineError, unknown, warn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGNED = "RdBu_r"  # blue below zero, red above
SCALES = ("all", "row", "each")
WIDEST = 11.0  # inches of a figure
SMALL = 7.5  # points of text

# Texts, or numbers, before which a word is written.
Names = Sequence[str] | Sequence[int] | np.ndarray

# The values of black and white; None takes the smallest and the largest value.
Limits = tuple[float, float] | None

# A picture as `imshow` takes it, and the arguments for its colours.
Styled = tuple[np.ndarray, dict[str, Any]]


def tiles(value: ArrayLike, name: str) -> Float64[np.ndarray, "rows columns channels y x"]:
    """Images as floats with a dimension of channels; bytes are scaled to [0, 1].

    >>> tiles(np.full((2, 3, 8, 8), 255, np.uint8), "images")[1, 2].max().tolist()
    1.0
    """
    array = as_array(value)
    if array.dtype == np.uint8:
        array = array / 255
    images = arrays.finite_array(array, name, 4)
    images = images[:, :, None] if images.ndim == 4 else images
    if images.ndim != 5 or images.shape[2] not in (1, 3):
        raise UntwineError(
            f"{name} have shape {list(array.shape)}; they must be [rows, columns, y, x], [rows, columns, 1, y, x] or "
            "[rows, columns, 3, y, x]"
        )
    return images


def plain(tiles: Float64[np.ndarray, "rows columns channels y x"], limits: Limits) -> list[list[Styled]]:
    """Grey or coloured pictures between limits."""
    least, most = float(tiles.min()), float(tiles.max())
    low, high = (least, most) if limits is None else limits
    if least < 2 * low - high or most > 2 * high - low:
        warn(
            f"pixels are from {least:.3g} to {most:.3g}, but black is {low:g} and white {high:g}: give uint8 from 0 to "
            "255, floats in [0, 1], or other limits",
        )
    shown = np.clip((tiles - low) / ((high - low) or 1), 0, 1)
    style = dict(cmap="gray", vmin=0, vmax=1)
    return [[(_picture(tile), style) for tile in row] for row in shown]


def signed(tiles: Float64[np.ndarray, "rows columns channels y x"], scale: str) -> list[list[Styled]]:
    """Pictures of signed numbers, divided by the largest magnitude of all, of the row or of each."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    axes = {"all": (0, 1, 2, 3, 4), "row": (1, 2, 3, 4), "each": (2, 3, 4)}[scale]
    top = np.abs(tiles).max(axes, keepdims=True)
    shown = tiles / np.where(top > 0, top, 1)
    if tiles.shape[2] == 3:  # grey where nothing changes
        shown = (shown + 1) / 2
    style = dict(cmap=SIGNED, vmin=-1, vmax=1)
    return [[(_picture(tile), style) for tile in row] for row in shown]


def _picture(tile: Float64[np.ndarray, "channels y x"]) -> np.ndarray:
    return tile[0] if len(tile) == 1 else np.moveaxis(tile, 0, -1)


def signed_bar(figure: Figure, tiles: Float64[np.ndarray, "rows columns channels y x"], scale: str) -> None:
    """Draw a colour bar to the right of a mosaic. RGB pictures have none: grey is zero in each channel."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    if tiles.shape[2] == 3:
        return
    axes = figure.axes[0]
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    tall = min(3.0, tiles.shape[0]) * tiles.shape[3] / tiles.shape[4] / (bottom - top)  # as a fraction of the axes
    wide = 0.1 / (right - left)
    place = axes.inset_axes((1 + wide / 2, 1 + top / (bottom - top) - tall, wide, tall))
    bar = figure.colorbar(ScalarMappable(Normalize(-1, 1), SIGNED), cax=place, ticks=[-1, 0, 1])
    most = short(np.abs(tiles).max()) if scale == "all" else "max"
    bar.ax.set_yticklabels([f"−{most}", "0", most], fontsize=SMALL)
    bar.ax.tick_params(length=2)


def mosaic(
    tiles: Sequence[Sequence[Styled | None]],
    row_labels: Names | None = None,
    column_labels: Names | None = None,
    captions: Sequence[Sequence[str]] | None = None,
    title: str = "",
) -> Figure:
    """A figure of pictures in rows and columns on one pair of axes.

    Args:
        tiles: Rows of pictures; None leaves a place empty.
        row_labels: A label for each row.
        column_labels: A label for each column.
        captions: A text below each picture.
        title: Written above.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    rows, columns = len(tiles), len(tiles[0])
    height, width = next(tile[0].shape[:2] for line in tiles for tile in line if tile)
    # The width of a tile, which is 1 wide and `tall` high in the units of the axes.
    inches = max(min(1.0, WIDEST / columns), 0.8 if captions else 0.4)
    tall, gap = height / width, 0.06
    below = gap + (1.6 * SMALL / 72 / inches if captions else 0)
    size = columns * (1 + gap) - gap, rows * (tall + below)
    figure = Figure(figsize=(size[0] * inches + 1.2, size[1] * inches + 0.6), layout="compressed")
    axes = figure.subplots()
    for row, line in enumerate(tiles):
        for column, tile in enumerate(line):
            if tile is None:
                continue
            picture, style = tile
            left, top = column * (1 + gap), row * (tall + below)
            axes.imshow(picture, extent=(left, left + 1, top + tall, top), **style)
            axes.add_patch(Rectangle((left, top), 1, tall, fill=False, edgecolor="0.6", linewidth=0.5))
            if captions:
                middle = top + tall + below / 2
                axes.text(left + 0.5, middle, captions[row][column], ha="center", va="center", fontsize=SMALL)
    axes.set(xlim=(-gap, size[0] + gap), ylim=(size[1], -gap), aspect="equal")
    axes.set_frame_on(False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=3, labelsize=SMALL + 0.5)
    across = [] if column_labels is None else texts(column_labels, columns, "column labels")
    down = [] if row_labels is None else texts(row_labels, rows, "row labels")
    axes.set_xticks([i * (1 + gap) + 0.5 for i in range(len(across))], across)
    axes.set_yticks([i * (tall + below) + tall / 2 for i in range(len(down))], down)
    titled(figure, title)
    return figure


def lines(first: Any, rest: Sequence[Any], across: int, nothing: Any) -> list[list[Any]]:
    """The rest in lines of equal length; the first line begins with `first`, the other lines with `nothing`.

    >>> lines("image", [1, 2, 3], 2, None)
    [['image', 1, 2], [None, 3, None]]
    """
    width = min(positive(across), len(rest))
    rows = [list(rest[start : start + width]) for start in range(0, len(rest), width)]
    rows[-1] += [nothing] * (width - len(rows[-1]))
    return [[first if i == 0 else nothing, *row] for i, row in enumerate(rows)]


def positive(across: int) -> int:
    """The number of pictures side by side, refused if it is below 1."""
    if across < 1:
        raise UntwineError(f"across is how many stand in a row, 1 or more, not {across}")
    return across


def titled(figure: Figure, title: str) -> None:
    """Write a title, if there is one, above a figure."""
    if title:
        figure.suptitle(literal(title), fontsize=SMALL + 2.5)


def literal(text: str) -> str:
    """The text with its dollar signs escaped: matplotlib would set what is between them as a formula."""
    return text.replace("$", r"\$")


def texts(names: Names, count: int, what: str, word: str = "") -> list[str]:
    """Names as texts, refused if there are not `count` of them.

    >>> texts([3, 1], 2, "names", "latent ")
    ['latent 3', 'latent 1']
    """
    if len(names) != count:
        raise UntwineError(f"there are {len(names)} {what}, but {count} are needed")
    return [literal(name) if isinstance(name, str) else f"{word}{name}" for name in names]


def matching(value: ArrayLike, shape: tuple[int, ...], what: str) -> Float64[np.ndarray, "..."]:
    """The array in this shape; an array without rows is repeated for each row."""
    array = arrays.finite_array(value, what)
    if array.shape not in (shape, shape[1:]):
        raise UntwineError(f"{what} have shape {list(array.shape)}; they must be {list(shape)}")
    return np.broadcast_to(array, shape)


def integers(value: ArrayLike, what: str) -> np.ndarray:
    """An array of integers; any other dtype is refused."""
    array = as_array(value)
    if not np.issubdtype(array.dtype, np.integer):
        raise UntwineError(f"{what} are {array.dtype}; they must be whole numbers")
    return array


def short(number: float) -> str:
    """A number in two digits, or in all digits before its point where there are more.

    >>> [short(number) for number in (-1.96, 17.3, 120, 0.0341, 2.5e7, 1e-9)]
    ['−2.0', '17', '120', '0.034', '2.5e7', '1.0e−9']
    """
    value = float(number)
    if value == 0:
        return "0"
    digits, exponent = f"{value:.1e}".split("e")
    power = int(exponent)
    text = f"{value:.{max(0, 1 - power)}f}" if -3 <= power < 5 else f"{digits}e{power}"
    return text.replace("-", "−")
