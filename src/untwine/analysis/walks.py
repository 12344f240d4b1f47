"""Walks along a dataset's factors: what each of them alone changes (michlo2023, Eq. 9 and Figure 2)."""

from __future__ import annotations

import numpy as np

from untwine.analysis.distances import kept_values
from untwine.analysis.states import check_dataset, states_of
from untwine.checks import whole
from untwine.data.contract import Dataset
from untwine.errors import UntwineError

# A factor's values `[steps]`, and an image `[steps, *shape]` of each.
Walk = tuple[np.ndarray, np.ndarray]


def factor_traversals(dataset: Dataset, steps: int = 8, seed: int = 0) -> dict[str, Walk]:
    """For each factor some of its values, at equal distances, and images in which it alone has them.

    The walks of all factors go through one random state. Where not every state has an image, each goes through
    an example of its own that has neighbours, and has the values that there are; a factor without is left out.

    >>> import untwine.datasets
    >>> values, images = factor_traversals(untwine.datasets.xy_squares(), steps=3)["y_R"]
    >>> values.tolist(), images.shape
    ([0, 4, 7], (3, 3, 64, 64))
    """
    whole("steps", steps, 2)
    whole("seed", seed, 0)
    space = check_dataset(dataset).factors
    if space is None:
        raise UntwineError(f"{dataset!r} has no factors to walk along")
    states, found = states_of(dataset), {}
    for factor, (name, size) in enumerate(zip(space.names, space.sizes, strict=True)):
        walk = states.traversal(factor, kept_values(size, steps), 0, seed)
        if walk is not None and len(walk):
            found[name] = states.factors(walk)[:, factor], states.images(walk)
    return found
