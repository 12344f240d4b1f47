"""What is measured of data and of models."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np

from untwine import analysis, data
from untwine.analysis.distances import ground_truth, latent, perceived, posterior_kl, reconstruction
from untwine.data.moments import fixed_subset
from untwine.experiments.engine.contract import Trained
from untwine.experiments.engine.rows import Row
from untwine.experiments.michlo2023.models import LEVELS, Data, likelihood, spec
from untwine.experiments.michlo2023.tables import CHANNELS, TABLE_A1
from untwine.train.seeds import parse_seeds


@cache
def matrices(
    name: Data, rendered: bool, spacing: int | None, traversals: int, seed: int, wrap: bool
) -> dict[str, dict[str, np.ndarray]]:
    """Ground-truth and perceived distances along the factors of a dataset (Eq. 10)."""
    dataset = data.build(spec(name, rendered, spacing))
    assert dataset.factors is not None
    truth = ground_truth(dataset.factors.kinds, dataset.factors.sizes) if wrap else ground_truth()
    distances = {"ground truth": truth, "perceived": perceived(per_element=True)}
    return analysis.distance_matrices(dataset, distances, traversals, seed)


def agreements(name: Data, rendered: bool, traversals: int, seeds: str, wrap: bool) -> list[Row]:
    """How well perceived distances agree with ground-truth distances, for each factor and on average."""
    rows = []
    for seed in parse_seeds(seeds):
        by_factor = {
            factor: float(analysis.agreement(by["ground truth"], by["perceived"]))
            for factor, by in matrices(name, rendered, None, traversals, seed, wrap).items()
        }
        by_factor["all"] = float(np.mean(list(by_factor.values())))
        rows += [
            {"dataset": name, "factor": factor, "seed": seed, "measure": "agreement", "value": value}
            for factor, value in by_factor.items()
        ]
    return rows


def by_steps(name: Data, rendered: bool, traversals: int, spacing: int | None = None) -> list[Row]:
    """The mean perceived distance of values that lie so many steps apart, for each factor."""
    rows = []
    for factor, by in matrices(name, rendered, spacing, traversals, 0, False).items():
        seen = by["perceived"]
        rows += [
            {
                "dataset": name,
                "factor": factor,
                "steps": k,
                "measure": "distance",
                "value": float(seen.diagonal(k).mean()),
            }
            for k in range(1, len(seen))
        ]
    return rows


def overlaps(spacing: int) -> list[Row]:
    """How perceived distances of XYSquares tell positions apart: all traversals and factors have the same numbers."""
    by = matrices("XYSquares", False, spacing, 1, 0, False)["x_R"]
    apart = by["perceived"][~np.eye(len(by["perceived"]), dtype=bool)]
    farthest = apart.max()
    numbers = {
        "agreement": float(analysis.agreement(by["ground truth"], by["perceived"])),
        "overlapping pairs": float((apart < farthest * (1 - 1e-6)).mean()),
        "distinct distances": float(len(np.unique(apart.round(9)))),
        "largest distance": float(farthest),
    }
    return [{"spacing": spacing, "measure": measure, "value": value} for measure, value in numbers.items()]


@cache
def importance(name: Data, rendered: bool, pairs: int) -> Any:
    """The perceived distances of pairs along each factor (Eqs. 12 and 13)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that XYSquares is adversarial is what the paper is about
        return analysis.factor_importance(data.build(spec(name, rendered)), pairs=pairs)


def importances(name: Data, rendered: bool, pairs: int) -> list[Row]:
    """Mean, deviation and median of the distances of pairs; `place` is the factor's place in Table A1."""
    found, order, rows = importance(name, rendered, pairs), list(TABLE_A1[name]), []
    for row in (found.random, *found.factors):
        about = {"dataset": name, "factor": row.name, "place": order.index(row.name)}
        numbers = {
            "mean distance": row.mean,
            "deviation": row.std,
            "median distance": row.quantiles[50],
            "distinct distances": float(len({round(quantile, 9) for quantile in row.quantiles})),
        }
        rows += [{**about, "measure": measure, "value": value} for measure, value in numbers.items()]
    return rows


def constants(name: Data, rendered: bool, examples: int | None) -> list[Row]:
    """The mean and the deviation that standardise each channel (B.4), over all examples or some."""
    dataset = data.build(spec(name, rendered))
    mean, std = dataset.standardisation(None if examples is None else fixed_subset(dataset, examples))
    return [
        {"dataset": name, "channel": channel, "measure": measure, "value": float(value)}
        for measure, values in (("pixel mean", mean), ("pixel deviation", std))
        for channel, value in zip(CHANNELS[len(values)], values, strict=True)
    ]


def examples_of(name: Data) -> list[Row]:
    """How many examples a dataset has."""
    return [{"dataset": name, "measure": "examples", "value": len(data.build(spec(name)))}]


def mistakes(trained: Trained, draws: int) -> list[Row]:
    """The share of samples that are taken for another state, and how far away that is in units of random pairs."""
    _, images, means, variances = states(trained)
    places = analysis.attributed(means, variances, draws)
    distances = perceived().between(images)
    random = distances.sum() / (len(images) * (len(images) - 1))
    own = np.arange(len(images))[:, None]
    shares = trained.rows("mistakes", [float((of_member != own).mean()) for of_member in places])
    far = []
    for row, of_member in zip(shares, places, strict=True):
        first, draw = np.nonzero(of_member != own)
        if len(first):
            distance = distances[first, of_member[first, draw]].mean() / random
            far.append({**row, "measure": "distance of mistakes", "value": float(distance)})
    return shares + far


def states(trained: Trained) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All states of a small dataset, their images, and the means and variances of their posteriors."""
    space = trained.dataset.factors
    assert space is not None
    every = space.factors(np.arange(space.states))
    images = trained.dataset.observe(every)
    return every, images, trained.ensemble.encode(images).numpy(), trained.ensemble.variances(images).numpy()


def levels(trained: Trained, traversals: int) -> dict[str, dict[str, np.ndarray]]:
    """Distances along each factor at every level of a network (section 4.4)."""
    ensemble, size = trained.ensemble, trained.dataset.shape[-1]
    seen = likelihood(trained.columns["loss"], size)
    decoded = lambda images: ensemble.decode(ensemble.encode(images))
    distances = (
        latent(ensemble.encode),
        posterior_kl(ensemble.encode, ensemble.variances),
        reconstruction(decoded, seen),
    )
    of_data = {"ground truth": ground_truth(), "perceived": perceived(seen)}
    return analysis.distance_matrices(trained.dataset, of_data | dict(zip(LEVELS, distances, strict=True)), traversals)


def learned(trained: Trained, traversals: int) -> list[Row]:
    """How well each level agrees with what the loss perceives and with the ground truth, on average over factors."""
    by_factor, rows = levels(trained, traversals), []
    for level in ("perceived", *LEVELS):
        for against in ("perceived", "ground truth"):
            values = [analysis.agreement(by[level], by[against]) for by in by_factor.values()]
            of_members = np.broadcast_to(np.mean(values, 0), len(trained.ensemble))
            rows += trained.rows("agreement", list(of_members), level=level, against=against)
    return rows
