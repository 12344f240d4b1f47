"""Sections about codes: the aggregate posterior, what latents know about factors, distances."""

from __future__ import annotations

import numpy as np

from untwine.analysis import aggregate_density, distance_matrices, distances
from untwine.errors import UntwineError
from untwine.metrics.families.information import entropy, labels
from untwine.report import figures
from untwine.report.page.contents import Contents, Pictured
from untwine.report.page.html import Markup, joined, paragraph, tag
from untwine.report.page.pictures import chart

MOST_LATENTS = 12
BINS = 20  # of a latent in its mutual information
TRAVERSALS = 10  # of each factor, over which distances are averaged
LONGEST = 24  # values of a factor in a matrix of distances


def aggregate(contents: Contents) -> Markup | None:
    """The density of the aggregate posterior in the two most useful latents of each shown model."""
    charts = []
    for one, i in contents.models():
        looks = one.looks
        if looks.means.shape[-1] < 2:
            continue
        first, second = sorted(int(latent) for latent in looks.useful[0][i, :2])
        density = aggregate_density(looks.means[i], looks.variances[i], (first, second))
        figure = figures.density(density, titles=[contents.label(one.case, looks.seeds[i])])
        charts.append(chart(figure, f"aggregate posterior of {one.case.label} in z{first} and z{second}"))
    if not charts:
        return None
    note = "The mean of the posteriors of many examples, q(z), in the two latents of each model that are used most."
    return joined([tag("div", *charts, class_="grid"), paragraph(note, quiet=True)])


def information(contents: Contents) -> Markup | None:
    """The share of each factor's entropy that each latent of the shown models knows."""
    charts, floor = [], 0.0
    for one, i in contents.models():
        if one.looks.information is None:
            continue
        table, names = one.looks.information
        count = min(MOST_LATENTS, table.shape[1])
        title = contents.label(one.case, one.looks.seeds[i])
        figure = figures.information(table[i, :count], names, one.looks.useful[0][i, :count], [title])
        charts.append(chart(figure, f"information of the latents of {one.case.label} about factors"))
        floor = max(floor, _floor(one))
    if not charts:
        return None
    note = (
        "I(latent; factor) / H(factor), latents in the order of their use. A factor that one latent alone knows has a "
        "single bright cell in its column; the gap to the second brightest is what MIG averages. Latents that know "
        f"nothing would show about {floor:.2g}, since counts in bins are never exactly even."
    )
    return joined([tag("div", *charts, class_="grid"), paragraph(note, quiet=True)])


def _floor(one: Pictured) -> float:
    """What independent codes would show: the bias of the estimate, (bins - 1) (values - 1) / 2n, over H(factor)."""
    factors = one.looks.factors
    if factors is None:
        return 0.0
    values, sizes = labels(factors)
    entropies = [float(entropy(np.bincount(column))) for column in values.T]
    pairs = zip(sizes, entropies, strict=True)
    return max(((BINS - 1) * (size - 1) / (2 * len(values) * nats) for size, nats in pairs if nats > 0), default=0.0)


def distance(contents: Contents) -> Markup | None:
    """Matrices of distances along each factor: true, perceived, and between the codes of a model of each case."""
    drawn = []
    for one in contents.looked_at:
        space = one.looks.dataset.factors
        if space is None or not one.looks.has_images:
            continue
        likelihood = one.looks.ensemble.members[0].objective.likelihood
        measured = {
            "true": distances.ground_truth(space.kinds, space.sizes),
            "perceived": distances.perceived(likelihood),
            "codes": distances.latent(lambda x, looks=one.looks: looks.ensemble.encode(x)[0].numpy()),
        }
        try:
            matrices = distance_matrices(one.looks.dataset, measured, TRAVERSALS, longest=LONGEST)
        except UntwineError:  # no two examples differ in one factor alone, say
            continue
        figure = figures.matrices(matrices, title=contents.label(one.case, one.looks.seeds[0]))
        drawn.append(
            tag("div", chart(figure, f"distances along the factors, {one.case.label}"), class_="scroll", tabindex="0")
        )
    if not drawn:
        return None
    note = (
        "Distances between images in which one factor alone changes, from its first value to its last: between the "
        "values themselves, by the reconstruction loss (perceived, michlo2023), and between the model's codes."
    )
    return joined([*drawn, paragraph(note, quiet=True)])
