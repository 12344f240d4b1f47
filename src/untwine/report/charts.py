"""Charts: magnitudes of latents by class, densities of the aggregate posterior, information, scores by method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from untwine.analysis import aggregate, arrays, encodings
from untwine.arguments import checked
from untwine.checks import as_array
from untwine.errors import UntwineError
from untwine.metrics.statistics import LEAST_FOR_INTERVAL
from untwine.report import mosaic
from untwine.report.mosaic import SMALL, WIDEST, Names, literal, texts, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE = "#0072B2", "#D55E00"


@checked()
def magnitudes(
    table: ArrayLike | encodings.ByClass, names: Names | None = None, threshold: float | None = None, title: str = ""
) -> Figure:
    """The mean magnitude of each latent for each class (mathieu2019, Figure 5, top).

    Args:
        table: The result of `analysis.magnitude_by_class`, or an array `[classes, d]`.
        names: The names of the classes; a result has them already.
        threshold: Latents whose magnitude is above it are active and coloured.
        title: Written above.

    >>> by_class = encodings.magnitude_by_class([[1.0, 0.0], [0.0, 2.0]], ["shirt", "dress"])
    >>> [axes.get_ylabel() for axes in magnitudes(by_class, threshold=0.5).axes]
    ['dress', 'shirt']
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if isinstance(table, encodings.ByClass):
        names = table.classes if names is None else names
        table = table.values
    values = arrays.finite_array(table, "magnitudes", 2)
    if values.ndim != 2:
        raise UntwineError(f"magnitudes have shape {list(values.shape)}; they must be [classes, d], of one member")
    if threshold is not None and not threshold >= 0:
        raise UntwineError(f"threshold is a magnitude, 0 or more, not {threshold!r}")
    classes, latents = values.shape
    limits = [] if threshold is None else [-threshold, threshold] if (values < 0).any() else [threshold]
    labels = texts(range(classes) if names is None else names, classes, "names", "class ")
    width = min(WIDEST, max(4.0, 0.16 * latents + 1))
    figure = Figure(figsize=(width, 0.5 + max(0.75 * classes, 1.2)), layout="constrained")
    stacked = figure.subplots(classes, 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, row, label in zip(stacked, values, labels, strict=True):
        active = np.ones(latents, bool) if threshold is None else np.abs(row) > threshold
        axes.bar(np.arange(latents), row, width=0.8, color=np.where(active, BLUE, "0.75").tolist())
        axes.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=SMALL + 1)
        axes.tick_params(labelsize=SMALL)
        axes.spines[["top", "right"]].set_visible(False)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.yaxis.set_major_locator(MaxNLocator(2, steps=[1, 2, 5, 10]))
        for limit in limits:
            axes.axhline(limit, color=ORANGE, linewidth=0.8, linestyle="--")
    stacked[-1].set_xlabel("latent", fontsize=SMALL + 1)
    stacked[-1].xaxis.set_major_locator(MaxNLocator(12, steps=[1, 2, 5, 10], integer=True))
    stacked[-1].set_xlim(-0.7, latents - 0.3)
    titled(figure, title)
    return figure


@checked()
def density(
    result: aggregate.Density,
    samples: ArrayLike | None = None,
    titles: Sequence[str] | None = None,
    across: int = 4,
    common: bool = True,
    title: str = "",
) -> Figure:
    """The density of the aggregate posterior in two latents, a panel for each member (mathieu2019, Figure 3).

    Both latents share one scale unless the range of one is more than three times that of the other.

    Args:
        result: The result of `analysis.aggregate_density`.
        samples: Points to draw, `[n, 2]` or `[members, n, 2]`.
        titles: A title for each panel.
        across: The most panels in one row.
        common: Whether all panels share one colour scale, from 0 to the largest density of all.
        title: Written above.

    >>> result = aggregate.aggregate_density(np.zeros((2, 5, 2)), np.ones((2, 5, 2)))
    >>> [axes.get_ylabel() for axes in density(result).axes]
    ['z1', '', 'density']
    """
    from matplotlib.figure import Figure

    values = result.values.reshape(-1, *result.values.shape[-2:])
    count = len(values)
    headings = [""] * count if titles is None else texts(titles, count, "titles")
    points = None if samples is None else arrays.finite_array(samples, "samples", 2)
    if points is not None and (points.ndim > 3 or points.shape[-1] != 2 or points.shape[:-2] not in ((), (count,))):
        raise UntwineError(f"samples have shape {list(points.shape)}; they must be [n, 2] or [{count}, n, 2]")
    shown = min(mosaic.positive(across), count)
    rows = -(-count // shown)
    tall = float(np.ptp(result.y) / np.ptp(result.x))
    tall = tall if 1 / 3 <= tall <= 3 else 1.0
    side = min(3.2, WIDEST / shown)
    size = side * shown * min(1, 1 / tall) + 0.8, side * rows * min(1, tall) + 0.3
    figure = Figure(figsize=size, layout="compressed")
    panels = figure.subplots(rows, shown, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels[count:]:
        axes.remove()
    for i, (axes, panel) in enumerate(zip(panels, values, strict=False)):
        top = float((values if common else panel).max())
        style = dict(cmap="viridis", vmin=0, vmax=top or 1, shading="nearest", rasterized=True)
        mesh = axes.pcolormesh(result.x, result.y, panel, **style)
        if points is not None:
            x, y = (points if points.ndim == 2 else points[i]).T
            axes.scatter(x, y, s=4, color="white", edgecolors="black", linewidths=0.3, alpha=0.8)
            axes.set(xlim=(result.x[0], result.x[-1]), ylim=(result.y[0], result.y[-1]))
        axes.set_box_aspect(tall)
        axes.locator_params(nbins=5)
        axes.set_title(headings[i], fontsize=SMALL + 1.5)
        axes.tick_params(labelsize=SMALL)
        if i + shown >= count:
            axes.set_xlabel(f"z{result.latents[0]}", fontsize=SMALL + 1)
            axes.tick_params(labelbottom=True)  # also where panels below are missing
        if i % shown == 0:
            axes.set_ylabel(f"z{result.latents[1]}", fontsize=SMALL + 1)
        if not common or i == count - 1:
            bar = figure.colorbar(mesh, ax=list(panels[:count]) if common else axes, aspect=25)
            bar.set_label("density", fontsize=SMALL + 1)
            bar.ax.tick_params(labelsize=SMALL)
    titled(figure, title)
    return figure


@checked()
def information(
    table: ArrayLike,
    factors: Names | None = None,
    latents: ArrayLike | None = None,
    titles: Sequence[str] | None = None,
    across: int = 3,
    title: str = "",
) -> Figure:
    """What each latent says about each factor: a row for each latent, a panel for each model.

    Args:
        table: `[latents, factors]` or `[models, latents, factors]`: I(latent; factor), in nats or as shares of the
            factors' entropies. All panels share one colour scale, from 0 to the largest value, or to 1 for shares.
        factors: The names of the factors.
        latents: The latents in the order of the rows, `[latents]` or `[models, latents]`; None numbers them from 0.
        titles: A title for each panel.
        across: The most panels in one row.
        title: Written above.

    >>> panel = information([[0.9, 0.0], [0.1, 0.5]], ["x", "y"]).axes[0]
    >>> [text.get_text() for text in panel.texts], [label.get_text() for label in panel.get_yticklabels()]
    (['0.90', '0.00', '0.10', '0.50'], ['z0', 'z1'])
    """
    from matplotlib.figure import Figure

    values = arrays.finite_array(table, "information", 2)
    if values.ndim > 3:
        raise UntwineError(f"information has shape {list(values.shape)}; it must be [models, latents, factors]")
    values = values.reshape(-1, *values.shape[-2:])
    count, rows, columns = values.shape
    names = texts(range(columns) if factors is None else factors, columns, "factors", "factor ")
    numbers = np.arange(rows) if latents is None else mosaic.integers(latents, "latents")
    numbers = mosaic.matching(numbers, (count, rows), "latents").astype(int)
    headings = [""] * count if titles is None else texts(titles, count, "titles")
    shown = min(mosaic.positive(across), count)
    down = -(-count // shown)
    wide, tall = min(WIDEST / shown, 0.55 * columns + 0.6), 0.24 * rows + 0.9
    figure = Figure(figsize=(wide * shown + 0.3, tall * down + 0.2), layout="constrained")
    panels = figure.subplots(down, shown, squeeze=False).ravel()
    top = max(1.0, float(values.max()))
    for axes in panels[count:]:
        axes.remove()
    for axes, panel, latent, heading in zip(panels, values, numbers, headings, strict=False):
        axes.imshow(panel, cmap="viridis", vmin=0, vmax=top, aspect="auto", interpolation="nearest")
        for row, column in np.ndindex(rows, columns):
            dark = panel[row, column] < 0.6 * top
            style: dict[str, Any] = dict(ha="center", va="center", fontsize=SMALL - 0.5)
            axes.text(column, row, f"{panel[row, column]:.2f}", color="white" if dark else "#010101", **style)
        longest = max(map(len, names))
        turned: dict[str, Any] = dict(rotation=35, ha="right", rotation_mode="anchor") if longest > 6 else {}
        axes.set_xticks(range(columns), names, fontsize=SMALL, **turned)
        axes.set_yticks(range(rows), [f"z{number}" for number in latent], fontsize=SMALL)
        axes.tick_params(length=0)
        axes.set_title(heading, fontsize=SMALL + 1.5)
        axes.spines[:].set_visible(False)
    titled(figure, title)
    return figure


@checked()
def scores(values: Mapping[str, ArrayLike], label: str = "score", errors: float = 2.0, title: str = "") -> Figure:
    """The scores of every model by method (rhodes2021, Figure 5): the models, their quartiles, mean and interval.

    Scores that are not finite come from models that diverged: they are left out, and their number is written. One or
    two models have no interval: two are their range.

    Args:
        values: The scores of each method's models, by the name of the method.
        label: The name of the metric.
        errors: The interval of the mean reaches this many standard errors to both sides.
        title: Written above.

    >>> scores({"β-VAE": [0.05, 0.06], "JL1-VAE": [0.12, 0.13]}, "local MIG").axes[0].get_xlabel()
    'local MIG'
    """
    from matplotlib.figure import Figure

    if not values:
        raise UntwineError("there are no scores to show")
    figure = Figure(figsize=(6.0, 1.1 + 0.42 * len(values)), layout="constrained")
    axes = figure.subplots()
    boxes: dict[str, Any] = dict(orientation="horizontal", widths=0.6, showcaps=False, showfliers=False, zorder=1)
    boxes |= dict(patch_artist=True, manage_ticks=False, boxprops=dict(facecolor="0.9", edgecolor="0.6"))
    boxes |= dict(medianprops=dict(color="0.3", linewidth=1.2), whiskerprops=dict(color="0.6"))
    means: dict[str, Any] = dict(fmt="D", color=ORANGE, markersize=4, capsize=2.5, linewidth=1.3, zorder=3)
    names = []
    for place, (name, of_models) in enumerate(values.items()):
        every = np.atleast_1d(as_array(of_models)).astype(np.float64).ravel()
        finite = every[np.isfinite(every)]
        names.append(literal(name) + (f"\n({len(every) - len(finite)} left out)" if len(finite) < len(every) else ""))
        if not len(finite):
            continue
        if len(finite) > 2:
            axes.boxplot([finite], positions=[place], **boxes)
        spread = np.argsort(np.argsort(finite)) * 0.618 % 1  # neighbours lie apart
        spread = 0.4 * (spread - spread.mean())
        axes.scatter(finite, place + spread, s=13, color=BLUE, alpha=0.7, linewidths=0, zorder=2)
        several = len(finite) >= LEAST_FOR_INTERVAL
        error = errors * finite.std(ddof=1) / np.sqrt(len(finite)) if several else 0.0
        axes.errorbar(finite.mean(), place, xerr=error, **means)
    axes.set_yticks(range(len(names)), names, fontsize=SMALL + 1.5)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set_xlabel(literal(label), fontsize=SMALL + 1.5)
    figure.supxlabel(f"diamond: mean ± {errors:g} standard errors; box: quartiles", fontsize=SMALL - 0.5, color="0.35")
    axes.tick_params(axis="x", labelsize=SMALL + 0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    titled(figure, title)
    return figure
