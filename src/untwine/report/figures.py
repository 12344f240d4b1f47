"""Every figure by its name, and `save`: `untwine.figures.save(untwine.figures.scores(values), "scores.png")`.

Each function takes arrays, or a result of `untwine.analysis`, and returns a matplotlib `Figure` that no window shows.
Readers with any kind of colour vision can tell the colours apart (Okabe and Ito 2008; Brewer's red to blue; viridis).
"""

from untwine.namespace import directory
from untwine.report.charts import density, information, magnitudes, scores
from untwine.report.curves import curves
from untwine.report.images import columns, images, reconstructions, traversals
from untwine.report.measurements import boxes, cells, lines, scatter
from untwine.report.overlap import overlap
from untwine.report.perception import cumulative, factor_traversals, matrices
from untwine.report.planes import planes
from untwine.report.saving import save
from untwine.report.tradeoff import tradeoff

__all__ = [
    "boxes",
    "cells",
    "columns",
    "cumulative",
    "curves",
    "density",
    "factor_traversals",
    "images",
    "information",
    "lines",
    "magnitudes",
    "matrices",
    "overlap",
    "planes",
    "reconstructions",
    "save",
    "scatter",
    "scores",
    "tradeoff",
    "traversals",
]

__dir__ = directory(__all__)
