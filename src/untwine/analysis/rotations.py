"""How a linear decoder turns its latents: the steps of its singular value decomposition, and what a rotation costs.

rolinek2019, sections 2.3 and 4: rotations of the latents leave a reconstruction as it is, but not the noise that a
diagonal posterior adds to it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from untwine.analysis.arrays import finite_array
from untwine.arguments import checked
from untwine.errors import UntwineError


class Stages(NamedTuple):
    """Points on their way through a linear encoder V S^-1 U^T: turned by U^T, scaled by S^-1, turned by V."""

    aligned: Float64[np.ndarray, "*points latent"]
    scaled: Float64[np.ndarray, "*points latent"]
    turned: Float64[np.ndarray, "*points latent"]


@checked()
def encoder_stages(jacobian: ArrayLike, points: ArrayLike) -> Stages:
    """The points after each step of the linear encoder that inverts a decoder (rolinek2019, Figure 1).

    The decoder is J = U S V^T, and its pseudoinverse V S^-1 U^T. The first two steps keep the principal directions on
    the axes; the last one is trivial where the columns of J are orthogonal. Columns of U and V have the signs and the
    order that make V most like the identity.

    Args:
        jacobian: The decoder `[latent, output]`, as `ensemble.jacobian` returns it.
        points: Data `[..., output]`, less the decoder's constant part.

    >>> stages = encoder_stages([[2.0, 0.0, 0.0], [0.0, 0.5, 0.0]], [[2.0, 0.5, 0.0]])
    >>> stages.aligned.round(6).tolist(), stages.scaled.round(6).tolist(), stages.turned.round(6).tolist()
    ([[2.0, 0.5]], [[1.0, 1.0]], [[1.0, 1.0]])
    """
    from scipy.optimize import linear_sum_assignment

    decoder = _decoder(jacobian)
    left, values, right = np.linalg.svd(decoder.T, full_matrices=False)
    axes, order = linear_sum_assignment(-np.abs(right.T))
    signs = np.sign(right[order, axes])
    left, values, right = left[:, order] * signs, values[order], right[order] * signs[:, None]
    aligned = finite_array(points, "points") @ left
    return Stages(aligned, aligned / values, aligned / values @ right)


@checked()
def least_noise(jacobian: ArrayLike, precision: float = 0.0) -> tuple[float, Float64[np.ndarray, " latent"]]:
    """The least noise E|J eps|^2 that posteriors of a given precision cause, and their variances.

    rolinek2019, Eqs. 22 to 26 (Proposition S5): under sum_j -log sigma_j^2 = C it is
    d (prod_j |J_j|^2 e^-C)^(1/d), where sigma_j^2 |J_j|^2 is the same for all latents.

    Args:
        jacobian: The decoder `[latent, output]`.
        precision: The precision C.

    >>> noise, variances = least_noise([[4.0, -3.0, 5.0], [1.0, 1.0, -1.0]])  # the paper's M_1
    >>> round(noise, 1), (variances[0] / variances[1]).round(3).item()
    (24.5, 0.06)
    """
    norms = np.square(_decoder(jacobian)).sum(1)
    share = math.exp((np.log(norms).sum() - precision) / len(norms))
    return len(norms) * share, share / norms


@checked()
def excess(jacobian: ArrayLike) -> float:
    """The product of the columns' norms over the volume that they span: 1 where they are orthogonal, else more.

    rolinek2019, Eqs. 27 and 28: by rotations of the latents it changes, and the volume does not.

    >>> excess([[3.0, 0.0], [0.0, 2.0]]), round(excess([[1.0, 0.0], [1.0, 1.0]]), 3)
    (1.0, 1.414)
    """
    decoder = _decoder(jacobian)
    logs = np.log(np.linalg.norm(decoder, axis=1)).sum() - np.log(np.linalg.svd(decoder, compute_uv=False)).sum()
    return max(1.0, math.exp(logs))  # rounding may pass 1


@checked()
def turned(jacobian: ArrayLike, degrees: float) -> Float64[np.ndarray, "2 output"]:
    """The decoder of two latents after a rotation of these, as `[latent, output]`.

    Args:
        jacobian: The decoder `[2, output]`.
        degrees: The angle by which the latents are turned.

    >>> turned([[1.0, 0.0], [0.0, 1.0]], 90).round(6).tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    decoder = _decoder(jacobian)
    if len(decoder) != 2:
        raise UntwineError(f"a decoder of 2 latents can be turned by an angle, and this one has {len(decoder)}")
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[cos, sin], [-sin, cos]]) @ decoder


@checked()
def alignment_angle(codes: ArrayLike, factors: ArrayLike) -> float:
    """By how many degrees, from 0 to 45, two latents are turned against two factors (rolinek2019, Figure S5).

    The codes are the factors times a matrix, fitted by least squares; its nearest rotation or reflection has the
    angle, up to the order and the signs of the latents.

    Args:
        codes: Codes `[n, 2]`.
        factors: The factors `[n, 2]`.

    >>> square = np.indices((5, 5)).reshape(2, -1).T
    >>> tilt = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    >>> round(alignment_angle(square @ tilt, square) * np.pi / 180, 6), round(alignment_angle(-2 * square, square), 6)
    (0.3, 0.0)
    """
    pair = [finite_array(value, name, 2) for value, name in ((codes, "codes"), (factors, "factors"))]
    if pair[0].shape != pair[1].shape or pair[0].ndim != 2 or pair[0].shape[1] != 2:
        shapes = " and ".join(str(list(value.shape)) for value in pair)
        raise UntwineError(f"codes and factors have shapes {shapes}; an angle needs [n, 2] of both")
    of_codes, of_factors = (value - value.mean(0) for value in pair)
    matrix = np.linalg.lstsq(of_factors, of_codes, rcond=None)[0]
    left, _, right = np.linalg.svd(matrix)
    nearest = left @ right
    angle = math.degrees(math.atan2(nearest[1, 0], nearest[0, 0])) % 90
    return min(angle, 90 - angle)


def _decoder(jacobian: ArrayLike) -> Float64[np.ndarray, "latent output"]:
    """The decoder as float64; one whose columns are dependent, or that is no matrix, is refused."""
    decoder = finite_array(jacobian, "jacobian", 2)
    if decoder.ndim != 2 or np.linalg.matrix_rank(decoder) < len(decoder):
        raise UntwineError(
            f"the decoder has shape {list(decoder.shape)} and rank {np.linalg.matrix_rank(decoder)}; "
            "it must be [latent, output], and no column may depend on others"
        )
    return decoder
