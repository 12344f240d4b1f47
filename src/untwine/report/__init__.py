"""Pictures of what models do: functions from arrays to figures, and `save`."""

from untwine.report.figures import columns, density, images, magnitudes, save, scores, traversals
from untwine.report.perception import cumulative, factor_traversals, matrices

__all__ = [
    "columns",
    "cumulative",
    "density",
    "factor_traversals",
    "images",
    "magnitudes",
    "matrices",
    "save",
    "scores",
    "traversals",
]
