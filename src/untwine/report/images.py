"""Figures of images in rows and columns: images, reconstructions, columns of a Jacobian, traversals of latents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from untwine.arguments import checked
from untwine.checks import as_array
from untwine.errors import UntwineError
from untwine.report import mosaic
from untwine.report.mosaic import Limits, Names, matching, short, texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@checked()
def images(
    grid: ArrayLike,
    row_labels: Names | None = None,
    column_labels: Names | None = None,
    symmetric: bool = False,
    scale: str = "all",
    limits: Limits = (0.0, 1.0),
    title: str = "",
) -> Figure:
    """Images in rows and columns.

    Args:
        grid: `[rows, columns, *shape]`, where a shape is `[y, x]`, `[1, y, x]` or `[3, y, x]`.
        row_labels: A label for each row.
        column_labels: A label for each column.
        symmetric: Whether values have a sign, as columns of a Jacobian do: the colours are centred at 0.
        scale: The largest magnitude of symmetric colours is that of "all" images, of each "row", or of "each" image.
        limits: The values of black and white; None takes the smallest and the largest value.
        title: Written above.

    >>> import numpy as np
    >>> len(images(np.zeros((2, 3, 1, 8, 8))).axes[0].images)
    6
    """
    tiles = mosaic.tiles(grid, "images")
    styled = mosaic.signed(tiles, scale) if symmetric else mosaic.plain(tiles, limits)
    figure = mosaic.mosaic(styled, row_labels, column_labels, title=title)
    if symmetric:
        mosaic.signed_bar(figure, tiles, scale)
    return figure


@checked()
def reconstructions(
    originals: ArrayLike,
    reconstructed: ArrayLike,
    names: Names | None = None,
    limits: Limits = (0.0, 1.0),
    title: str = "",
) -> Figure:
    """Images, and below each what models reconstruct: a row for each model.

    Args:
        originals: `[count, *shape]`.
        reconstructed: `[count, *shape]`, or `[models, count, *shape]` as `ensemble.reconstruct` returns.
        names: The name of each model.
        limits: As in `images`.
        title: Written above.

    >>> import numpy as np
    >>> figure = reconstructions(np.zeros((3, 8, 8)), np.ones((2, 3, 8, 8)), ["β-VAE", "JL1-VAE"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['images', 'β-VAE', 'JL1-VAE']
    """
    first, models = as_array(originals), as_array(reconstructed)
    models = models[None] if models.ndim == first.ndim else models
    if models.shape[1:] != first.shape:
        raise UntwineError(
            f"reconstructions have shape {list(models.shape)} for images {list(first.shape)}; they must be "
            "[models, count, *shape] for images [count, *shape]"
        )
    default = ["model"] if len(models) == 1 else [f"model {i}" for i in range(len(models))]
    labels = ["images", *texts(default if names is None else names, len(models), "names")]
    styled = mosaic.plain(mosaic.tiles(first[None], "images"), limits)
    styled += mosaic.plain(mosaic.tiles(models, "reconstructions"), limits)
    return mosaic.mosaic(styled, labels, title=title)


@checked()
def columns(
    image: ArrayLike,
    jacobian_columns: ArrayLike,
    latents: ArrayLike | None = None,
    norms: ArrayLike | None = None,
    row_labels: Names | None = None,
    scale: str = "row",
    limits: Limits = (0.0, 1.0),
    across: int = 10,
    title: str = "",
) -> Figure:
    """An image and columns of the decoder's Jacobian at its code (rhodes2021, Figures 1 to 3).

    `columns(image, *analysis.jacobian_columns(jacobian))` shows the largest columns first. Every array may have a
    leading dimension of rows: several images, or several models of one image.

    Args:
        image: `[*shape]`, or `[rows, *shape]`.
        jacobian_columns: `[count, *shape]`, shown in this order.
        latents: The latent of each column, `[count]`, written below it.
        norms: The norm of each column, `[count]`, written below it.
        row_labels: A label for each row.
        scale: As in `images`.
        limits: As in `images`.
        across: The most columns in one line.
        title: Written above.

    >>> import numpy as np
    >>> figure = columns(np.zeros((8, 8)), np.ones((2, 8, 8)), [5, 3], [120.0, 2.0])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['', 'z5 ‖·‖ 120', 'z3 ‖·‖ 2.0']
    """
    originals, signed = as_array(image), as_array(jacobian_columns)
    if signed.shape[1:] == originals.shape:
        originals, signed = originals[None], signed[None]
    if signed.shape[:1] + signed.shape[2:] != originals.shape:
        raise UntwineError(
            f"columns have shape {list(signed.shape)} for an image {list(originals.shape)}; they must be "
            "[count, *shape] for an image [*shape], or [rows, count, *shape] for images [rows, *shape]"
        )
    tiles, first = mosaic.tiles(signed, "columns"), mosaic.tiles(originals[:, None], "images")
    rows, count = tiles.shape[:2]
    notes = [[""] * count for _ in range(rows)]
    if latents is not None:
        numbers = matching(mosaic.integers(latents, "latents"), (rows, count), "latents")
        notes = [[f"z{latent:.0f}" for latent in line] for line in numbers]
    if norms is not None:
        lengths = matching(norms, (rows, count), "norms")
        notes = [
            [f"{name} ‖·‖ {short(length)}".strip() for name, length in zip(*both, strict=True)]
            for both in zip(notes, lengths, strict=True)
        ]
    labels = [""] * rows if row_labels is None else texts(row_labels, rows, "row labels")
    pictures = zip(mosaic.plain(first, limits), mosaic.signed(tiles, scale), strict=True)
    styled = [line for a, b in pictures for line in mosaic.lines(a[0], b, across, None)]
    lines = [line for both in zip(labels, notes, strict=True) for line in mosaic.lines(*both, across, "")]
    captions = None if norms is None and latents is None else [["", *line[1:]] for line in lines]
    figure = mosaic.mosaic(styled, [line[0] for line in lines], None, captions, title)
    mosaic.signed_bar(figure, tiles, scale)
    return figure


@checked()
def traversals(
    images: ArrayLike,
    names: Names | None = None,
    ranges: ArrayLike | None = None,
    limits: Limits = (0.0, 1.0),
    title: str = "",
) -> Figure:
    """Images of traversals: a row for each latent, with its name and its range.

    Args:
        images: `[latents, steps, *shape]`.
        names: Texts, or the indices of the latents.
        ranges: The lowest and highest value of each latent, `[latents, 2]`, in the order of the rows.
        limits: As in `images`.
        title: Written above.

    >>> import numpy as np
    >>> traversals(np.zeros((2, 5, 8, 8)), [3, 1], [[-2, 2], [-1, 1]]).axes[0].get_yticklabels()[0].get_text()
    'z3\\n−2.0 to 2.0'
    """
    tiles = mosaic.tiles(images, "traversals")
    labels = texts(range(len(tiles)) if names is None else names, len(tiles), "names", "z")
    if ranges is not None:
        ends = matching(ranges, (len(tiles), 2), "ranges")
        labels = [f"{name}\n{short(low)} to {short(high)}" for name, (low, high) in zip(labels, ends, strict=True)]
    return mosaic.mosaic(mosaic.plain(tiles, limits), labels, title=title)
