"""Instruments that explain a model or its data: arrays and functions in, arrays out. `untwine.figures` draws them."""

from untwine.analysis import distances
from untwine.analysis.aggregate import aggregate_density
from untwine.analysis.alignment import jacobian_columns, polarised_share
from untwine.analysis.attribution import attributed
from untwine.analysis.components import independent_components, principal_components
from untwine.analysis.encodings import active_dimensions, latent_ranges, magnitude_by_class, usefulness
from untwine.analysis.factors import agreement, distance_matrices, factor_traversals
from untwine.analysis.gaussian import gaussianised
from untwine.analysis.locality import (
    column_energy,
    column_spread,
    largest_share,
    nearest_regions,
    tile_regions,
)
from untwine.analysis.perception import factor_importance
from untwine.analysis.traversal import (
    decode_grid,
    latent_grid,
    latent_line,
    latent_plane,
    sparse_direction,
    traverse,
)
from untwine.namespace import directory

__all__ = [
    "active_dimensions",
    "aggregate_density",
    "agreement",
    "attributed",
    "column_energy",
    "column_spread",
    "decode_grid",
    "distance_matrices",
    "distances",
    "factor_importance",
    "factor_traversals",
    "gaussianised",
    "independent_components",
    "jacobian_columns",
    "largest_share",
    "latent_grid",
    "latent_line",
    "latent_plane",
    "latent_ranges",
    "magnitude_by_class",
    "nearest_regions",
    "polarised_share",
    "principal_components",
    "sparse_direction",
    "tile_regions",
    "traverse",
    "usefulness",
]

__dir__ = directory(__all__)
