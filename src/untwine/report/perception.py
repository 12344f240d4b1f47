"""Figures of data: traversals of its factors, and perceived distances (michlo2023, Figures 2, 3, 8 and A1)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from untwine.analysis.perception import Importance, Row
from untwine.arguments import checked
from untwine.checks import as_array
from untwine.data.factors import Value, text_of
from untwine.errors import UntwineError
from untwine.report import mosaic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIDE = 1.35  # inches of a matrix
_LABELLED = 8  # the most rows of a matrix that are labelled


@checked()
def factor_traversals(traversals: Mapping[str, tuple[ArrayLike, ArrayLike]], title: str = "") -> Figure:
    """A column of images for each factor, with the factor's value below each image.

    Args:
        traversals: The result of `analysis.factor_traversals`.
        title: Written above.

    >>> values, images = np.arange(3), np.zeros((3, 1, 8, 8), np.uint8)
    >>> figure = factor_traversals({"x": (values, images), "shape": (values[:2], images[:2])})
    >>> len(figure.axes[0].images), [label.get_text() for label in figure.axes[0].get_xticklabels()]
    (5, ['x', 'shape'])
    """
    if not traversals:
        raise UntwineError(
            "no two examples differ in one factor alone, so no factor can be shown by itself; without factors, random "
            "examples are shown"
        )
    columns, texts = [], []
    for values, images in traversals.values():
        columns.append(mosaic.plain(mosaic.tiles(as_array(images)[None], "images"), (0.0, 1.0))[0])
        texts.append(_texts(as_array(values).tolist(), 13))
    captions = list(zip_longest(*texts, fillvalue=""))
    return mosaic.mosaic(list(zip_longest(*columns)), None, list(traversals), captions, title)


@checked()
def matrices(
    matrices: Mapping[str, Mapping[str, Any]],
    title: str | None = None,
    values: Mapping[str, Sequence[Value]] | None = None,
) -> Figure:
    """Distance matrices: a column for each factor, a row for each distance.

    Each matrix has its own colour scale, whose ends are written below it: what counts is the pattern. Unknown values
    (NaN) are white.

    Args:
        matrices: The result of `analysis.distance_matrices`. Of matrices `[members, f, f]` the mean is shown.
        title: Written above.
        values: The values of factors by name, one for each row of a matrix: some are written beside it, from the top
            down. The columns have the same order.

    >>> by_distance = {"ground truth": np.eye(3), "perceived": np.ones((3, 3))}
    >>> len(matrices({"x": by_distance}).axes)
    2
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = list(dict.fromkeys(name for by_distance in matrices.values() for name in by_distance))
    if not rows:
        raise UntwineError("there are no matrices to draw")
    columns = list(matrices)
    beside = {column: _row_labels(column, by_distance, values or {}) for column, by_distance in matrices.items()}
    # Room for the longest value beside each matrix.
    steps = [_SIDE + 0.12 + (0.05 + 0.05 * max(map(len, texts)) if texts else 0) for _, texts in beside.values()]
    ends = [*accumulate(steps, initial=0.25 + 0.08 * max(map(len, rows)))]  # first, room for the longest name of a row
    line = 0.18
    width = ends[-1] + 0.1
    lines = textwrap.wrap(title or "", int(11 * width))
    top = 0.35 + line * (len(lines) + 1)
    height = top + len(rows) * (_SIDE + 0.3) + 0.05
    figure = Figure(figsize=(width, height))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            place = (ends[j + 1] - _SIDE - 0.12, height - top - i * (_SIDE + 0.3) - _SIDE, _SIDE, _SIDE)
            axes = figure.add_axes((place[0] / width, place[1] / height, place[2] / width, place[3] / height))
            axes.set_xticks([])
            axes.set_yticks(*beside[column], fontsize=6)
            axes.tick_params(length=0, pad=2)
            if i == 0:
                axes.set_title(_short(column), fontsize=10, pad=5)
            if j == 0:
                axes.set_ylabel(mosaic.literal(row), rotation=0, ha="right", va="center", fontsize=10, labelpad=8)
            if row not in matrices[column]:
                axes.set_axis_off()
                continue
            matrix = np.asarray(matrices[column][row], np.float64)
            matrix = matrix.mean(0) if matrix.ndim == 3 else matrix
            known = matrix[np.isfinite(matrix)]
            low, high = (known.min(), known.max()) if known.size else (0.0, 0.0)
            axes.imshow(
                np.ma.masked_invalid(matrix),
                cmap=mpl.colormaps["viridis"],
                vmin=low,
                vmax=high if high > low else low + 1,
                interpolation="nearest",
            )
            axes.set_xlabel(
                f"{low:.3g} to {high:.3g}" if high > low else f"{low:.3g}", fontsize=8, labelpad=3, color="0.3"
            )
    for i, text in enumerate([*lines, "dark is close, bright is far"]):
        size, colour = (11, "black") if i < len(lines) else (8, "0.3")
        y = 1 - (0.1 + i * line) / height
        figure.text(0.5, y, mosaic.literal(text), ha="center", va="top", fontsize=size, color=colour)
    return figure


@checked()
def cumulative(importance: Importance, title: str | None = None) -> Figure:
    """The share of pairs up to each distance, by factor, with random pairs dashed (michlo2023, Figure A1).

    The further to the right a curve is, the more its factor matters. Curves that coincide are drawn as one: those
    whose mean difference is at most 2 percent of their means and of the figure's range of distances.

    Args:
        importance: The result of `analysis.factor_importance`.
        title: Written above.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    ends = [row.quantiles[end] for row in (importance.random, *importance.factors) for end in (0, -1)]
    lowest, largest = min(ends), max(ends)

    def coincide(a: Row, b: Row) -> bool:
        if a.visible != b.visible:
            return False
        difference = np.abs(np.array(a.quantiles) - np.array(b.quantiles)).mean()
        return bool(difference <= 0.02 * min(abs(a.mean), abs(b.mean), largest - lowest))

    curves: list[list[Row]] = []
    for row in importance.factors:
        same = next((rows for rows in curves if coincide(rows[0], row)), None)
        if same is None:
            curves.append([row])
        else:
            same.append(row)
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    share = np.linspace(0, 1, len(importance.random.quantiles))
    colours, styles = colormaps["tab10"].colors, ("-", "-.", ":")  # pyright: ignore[reportAttributeAccessIssue]

    def draw(row: Row, label: str, **look: Any) -> None:
        axes.step(row.quantiles, share, where="post", lw=1.8, label=label, **look)  # few distances make few steps

    for i, rows in enumerate(curves):
        draw(rows[0], _names(rows), color=colours[i % len(colours)], ls=styles[i // len(colours) % len(styles)])
    draw(importance.random, "random pairs", color="black", ls="--")
    if 0 <= lowest < largest / 2:
        axes.set_xlim(left=0)
    unit = "per element" if importance.per_element else f"summed over {importance.elements:,} elements"
    axes.set_xlabel(textwrap.fill(f"perceived distance ({importance.likelihood}, {unit})", 70))
    axes.set_ylabel("share of pairs")
    axes.set_ylim(-0.02, 1.02)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    if title is not None:
        axes.set_title(mosaic.literal(textwrap.fill(title, 60)), fontsize=11)
    return figure


def _row_labels(
    factor: str, by_distance: Mapping[str, Any], values: Mapping[str, Sequence[Value]]
) -> tuple[list[int], list[str]]:
    """The rows of a factor's matrices that are labelled, and their labels."""
    if factor not in values:
        return [], []
    size = np.shape(next(iter(by_distance.values())))[-1]
    if len(values[factor]) != size:
        raise UntwineError(f"the matrices of {factor} have {size} rows, and there are {len(values[factor])} values")
    rows = np.unique(np.linspace(0, size - 1, min(size, _LABELLED)).round().astype(int)).tolist()
    return rows, _texts([values[factor][row] for row in rows], 13)


def _texts(values: Iterable[Value], longest: int) -> list[str]:
    """Values of a factor as texts of at most so many characters."""
    return [_short(text_of(value), longest) for value in values]


def _names(rows: list[Row]) -> str:
    """The names of factors, three to a line."""
    names = [_short(row.name) for row in rows]
    return "\n".join(", ".join(names[i : i + 3]) for i in range(0, len(names), 3))


def _short(name: str, longest: int = 18) -> str:
    return mosaic.literal(name if len(name) <= longest else name[: longest - 1] + "…")
