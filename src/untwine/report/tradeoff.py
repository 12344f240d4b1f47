"""A chart of one measure against another along a sweep: means over seeds, each with its label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from untwine.arguments import checked
from untwine.errors import UntwineError
from untwine.metrics.statistics import summary
from untwine.report.measurements import Rows
from untwine.report.mosaic import SMALL, literal, titled
from untwine.report.styles import line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Corners of a point at which its label may be: right or left of it, above or below.
_CORNERS = ((1, 1), (1, -1), (-1, 1), (-1, -1))


@checked()
def tradeoff(
    rows: Rows,
    x: str,
    y: str,
    along: str,
    by: str | None = None,
    labels: Mapping[str, str] | None = None,
    title: str = "",
) -> Figure:
    """The means of two measures along a sweep, a labelled point for each value (mathieu2019, Figure 2).

    Bands are two standard errors of the measure upwards. A group without values of the sweep is a single point.

    Args:
        rows: The measurements.
        x: The measure to the right.
        y: The measure upwards.
        along: The column of the sweep, whose values label the points.
        by: The column whose values have a line each.
        labels: Words for the names of measures and columns, and for values.
        title: Written above.

    >>> rows = [{"beta": b, "seed": s, "measure": m, "value": b + s} for b in (1, 4) for s in range(3) for m in "xy"]
    >>> [text.get_text() for text in tradeoff(rows, "x", "y", along="beta").axes[0].texts]
    ['1', '4']
    """
    from matplotlib.figure import Figure

    words = labels or {}
    known = [row for row in rows if row.get("value") is not None and row.get("measure") in (x, y)]
    if not known:
        raise UntwineError(f"there is nothing to draw: no row has {x!r} or {y!r}")
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    axes = figure.subplots()
    groups = list(dict.fromkeys(row.get(by) if by else None for row in known))
    labelled: list[tuple[str, float, float, Any]] = []
    for i, group in enumerate(groups):
        colour, marker, dashes = line_style(i)
        points = _points([row for row in known if by is None or row.get(by) == group], x, y, along)
        if not points:
            continue
        places, right, up, errors = zip(*points, strict=True)
        name = "" if group is None else _word(group, words)
        line: dict[str, Any] = dict(marker=marker, markersize=4.5, linewidth=1.2, linestyle=dashes, label=name)
        axes.plot(right, up, color=colour, **line)
        if len(points) == 1:
            axes.errorbar(right, up, yerr=2 * errors[0], color=colour, capsize=2.5, linewidth=1)
        else:
            curve = sorted(zip(right, up, errors, strict=True))
            low, high = [u - 2 * e for _, u, e in curve], [u + 2 * e for _, u, e in curve]
            axes.fill_between([r for r, _, _ in curve], low, high, color=colour, alpha=0.15, linewidth=0)
        words_of = [f"{place:g}" if isinstance(place, float) else str(place) for place in places]
        drawn = zip(places, words_of, right, up, strict=True)
        labelled += [(word, r, u, colour) for place, word, r, u in drawn if place is not None]
    axes.margins(x=0.08)  # room for the labels of the outer points
    axes.autoscale_view()
    _label(axes, labelled)
    axes.set_xlabel(_word(x, words), fontsize=SMALL + 1.5)
    axes.set_ylabel(_word(y, words), fontsize=SMALL + 1.5)
    axes.tick_params(labelsize=SMALL + 0.5)
    axes.grid(color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if by is not None and len(groups) > 1:
        axes.legend(fontsize=SMALL + 0.5, frameon=False)
    note = f"labels: {_word(along, words)}; mean over seeds, band: 2 standard errors"
    figure.supxlabel(note, fontsize=SMALL - 0.5, color="0.35")
    titled(figure, title)
    return figure


def _label(axes: Axes, points: list[tuple[str, float, float, Any]]) -> None:
    """Write the label of each point at the first of its corners that is away from all labels before.

    Args:
        axes: The chart.
        points: The labels with their places and colours.
    """
    boxes: list[tuple[float, float, float]] = []  # middles of labels in typographic points, and half of their widths
    scale = axes.figure.dpi / 72  # pixels of a typographic point
    for word, x, y, colour in points:
        left, low = axes.transData.transform((x, y)) / scale
        half = 0.3 * SMALL * len(word)
        choices = [(left + (4 + half) * right, low + (3 + SMALL / 2) * up, half) for right, up in _CORNERS]
        free = [not any(abs(a - c) < h + k and abs(b - d) < SMALL for c, d, k in boxes) for a, b, h in choices]
        corner = free.index(True) if any(free) else 0
        boxes.append(choices[corner])
        right, up = _CORNERS[corner]
        sides: dict[str, Any] = dict(ha="left" if right > 0 else "right", va="bottom" if up > 0 else "top")
        place: dict[str, Any] = dict(textcoords="offset points", xytext=(4 * right, 3 * up), **sides)
        axes.annotate(word, (x, y), fontsize=SMALL, color=colour, **place)


def _points(rows: Rows, x: str, y: str, along: str) -> list[tuple[Any, float, float, float]]:
    """For each value of the sweep, in order: the value, the means of both measures, the second's standard error."""
    found = []
    values = list(dict.fromkeys(row.get(along) for row in rows))
    for value in sorted(values, key=lambda place: (place is not None, place or 0)):
        sides = [_values(rows, along, value, measure) for measure in (x, y)]
        if all(sides):
            error = summary(sides[1], resamples=1).standard_error or 0.0
            found.append((value, fmean(sides[0]), fmean(sides[1]), error))
    return found


def _values(rows: Rows, along: str, value: Any, measure: str) -> Sequence[float]:
    return [row["value"] for row in rows if row.get(along) == value and row["measure"] == measure]


def _word(name: Any, words: Mapping[str, str]) -> str:
    text = f"{name:g}" if isinstance(name, float) else str(name)
    return literal(words.get(text, text.replace("_", " ")))
