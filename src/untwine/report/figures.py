"""Every figure by its name, and `save`: `untwine.figures.save(untwine.figures.scores(values), "scores.png")`.

Each function takes arrays, or a result of `untwine.analysis`, and returns a matplotlib `Figure` that no window shows.
Readers with any kind of colour vision can tell the colours apart (Okabe and Ito 2008; Brewer's red to blue; viridis).
"""

from untwine.namespace import directory
from untwine.report.charts import density, magnitudes, scores
from untwine.report.images import columns, images, traversals
from untwine.report.measurements import boxes, cells, lines, scatter
from untwine.report.perception import cumulative, factor_traversals, matrices
from untwine.report.saving import save

__all__ = [
    "boxes",
    "cells",
    "columns",
    "cumulative",
    "density",
    "factor_traversals",
    "images",
    "lines",
    "magnitudes",
    "matrices",
    "save",
    "scatter",
    "scores",
    "traversals",
]

__dir__ = directory(__all__)
