"""Instruments that explain a model or its data: arrays and functions in, arrays out. `untwine.figures` draws them."""

from untwine.analysis import distances
from untwine.analysis.aggregate import aggregate_density
from untwine.analysis.alignment import jacobian_columns, polarised_share
from untwine.analysis.encodings import active_dimensions, latent_ranges, magnitude_by_class, usefulness
from untwine.analysis.factors import distance_matrices, factor_traversals
from untwine.analysis.gaussian import gaussianised
from untwine.analysis.perception import factor_importance
from untwine.analysis.rotations import alignment_angle, encoder_stages, excess, least_noise, turned
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
    "alignment_angle",
    "decode_grid",
    "distance_matrices",
    "distances",
    "encoder_stages",
    "excess",
    "factor_importance",
    "factor_traversals",
    "gaussianised",
    "jacobian_columns",
    "latent_grid",
    "latent_line",
    "latent_plane",
    "latent_ranges",
    "least_noise",
    "magnitude_by_class",
    "polarised_share",
    "sparse_direction",
    "traverse",
    "turned",
    "usefulness",
]

__dir__ = directory(__all__)
