"""Drawings that are more than a chart of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from untwine import analysis, data
from untwine.data.moments import fixed_subset
from untwine.experiments.engine.contract import Outcome
from untwine.experiments.michlo2023.measured import importance, levels, matrices, states
from untwine.experiments.michlo2023.models import SCORES, Data, Framework, spec
from untwine.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def of_data(function: Callable[..., Figure], *arguments: Any) -> Callable[[Outcome], Figure]:
    """A drawing of data alone, by a function of these arguments."""
    return lambda outcome: function(*arguments)


def of_traversals(name: Data, rendered: bool, steps: int = 8) -> Figure:
    """A column of images for each factor of a dataset."""
    return figures.factor_traversals(analysis.factor_traversals(data.build(spec(name, rendered)), steps), title=name)


def of_matrices(name: Data, rendered: bool, traversals: int, seed: int, wrap: bool) -> Figure:
    """Ground-truth and perceived distances along each factor of a dataset."""
    return figures.matrices(matrices(name, rendered, None, traversals, seed, wrap), title=name)


def of_levels(outcome: Outcome, columns: Mapping[str, Any], traversals: int, title: str) -> Figure:
    """Distances along each factor at every level of a network, the mean over seeds."""
    return figures.matrices(levels(outcome.trained(**columns), traversals), title)


def of_importance(name: Data, rendered: bool, pairs: int) -> Figure:
    """The share of pairs up to each distance, by factor."""
    return figures.cumulative(importance(name, rendered, pairs), title=name)


def of_overlaps(spacings: tuple[int, ...]) -> Figure:
    """Distances along a factor of XYSquares, a column for each spacing."""
    by_spacing = {f"{spacing} px": matrices("XYSquares", False, spacing, 1, 0, False)["x_R"] for spacing in spacings}
    return figures.matrices(by_spacing, title="XYSquares: spacing of positions")


def of_posteriors(outcome: Outcome, betas: tuple[float, ...]) -> Figure:
    """The posteriors of five neighbouring states, under weak and strong regularisation."""
    means, variances = [], []
    for beta in (betas[0], betas[-1]):
        every, _, mean, variance = states(outcome.trained(beta=beta))
        row = (every[:, 1] == every[:, 1].max() // 2) & (np.abs(every[:, 0] - every[:, 0].max() // 2) <= 2)
        means.append(mean[0, row])
        variances.append(variance[0, row])
    density = analysis.aggregate_density(np.stack(means), np.stack(variances))
    return figures.density(density, titles=[f"β = {beta:g}" for beta in (betas[0], betas[-1])], common=False)


def of_latents(outcome: Outcome, beta: float, shown: int) -> Figure:
    """Traversals of the most useful latents of the first model."""
    chosen = outcome.trained(beta=beta)
    images = chosen.dataset.batch(fixed_subset(chosen.dataset, 1_000))
    means, variances = (function(images)[0].numpy() for function in (chosen.ensemble.encode, chosen.ensemble.variances))
    order, ranges = analysis.usefulness(means, variances)[0][:shown], analysis.latent_ranges(means, variances)
    decode = lambda codes: chosen.ensemble.decode(codes)[0].numpy()
    pictures = analysis.traverse(decode, means[0], ranges, 8, order)
    return figures.traversals(pictures.clip(0, 1), order, ranges[order], title=f"β-VAE on XYSquares, β = {beta:g}")


def of_scores(outcome: Outcome, by: str, framework: Framework) -> Figure:
    """Every model's MIG and DCI by a column, of one framework."""
    rows = outcome.rows.where(measure=list(SCORES), framework=framework)
    return figures.boxes(rows, by, labels=SCORES, title=framework)
