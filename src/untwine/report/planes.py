"""Planes: where the lines of a square end up, in the data or in two latents (rolinek2019, Figures 1, 2 and S5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from untwine.analysis.arrays import finite_array
from untwine.arguments import checked
from untwine.errors import UntwineError
from untwine.report.charts import BLUE, ORANGE
from untwine.report.mosaic import SMALL, WIDEST, Names, literal, texts, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@checked()
def planes(
    meshes: Sequence[Sequence[ArrayLike]],
    row_labels: Names | None = None,
    column_labels: Names | None = None,
    captions: Sequence[Sequence[str]] | None = None,
    factors: tuple[str, str] = ("w1", "w2"),
    title: str = "",
) -> Figure:
    """Images of a square mesh in a plane: the lines along which a factor varies have its colour.

    Each panel has its own limits, and one unit is as long to the right as upwards. A disc marks the corner where both
    factors are least.

    Args:
        meshes: Rows of meshes, each `[n, m, 2]`: the place of every knot, the first factor varying along the first
            dimension. Rows may have different lengths.
        row_labels: A label for each row.
        column_labels: A label above each column.
        captions: A text below each panel.
        factors: The names of both factors.
        title: Written above.

    >>> import numpy as np
    >>> square = np.stack(np.meshgrid(np.arange(3), np.arange(3), indexing="ij"), -1)
    >>> len(planes([[square, square @ [[1, 1], [-1, 1]]]]).axes)
    2
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    if not meshes or not all(len(row) for row in meshes):
        raise UntwineError("there is no plane to draw")
    across = max(len(row) for row in meshes)
    side = min(1.9, WIDEST / across)
    figure = Figure(figsize=(side * across + 0.5, (side + 0.25) * len(meshes) + 0.5), layout="constrained")
    grid = figure.subplots(len(meshes), across, squeeze=False)
    above = [""] * across if column_labels is None else texts(column_labels, across, "column labels")
    beside = [""] * len(meshes) if row_labels is None else texts(row_labels, len(meshes), "row labels")
    for i, row in enumerate(meshes):
        for axes in grid[i, len(row) :]:
            axes.remove()
        for j, (axes, mesh) in enumerate(zip(grid[i], row, strict=False)):
            places = finite_array(mesh, "meshes", 3)
            if places.ndim != 3 or places.shape[2] != 2:
                raise UntwineError(f"a mesh has shape {list(places.shape)}; it must be [n, m, 2]")
            for colour, lines in ((BLUE, places.swapaxes(0, 1)), (ORANGE, places)):
                for line in lines:
                    axes.plot(*line.T, color=colour, linewidth=0.9)
            axes.plot(*places[0, 0], marker="o", color="black", markersize=4)
            axes.set_aspect("equal", adjustable="datalim")
            axes.margins(0.08)
            axes.locator_params(nbins=4)
            axes.tick_params(labelsize=SMALL - 1, length=2)
            axes.set_title(above[j] if i == 0 else "", fontsize=SMALL + 1)
            axes.set_ylabel(beside[i] if j == 0 else "", fontsize=SMALL + 1)
            axes.set_xlabel(literal(captions[i][j]) if captions else "", fontsize=SMALL + 0.5)
    names = [f"{name} varies" for name in texts(factors, 2, "factors")]
    handles = [Line2D([], [], color=colour) for colour in (BLUE, ORANGE)]
    figure.legend(handles, names, loc="outside lower center", ncols=2, fontsize=SMALL + 0.5, frameon=False)
    titled(figure, title)
    return figure
