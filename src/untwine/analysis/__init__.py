"""Instruments that explain a model or its data: arrays and functions in, arrays out. `untwine.figures` draws them."""

from untwine.analysis import distances
from untwine.analysis.aggregate import density
from untwine.analysis.alignment import jacobian_columns, polarised_share
from untwine.analysis.encodings import active_dimensions, magnitude_by_class
from untwine.analysis.gaussian import gaussianised
from untwine.analysis.perception import distance_matrices, importance
from untwine.analysis.traversal import along, decoded, grid, ranges, sparse_direction, traverse, two, usefulness
from untwine.analysis.walks import factor_traversals

__all__ = [
    "active_dimensions",
    "along",
    "decoded",
    "density",
    "distance_matrices",
    "distances",
    "factor_traversals",
    "gaussianised",
    "grid",
    "importance",
    "jacobian_columns",
    "magnitude_by_class",
    "polarised_share",
    "ranges",
    "sparse_direction",
    "traverse",
    "two",
    "usefulness",
]
