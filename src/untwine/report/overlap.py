"""A chart of encodings along one latent: how they overlap, and how together they fill the prior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from untwine.analysis.overlap import LatentDensities
from untwine.arguments import checked
from untwine.errors import UntwineError
from untwine.report.mosaic import SMALL, WIDEST, positive, texts, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGGREGATE = "#D55E00"


@checked()
def overlap(
    results: Sequence[LatentDensities],
    titles: Sequence[str] | None = None,
    apart: Sequence[bool] | None = None,
    across: int = 3,
    title: str = "",
) -> Figure:
    """Posteriors along one latent, a panel for each model (mathieu2019, Figure 1).

    Each posterior is a curve of its own colour, relative to its peak, or, where `apart` is False, only the aggregate
    posterior is shown, beside the prior, as densities.

    Args:
        results: Results of `analysis.latent_densities`.
        titles: A title for each panel.
        apart: For each panel, whether posteriors are shown one by one; None shows them so in all.
        across: The most panels in one row.
        title: Written above.

    >>> from untwine.analysis import latent_densities
    >>> figure = overlap([latent_densities([[0.0], [1.0]], [[1.0], [0.1]])])
    >>> len(figure.axes[0].lines)
    2
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    if not results:
        raise UntwineError("there are no posteriors to show")
    count = len(results)
    headings = [""] * count if titles is None else texts(titles, count, "titles")
    single = [True] * count if apart is None else list(apart)
    if len(single) != count:
        raise UntwineError(f"there are {len(single)} values of apart, but {count} panels")
    shown = min(positive(across), count)
    rows = -(-count // shown)
    figure = Figure(figsize=(min(WIDEST, 3.0 * shown), 1.9 * rows + 0.3), layout="constrained")
    panels = figure.subplots(rows, shown, squeeze=False).ravel()
    for axes in panels[count:]:
        axes.remove()
    for axes, result, heading, one_by_one in zip(panels, results, headings, single, strict=False):
        if one_by_one:
            order = result.z[result.posteriors.argmax(1)].argsort()
            for place, number in enumerate(order):
                colour = colormaps["viridis"](0.9 * place / max(1, len(order) - 1))
                curve = result.posteriors[number] / result.posteriors[number].max()
                axes.plot(result.z, curve, color=colour, linewidth=1.2)
                axes.fill_between(result.z, curve, color=colour, alpha=0.12, linewidth=0)
            axes.set_ylabel("q(z | x) / its peak", fontsize=SMALL + 1)
        else:
            axes.plot(result.z, result.aggregate, color=AGGREGATE, linewidth=1.4, label="q(z)")
            if result.prior is not None:
                axes.plot(result.z, result.prior, color="black", linewidth=1.2, linestyle="--", label="p(z)")
            axes.legend(fontsize=SMALL, frameon=False)
            axes.set_ylabel("density", fontsize=SMALL + 1)
        axes.set_title(heading, fontsize=SMALL + 1.5)
        axes.set_xlabel("z", fontsize=SMALL + 1)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=SMALL)
        axes.spines[["top", "right"]].set_visible(False)
    titled(figure, title)
    return figure
