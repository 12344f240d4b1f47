"""Linear components of images: the principal and the independent ones, as images."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from untwine.analysis.arrays import Integer, finite_array
from untwine.arguments import checked
from untwine.checks import as_array, whole


@checked()
def principal_components(examples: ArrayLike, count: Integer) -> Float64[np.ndarray, "count *shape"]:
    """The directions along which examples vary most, largest first, each of norm 1 (rhodes2021, Figure 10, left).

    The largest element of each is positive, so that signs do not depend on the computer.

    Args:
        examples: `[n, *shape]`: images as uint8 or floats, or vectors.
        count: The number of components.

    >>> points = [[2.0, 2.0], [-2.0, -2.0], [1.0, -1.0], [-1.0, 1.0]]
    >>> principal_components(points, 1).round(3).tolist()
    [[0.707, 0.707]]
    """
    flat, shape = _rows(examples, count)
    centred = flat - flat.mean(0)
    _, vectors = np.linalg.eigh(centred.T @ centred / len(flat))
    return _signed(vectors.T[::-1][:count]).reshape(count, *shape)


@checked()
def independent_components(
    examples: ArrayLike, count: Integer, seed: Integer = 0, iterations: Integer = 200
) -> Float64[np.ndarray, "count *shape"]:
    """What each of several independent sources adds to an example, found by FastICA (rhodes2021, Figure 10, right).

    These are the columns of the mixing matrix of scikit-learn's FastICA, with sources of variance 1; the largest
    element of each is positive.

    Args:
        examples: `[n, *shape]`: images as uint8 or floats, or vectors.
        count: The number of components.
        seed: The seed of the first guess.
        iterations: The most iterations. A warning says if they did not suffice.

    >>> even = (np.arange(2_000) * 0.618034) % 1, (np.arange(2_000) * 0.414214) % 1
    >>> mixed = np.stack([even[0] + even[1], even[0] - even[1]], 1)
    >>> slopes = np.abs(independent_components(mixed, 2)).ravel()
    >>> bool(np.ptp(slopes) < 0.02 * slopes.max())
    True
    """
    from sklearn.decomposition import FastICA

    flat, shape = _rows(examples, count)
    whole("seed", seed, 0, 2**32 - 1)
    whole("iterations", iterations, 1)
    model = FastICA(int(count), whiten="unit-variance", random_state=int(seed), max_iter=int(iterations))
    model.fit(flat)
    return _signed(np.asarray(model.mixing_).T).reshape(count, *shape)


def _rows(examples: ArrayLike, count: Integer) -> tuple[Float64[np.ndarray, "n d"], tuple[int, ...]]:
    """Examples as rows, bytes as numbers in [0, 1], and their shape."""
    array = as_array(examples)
    images = finite_array(array, "examples", 2) / (255 if array.dtype == np.uint8 else 1)
    most = min(len(images), math.prod(images.shape[1:]))
    whole("count", count, 1, most, " components of these examples")
    return images.reshape(len(images), -1), images.shape[1:]


def _signed(components: Float64[np.ndarray, "count d"]) -> Float64[np.ndarray, "count d"]:
    largest = np.take_along_axis(components, np.abs(components).argmax(1)[:, None], 1)
    return components * np.where(largest < 0, -1.0, 1.0)
