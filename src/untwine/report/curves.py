"""Curves of training: every logged term over the steps, with its spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from untwine.arguments import checked
from untwine.errors import UntwineError, refuse_unknown
from untwine.report.mosaic import SMALL, WIDEST, literal, positive, titled
from untwine.report.styles import line_style
from untwine.train.folders.history import Course, History, courses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 400  # of a curve: more cannot be told apart
WIDE_RANGE = 20.0  # the largest over the smallest value, from which on the axis is logarithmic


@checked("histories")
def curves(
    histories: Mapping[str, History] | History,
    terms: Sequence[str] | None = None,
    across: int = 3,
    legend: bool = True,
    title: str = "",
) -> Figure:
    """Every logged term over the steps of training: the mean over members, and a band from the least to the largest.

    A term whose values are all positive and differ by more than a factor of twenty has a logarithmic axis.

    Args:
        histories: `ensemble.history`, or the histories of several runs by name.
        terms: The terms to draw, a panel each; None draws every term.
        across: The most panels in one row.
        legend: Whether the names of several runs are written below.
        title: Written above.

    >>> history = [{"step": step, "members": {"seed-0": {"loss": 1.0 / step}}} for step in (100, 200)]
    >>> [axes.get_title() for axes in curves(history).axes]
    ['loss']
    """
    from matplotlib.figure import Figure

    named = histories if isinstance(histories, Mapping) else {"": histories}
    by_run = {name: courses(history) for name, history in named.items()}
    logged = list(dict.fromkeys(term for of_run in by_run.values() for term in of_run))
    if not logged:
        raise UntwineError("nothing was logged: there are no curves to draw")
    wanted = logged if terms is None else [term.replace("-", "_") for term in terms]
    refuse_unknown("term of the log:", wanted, logged)
    shown = min(positive(across), len(wanted))
    down = math.ceil(len(wanted) / shown)
    figure = Figure(figsize=(min(WIDEST, 3.4 * shown + 0.2), 2.3 * down + 0.3), layout="constrained")
    panels = figure.subplots(down, shown, squeeze=False).ravel()
    for axes in panels[len(wanted) :]:
        axes.remove()
    for axes, term in zip(panels, wanted, strict=False):
        _panel(axes, term, {name: of_run[term] for name, of_run in by_run.items() if term in of_run}, list(by_run))
    if legend and len(by_run) > 1:
        handles: dict[str, Any] = {}
        for axes in panels[: len(wanted)]:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        style: dict[str, Any] = dict(ncols=min(len(handles), 4), fontsize=SMALL + 0.5, frameon=False)
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", **style)
    titled(figure, title)
    return figure


def _panel(axes: Axes, term: str, by_run: Mapping[str, Course], runs: Sequence[str]) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    smallest, largest = math.inf, -math.inf
    for name, course in by_run.items():
        colour, _, dashes = line_style(runs.index(name))
        steps, mean, low, high = _band(course)
        if not len(steps):
            continue
        marker = "o" if len(steps) == 1 else None  # a single line of the log
        axes.plot(steps, mean, color=colour, linestyle=dashes, marker=marker, linewidth=1.3, label=literal(name))
        if len(course.members) > 1:
            axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
        smallest, largest = min(smallest, float(low.min())), max(largest, float(high.max()))
    if smallest > 0 and largest > WIDE_RANGE * smallest:
        axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 20k
    axes.set_title(literal(term.replace("_", " ")), fontsize=SMALL + 1.5)
    axes.set_xlabel("step", fontsize=SMALL + 0.5)
    axes.tick_params(labelsize=SMALL)
    axes.grid(color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _band(course: Course) -> tuple[np.ndarray, ...]:
    """Steps, and at each the mean, the least and the largest value of the members that have one.

    Neighbouring steps of a long course are averaged first, so that no curve has more than `MOST_POINTS` points.
    """
    steps, values = course.steps, course.values
    if len(steps) > MOST_POINTS:
        size = math.ceil(len(steps) / MOST_POINTS)
        starts = range(0, len(steps), size)
        steps = np.array([steps[start : start + size][-1] for start in starts])
        values = np.stack([_mean(values[:, start : start + size], 1) for start in starts], 1)
    known = np.isfinite(values).any(0)
    steps, values = steps[known], values[:, known]
    if not len(steps):
        return steps, *np.empty((3, 0))
    return steps, _mean(values, 0), np.nanmin(values, 0), np.nanmax(values, 0)


def _mean(values: Float64[np.ndarray, "members steps"], axis: int) -> Float64[np.ndarray, " n"]:
    """The mean of the values that are finite; NaN where there are none."""
    known = np.isfinite(values)
    count = known.sum(axis)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis) / np.maximum(count, 1), np.nan)
