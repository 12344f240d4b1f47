"""Where the columns of a decoder's Jacobian act, as rows and as pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

import untwine as uw
from untwine.data import Dataset
from untwine.experiments.engine.contract import Outcome, Trained
from untwine.experiments.engine.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

APART = 0.35  # the least distance between two dots, as a fraction of the width: more than four radii
INSIDE = 0.1  # and between a dot's centre and the border

# From a dataset and a number to so many images, and the number of the region of each of their pixels.
Places = Callable[[Dataset, int], tuple[np.ndarray, np.ndarray]]


def dots_apart(dataset: Dataset, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first images of three-dots whose dots lie apart and whole; a pixel's region is the nearest dot."""
    assert dataset.factors is not None
    states = dataset.factors_of(np.arange(min(len(dataset), 100 * count)))
    places = states.reshape(len(states), -1, 2) / (dataset.factors.sizes[0] - 1)
    first, second = np.triu_indices(places.shape[1], 1)
    gaps = np.linalg.norm(places[:, first] - places[:, second], axis=-1)
    inside = (np.abs(places - 0.5) < 0.5 - INSIDE).all((1, 2))
    chosen = np.flatnonzero(inside & (gaps.min(1) > APART))[:count]
    height, width = dataset.shape[1:]
    return dataset.observe(states[chosen]), uw.analysis.nearest_regions(places[chosen] * width, height, width)


def four_tiles(dataset: Dataset, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first images of two by two tiles; a pixel's region is its tile."""
    regions = uw.analysis.tile_regions(2, 2, *dataset.shape[1:])
    return dataset.batch(np.arange(count)), np.broadcast_to(regions, (count, *regions.shape))


def spread_evenly(dataset: Dataset, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images that are spread evenly over a dataset, and so over its photographs; the region is the whole image."""
    regions = np.zeros((count, *dataset.shape[1:]), np.int64)
    return dataset.batch((2 * np.arange(count) + 1) * len(dataset) // (2 * count)), regions


PLACES: dict[str, Places] = {"dots": dots_apart, "tiles": four_tiles, "patches": spread_evenly}


def jacobians(trained: Trained, images: np.ndarray) -> np.ndarray:
    """The decoder's Jacobians at the codes of images, `[members, n, latents, *shape]`."""
    return np.asarray(trained.ensemble.jacobian(trained.ensemble.encode(images)))


def share_in_one(trained: Trained, places: str, images: int, largest: int | None = None) -> list[Row]:
    """The share of a column's energy in one region: the mean over images and columns, weighted by their energy.

    Args:
        trained: The members.
        places: The images and their regions, by a name in `PLACES`.
        images: The number of images.
        largest: How many columns of each image, the largest first; None takes every column.
    """
    pictures, regions = PLACES[places](trained.dataset, images)
    values = []
    for of_member in jacobians(trained, pictures):
        columns = uw.analysis.jacobian_columns(of_member, largest).columns
        shares = uw.analysis.largest_share(columns, regions[:, None])
        values.append(np.average(shares, weights=uw.analysis.column_energy(columns)))
    return trained.rows("share_in_one", values)


def spread(trained: Trained, images: int) -> list[Row]:
    """The spread of columns over the image: the mean over images and columns, weighted by their energy."""
    pictures, _ = spread_evenly(trained.dataset, images)
    values = [
        np.average(uw.analysis.column_spread(columns), weights=uw.analysis.column_energy(columns))
        for columns in jacobians(trained, pictures)
    ]
    return trained.rows("spread", values)


def first_columns(trained: Trained, places: str, largest: int | None = None) -> tuple[np.ndarray, ...]:
    """An image, the columns of the first member's Jacobian there, the largest first, their latents and norms.

    Args:
        trained: The members.
        places: The image, by a name in `PLACES`.
        largest: How many columns; None takes every column.
    """
    pictures, _ = PLACES[places](trained.dataset, 1)
    return (pictures[0], *uw.analysis.jacobian_columns(jacobians(trained, pictures)[0, 0], largest))


def draw_columns(outcome: Outcome, places: str, methods: Sequence[str], largest: int | None = None) -> Figure:
    """An image and columns of the Jacobian at its code, a row for the first member of each method.

    Args:
        outcome: What was trained.
        places: The image, by a name in `PLACES`.
        methods: The methods, in the order of the rows.
        largest: How many columns, the largest first; None shows every column.
    """
    rows = [first_columns(outcome.trained(method=method), places, largest) for method in methods]
    return uw.figures.columns(*(np.stack(part) for part in zip(*rows, strict=True)), row_labels=list(methods))
