"""Charts of rows, each a measurement with its columns: `{"method": "vae", "seed": 0, "measure": "mig", "value": 0.1}`.

Means over seeds have bands, or bars, of two standard errors. Numbers that a paper printed are hollow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from untwine.arguments import checked
from untwine.errors import UntwineError
from untwine.metrics.statistics import summary
from untwine.report.mosaic import SMALL, WIDEST, literal, titled
from untwine.report.styles import COLOURS, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]

MOST_MARKS = 9  # on an axis, with a number each


@checked()
def lines(
    rows: Rows,
    x: str,
    by: str | None = None,
    panels: str | None = "measure",
    published: Rows = (),
    log: bool = False,
    labels: Mapping[str, str] | None = None,
    title: str = "",
) -> Figure:
    """Means over seeds along a column, with bands of two standard errors: lines by group, panels by measure.

    Args:
        rows: The measurements.
        x: The column along which lines go; its values are numbers.
        by: The column whose values have a line each.
        panels: The column whose values have a panel each.
        published: Numbers of a paper, with the same columns, drawn hollow and dashed.
        log: Whether the x axis is logarithmic.
        labels: Words for the names of columns and of their values.
        title: Written above.

    >>> rows = [{"beta": b, "seed": s, "measure": "mig", "value": b + s} for b in (1.0, 2.0) for s in range(3)]
    >>> [axes.get_ylabel() for axes in lines(rows, "beta").axes]
    ['mig']
    """
    words = labels or {}
    known = [row for row in rows if row.get("value") is not None and x in row]
    figure, by_panel = _panelled(known, panels, words, title)
    groups = _values(known, by)
    for name, axes in by_panel.items():
        for i, group in enumerate(groups):
            colour, marker, dashes = line_style(i)
            looks: dict[str, Any] = dict(color=colour, marker=marker)
            curve = _along(_chosen(known, panels, name, by, group), x)
            if curve:
                places, means, errors = zip(*curve, strict=True)
                ours: dict[str, Any] = dict(markersize=4, linewidth=1.4, linestyle=dashes, label=_word(group, words))
                axes.plot(places, means, **looks, **ours)
                low, high = zip(*((m - 2 * e, m + 2 * e) for m, e in zip(means, errors, strict=True)), strict=True)
                if len(places) > 1:
                    axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
                else:  # a band has no width there
                    axes.vlines(places, low, high, color=colour, alpha=0.5)
            theirs = _along(_chosen([row for row in published if x in row], panels, name, by, group), x)
            if theirs:
                hollow: dict[str, Any] = dict(markersize=5, linewidth=1, linestyle=":", markerfacecolor="none")
                axes.plot([p[0] for p in theirs], [p[1] for p in theirs], **looks, **hollow)
        marks = sorted({row[x] for row in known})
        if log:
            _logarithmic(axes, marks)
        elif len(marks) < 10 and all(mark == int(mark) for mark in marks):
            axes.set_xticks(marks)
        axes.set_xlabel(_word(x, words), fontsize=SMALL + 1.5)
    _legend(figure, by_panel, bool(published))
    return figure


@checked()
def boxes(
    rows: Rows,
    by: str,
    panels: str | None = "measure",
    published: Rows = (),
    labels: Mapping[str, str] | None = None,
    title: str = "",
) -> Figure:
    """The value of every model, with quartiles and the mean, a row for each group (rhodes2021, Figure 5).

    Args:
        rows: The measurements.
        by: The column whose values have a row each.
        panels: The column whose values have a panel each.
        published: Numbers of a paper, with the same columns, drawn hollow.
        labels: Words for the names of columns and of their values.
        title: Written above.

    >>> rows = [{"method": "vae", "seed": s, "measure": "mig", "value": s / 4} for s in range(4)]
    >>> boxes(rows, "method").axes[0].get_yticklabels()[0].get_text()
    'vae'
    """
    words = labels or {}
    known = [row for row in rows if row.get("value") is not None and by in row]
    groups = _values(known, by)
    figure, by_panel = _panelled(known, panels, words, title, height=0.9 + 0.36 * len(groups), across=2, wide=4.4)
    style: dict[str, Any] = dict(orientation="horizontal", widths=0.55, showcaps=False, showfliers=False, zorder=1)
    style |= dict(patch_artist=True, manage_ticks=False, boxprops=dict(facecolor="0.9", edgecolor="0.6"))
    style |= dict(medianprops=dict(color="0.3", linewidth=1.2), whiskerprops=dict(color="0.6"))
    for name, axes in by_panel.items():
        for place, group in enumerate(groups):
            values = [row["value"] for row in _chosen(known, panels, name, by, group)]
            if len(values) > 2:
                axes.boxplot([values], positions=[place], **style)
            spread = [0.36 * (i * 0.618 % 1 - 0.5) for i in range(len(values))]
            heights = [place + shift for shift in spread]
            axes.scatter(sorted(values), heights, s=12, color=COLOURS[0], alpha=0.7, linewidths=0, zorder=2)
            if values:
                error = 2 * _error(values)
                axes.errorbar(
                    fmean(values), place, xerr=error, fmt="D", color=COLOURS[1], markersize=4, capsize=2, zorder=3
                )
            theirs = [row["value"] for row in _chosen(published, panels, name, by, group)]
            axes.scatter(theirs, [place] * len(theirs), s=34, facecolors="none", edgecolors="black", zorder=4)
        axes.set_yticks(range(len(groups)), [_word(group, words) for group in groups], fontsize=SMALL + 1)
        axes.set_ylim(len(groups) - 0.4, -0.6)
        axes.set_ylabel("")
        axes.set_xlabel(_word(name, words), fontsize=SMALL + 1.5)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    note = "diamond: mean ± 2 standard errors; box: quartiles" + ("; circle: the paper" if published else "")
    figure.supxlabel(note, fontsize=SMALL - 0.5, color="0.35")
    return figure


@checked()
def scatter(
    rows: Rows,
    x: str,
    y: str,
    by: str | None = None,
    same: Sequence[str] = ("seed",),
    panels: str | None = None,
    log: bool = False,
    labels: Mapping[str, str] | None = None,
    title: str = "",
) -> Figure:
    """One measure against another, a point for each model (rolinek2019, Figure 3).

    Args:
        rows: The measurements.
        x: The measure to the right.
        y: The measure upwards.
        by: The column whose values have a colour and a marker each.
        same: The columns that tell models apart.
        panels: The column whose values have a panel each.
        log: Whether the x axis is logarithmic.
        labels: Words for the names of columns and of their values.
        title: Written above.

    >>> rows = [{"seed": s, "measure": m, "value": float(s)} for s in range(3) for m in ("dto", "mig")]
    >>> scatter(rows, "dto", "mig").axes[0].get_xlabel()
    'dto'
    """
    words = labels or {}
    known = [row for row in rows if row.get("value") is not None and row["measure"] in (x, y)]
    figure, by_panel = _panelled(known, panels, words, title)
    groups = _values(known, by)
    for name, axes in by_panel.items():
        for i, group in enumerate(groups):
            colour, marker, _ = line_style(i)
            of_group = _chosen(known, panels, name, by, group)
            sides = [
                {tuple(row.get(key) for key in same): row["value"] for row in of_group if row["measure"] == measure}
                for measure in (x, y)
            ]
            pairs = [(sides[0][key], sides[1][key]) for key in sides[0] if key in sides[1]]
            if pairs:
                right, up = zip(*pairs, strict=True)
                axes.scatter(
                    right, up, s=22, color=colour, marker=marker, alpha=0.8, linewidths=0, label=_word(group, words)
                )
        if log:
            _logarithmic(axes, ())
        axes.set_xlabel(_word(x, words), fontsize=SMALL + 1.5)
        axes.set_ylabel(_word(y, words), fontsize=SMALL + 1.5)
        if panels is not None:
            axes.set_title(_word(name, words), fontsize=SMALL + 1.5)
    _legend(figure, by_panel, False)
    return figure


@checked()
def cells(
    rows: Rows,
    down: str,
    across: str,
    panels: str | None = "measure",
    published: Rows = (),
    labels: Mapping[str, str] | None = None,
    title: str = "",
) -> Figure:
    """A table of means ± standard errors over seeds, with a paper's numbers below ours in brackets.

    Args:
        rows: The measurements.
        down: The column whose values have a row each.
        across: The column whose values have a column each.
        panels: The column whose values have a table each.
        published: Numbers of a paper, with the same columns.
        labels: Words for the names of columns and of their values.
        title: Written above.

    >>> rows = [{"method": "vae", "data": "dots", "seed": s, "measure": "mig", "value": 0.5} for s in range(3)]
    >>> [text.get_text() for text in cells(rows, "method", "data").axes[0].texts]
    ['dots', 'vae', '0.5']
    """
    from matplotlib.figure import Figure

    words = labels or {}
    known = [row for row in rows if row.get("value") is not None and down in row and across in row]
    tables = _values(known, panels)
    if not known:
        raise UntwineError("there is nothing to draw: no row has the columns that are asked for")
    lines_down, lines_across = _values(known, down), _values(known, across)
    tall = 0.34 if not published else 0.46
    width = min(WIDEST, 1.8 + 1.25 * len(lines_across))
    figure = Figure(figsize=(width, len(tables) * (0.55 + tall * (1 + len(lines_down)))), layout="constrained")
    all_axes = figure.subplots(len(tables), 1, squeeze=False)[:, 0]
    for axes, table in zip(all_axes, tables, strict=True):
        axes.set_axis_off()
        axes.set(xlim=(-1.45, len(lines_across)), ylim=(len(lines_down), -1))
        axes.set_title(_word(table, words), fontsize=SMALL + 2, loc="left")
        axes.axhline(0, color="0.3", linewidth=0.8)
        for j, column in enumerate(lines_across):
            axes.text(j + 0.5, -0.5, _word(column, words), ha="center", va="center", fontsize=SMALL + 1)
        for i, line in enumerate(lines_down):
            axes.text(-1.4, i + 0.5, _word(line, words), ha="left", va="center", fontsize=SMALL + 1)
            for j, column in enumerate(lines_across):
                text = _cell(known, published, panels, table, {down: line, across: column})
                axes.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=SMALL + 0.5)
    titled(figure, title)
    if published:
        figure.supxlabel("mean ± standard error; in brackets the paper's", fontsize=SMALL - 0.5, color="0.35")
    return figure


def _cell(rows: Rows, published: Rows, panels: str | None, table: Any, where: Mapping[str, Any]) -> str:
    def fits(row: Mapping[str, Any]) -> bool:
        return (panels is None or row.get(panels) == table) and all(row.get(k) == v for k, v in where.items())

    ours = [row["value"] for row in rows if fits(row)]
    theirs = [row["value"] for row in published if fits(row)]
    text = "–"
    if ours:
        error = _error(ours)
        text = f"{fmean(ours):.3g}" + (f" ± {error:.1g}" if error else "")
    return text + (f"\n({fmean(theirs):.3g})" if theirs else "")


def _panelled(
    rows: Rows,
    panels: str | None,
    words: Mapping[str, str],
    title: str,
    height: float = 2.6,
    across: int = 3,
    wide: float = 3.4,
) -> tuple[Figure, dict[Any, Axes]]:
    """A figure with a pair of axes for each value of a column."""
    from matplotlib.figure import Figure

    names = _values(rows, panels)
    if not rows:
        raise UntwineError("there is nothing to draw: no row has the columns that are asked for")
    shown = min(across, len(names))
    down = math.ceil(len(names) / shown)
    figure = Figure(figsize=(min(WIDEST, wide * shown + 0.4), height * down + 0.5), layout="constrained")
    all_axes = figure.subplots(down, shown, squeeze=False).ravel()
    for axes in all_axes[len(names) :]:
        axes.remove()
    for axes, name in zip(all_axes, names, strict=False):
        axes.set_ylabel(_word(name, words), fontsize=SMALL + 1.5)
        axes.tick_params(labelsize=SMALL + 0.5)
        axes.grid(color="0.92", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    titled(figure, title)
    return figure, dict(zip(names, all_axes, strict=False))


def _legend(figure: Figure, by_panel: Mapping[Any, Axes], published: bool) -> None:
    """The groups' names below all panels, where there are several, and what is hollow."""
    from matplotlib.lines import Line2D

    entries: dict[str, Any] = {}
    for axes in by_panel.values():
        handles, names = axes.get_legend_handles_labels()
        entries |= {name: handle for name, handle in zip(names, handles, strict=True) if name}
    if len(entries) < 2:
        entries = {}
    if published:
        entries["the paper"] = Line2D(
            [], [], color="0.3", marker="o", markerfacecolor="none", linestyle=":", linewidth=1
        )
    if entries:
        # A letter is about .075 inches wide, a handle with its space as six of them.
        fitting = int(figure.get_figwidth() / 0.075 / (max(map(len, entries)) + 6))
        style: dict[str, Any] = dict(ncols=max(1, min(len(entries), 5, fitting)), fontsize=SMALL + 0.5, frameon=False)
        figure.legend(list(entries.values()), list(entries), loc="outside lower center", **style)


def _logarithmic(axes: Axes, places: Sequence[float]) -> None:
    """A logarithmic x axis, with the places themselves as its marks where these are few."""
    from matplotlib.ticker import NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())  # numbers between powers of ten would overlap
    if 1 < len(places) <= MOST_MARKS:
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.minorticks_off()


def _values(rows: Rows, column: str | None) -> list[Any]:
    """The different values of a column, in their order; a single None for no column."""
    return [None] if column is None else list(dict.fromkeys(row[column] for row in rows if column in row))


def _chosen(rows: Rows, panels: str | None, panel: Any, by: str | None, group: Any) -> list[Mapping[str, Any]]:
    return [
        row for row in rows if (panels is None or row.get(panels) == panel) and (by is None or row.get(by) == group)
    ]


def _along(rows: Rows, x: str) -> list[tuple[float, float, float]]:
    """Places along a column, each with the mean and its standard error."""
    places: dict[float, list[float]] = {}
    for row in rows:
        places.setdefault(row[x], []).append(row["value"])
    return [(place, fmean(values), _error(values)) for place, values in sorted(places.items())]


def _error(values: Sequence[float]) -> float:
    """The standard error of a mean; 0 for one value."""
    return summary(values, resamples=1).standard_error or 0.0


def _word(name: Any, words: Mapping[str, str]) -> str:
    if name is None:
        return ""
    text = f"{name:g}" if isinstance(name, float) else str(name)
    return literal(words.get(text, text.replace("_", " ")))
