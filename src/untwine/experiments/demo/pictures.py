"""The demo's pictures: both methods side by side, each by the model that is its median."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

import untwine as uw
from untwine.experiments.engine.contract import Outcome, Trained
from untwine.experiments.rhodes2021.published import BETA_VAE, JL1
from untwine.experiments.rhodes2021.where import dots_apart
from untwine.report import mosaic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (BETA_VAE, JL1)
ACROSS = 10  # pictures in a row
AMONG = 64  # pictures whose dots lie apart, of which those are shown that both methods reconstruct best
SHOWN = 2  # pictures at which columns are shown
STEPS = 7  # of a traversal
CODED = 2000  # pictures whose codes tell the ranges of latents


def dots(outcome: Outcome) -> Figure:
    """Pictures of the dataset."""
    dataset = outcome.trained(method=JL1).dataset
    grid = dataset.batch(np.arange(3 * ACROSS)).reshape(3, ACROSS, *dataset.shape)
    return uw.figures.images(
        grid, title="The data: three dots anywhere. The models see such pictures, and nothing else"
    )


def reconstructions(outcome: Outcome) -> Figure:
    """Pictures, and what a model of each method makes of their codes."""
    images = outcome.trained(method=JL1).dataset.batch(np.arange(ACROSS))
    rows = [images / 255]
    for method in METHODS:
        trained, model = median(outcome, method)
        rows.append(np.asarray(trained.ensemble.decode(trained.ensemble.encode(images)))[model])
    latents = outcome.trained(method=JL1).ensemble.info.latents
    title = f"Reconstructions: each picture is encoded as {latents} numbers, and decoded"
    return uw.figures.images(np.stack(rows), ["picture", *METHODS], title=title)


def traversals(outcome: Outcome) -> Figure:
    """One latent changes at a time: a row for each latent, the most useful first, the methods side by side."""
    blocks, (start, _) = [], clearest(outcome)
    for method in METHODS:
        trained, model = median(outcome, method)
        ensemble, dataset = trained.ensemble, trained.dataset
        images = dataset.batch(np.arange(min(CODED, len(dataset))))
        means, variances = (np.asarray(codes(images))[model] for codes in (ensemble.encode, ensemble.variances))
        code = np.asarray(ensemble.encode(start[:1]))[model, 0]
        order = uw.analysis.usefulness(means, variances)[0]
        ranges = uw.analysis.latent_ranges(means, variances, coverage=0.9)
        shown = uw.analysis.traverse(ensemble.decode, code, ranges, STEPS, order)[model]
        blocks.append(mosaic.plain(mosaic.tiles(shown, "traversals"), (0.0, 1.0)))
    tiles = [[*left, None, *right] for left, right in zip(*blocks, strict=True)]
    labels = [""] * len(tiles[0])
    labels[STEPS // 2], labels[STEPS + 1 + STEPS // 2] = METHODS
    rows = ["most useful latent", *[""] * (len(tiles) - 2), "least useful"]
    return mosaic.mosaic(tiles, rows, labels, title="Traversals: along a row one latent changes, all others stay")


def columns(outcome: Outcome) -> Figure:
    """What a small step of each latent changes in two pictures, with the share of it that lies at one dot."""
    tiles, captions, (images, regions) = [], [], clearest(outcome)
    for number in range(SHOWN):
        for method in METHODS:
            trained, model = median(outcome, method)
            jacobian = np.asarray(trained.ensemble.jacobian(trained.ensemble.encode(images)))[model, number]
            ordered = uw.analysis.jacobian_columns(jacobian)
            shares = uw.analysis.largest_share(ordered.columns, regions[number])
            picture = mosaic.plain(mosaic.tiles(images[None, number : number + 1], "images"), (0.0, 1.0))[0]
            tiles.append([*picture, *mosaic.signed(mosaic.tiles(ordered.columns[None], "columns"), "row")[0]])
            names = zip(ordered.order, shares, strict=True)
            captions.append(["", *(f"z{latent}: {share:.0%}" for latent, share in names)])
    title = "Jacobian columns: what a step of each latent adds (red) or takes away (blue); below: its share at one dot"
    return mosaic.mosaic(tiles, METHODS * SHOWN, None, captions, title)


def numbers(outcome: Outcome, words: Mapping[str, str]) -> Figure:
    """Every model's numbers, a panel for each measure.

    Args:
        outcome: What was trained and measured.
        words: Words for the measures.
    """
    return uw.figures.boxes(outcome.rows, by="method", labels=words, title="Numbers: a point for each model")


def median(outcome: Outcome, method: str) -> tuple[Trained, int]:
    """The models of a method, and the number of that whose columns are its median in how much lies at one dot."""
    shares = outcome.rows.where(method=method, measure="share_in_one").values
    return outcome.trained(method=method), int(np.argsort(shares)[(len(shares) - 1) // 2])


def clearest(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """The pictures that both methods reconstruct best, and the regions of their dots: other columns are of blots."""
    images, regions = dots_apart(outcome.trained(method=JL1).dataset, AMONG)
    errors = []
    for method in METHODS:
        trained, model = median(outcome, method)
        decoded = np.asarray(trained.ensemble.decode(trained.ensemble.encode(images)))[model]
        errors.append(((decoded - images / 255) ** 2).sum((1, 2, 3)))
    chosen = np.argsort(np.max(errors, axis=0))[:SHOWN]
    return images[chosen], regions[chosen]
