"""Which factors a loss perceives most, and whether it sees the order of their values (michlo2023, 5 and A)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float64, Num

from untwine import naming
from untwine.analysis.distances import ground_truth
from untwine.analysis.importance import Importance, Row
from untwine.analysis.losses import CHUNK, OfMeans, perceived
from untwine.analysis.states import Grid, Pairs, States, Track, check_dataset, no_pairs, states_of, tracked
from untwine.arguments import checked
from untwine.checks import whole
from untwine.data.contract import Dataset
from untwine.errors import UntwineError, warn
from untwine.model.likelihoods import Likelihood, Overlap

FEWEST = 100  # pairs: fewer of them may be equally far apart by chance
LEVELS = 101  # quantiles of a cumulative curve


@checked()
def factor_importance(
    dataset: Any,
    likelihood: Any = "squared_error",
    pairs: int = 50_000,
    seed: int = 0,
    per_element: bool = True,
    tolerance: Any = 1e-3,
    progress: Track | None = None,
    wrap: bool = True,
) -> Importance:
    """The mean perceived distance between states that differ in one factor (michlo2023, Eq. 12, Table A1).

    In each pair (a, b), a is uniform over all states and b over the other values of the factor; in random pairs
    (Eq. 13) b is uniform over all other states. Distances are the excess L(x_a, x_b) - L(x_a, x_a), as for
    `perceived`. Where only the examples have images, pairs are pairs of examples; without factors there are only
    random pairs. A factor is adversarial (section 5) if its values have an order but are all equally far apart: a VAE
    cannot find that order, and a warning says so. Another warning names factors whose distances vary, but hardly with
    the order (|Spearman| < 0.1). The order of a cyclic factor is that of its circle: its last value is next to its
    first.

    Args:
        dataset: Any dataset.
        likelihood: The loss, by name or as a part.
        pairs: The number of pairs of each factor. The standard error of a mean (`error`) is std / sqrt(pairs).
        seed: The seed of the pairs.
        per_element: Whether distances are per element of an example, as in Table A1, or summed over elements.
        tolerance: Distances count as constant when their standard deviation is at most this share of their mean.
        progress: A progress bar, such as `untwine.progress.track`.
        wrap: Whether ground-truth distances of cyclic factors go the shorter way round; False takes these factors as
            ordered, as the paper does.

    >>> import untwine.datasets
    >>> dots = untwine.datasets.three_dots(size=16, positions=16)
    >>> importance = factor_importance(dots, pairs=2000)
    >>> first = importance.factors[0]
    >>> importance.random.mean > first.mean, first.spearman > 0.2, importance.adversarial
    (True, True, ())
    """
    check_dataset(dataset)
    for name, value, least in (("pairs", pairs, FEWEST), ("seed", seed, 0)):
        whole(name, value, least)
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
        raise UntwineError(f"tolerance is a share of the mean, from 0 to below 1, not {tolerance!r}")
    measure = perceived(likelihood, per_element)
    text = naming.write(measure.likelihood, Likelihood.registry)
    if isinstance(likelihood, str) and text == repr(measure.likelihood):
        text = likelihood  # as the user wrote it
    elements = math.prod(dataset.shape)

    states = states_of(dataset)
    sampled, left_out = _sampled(states, pairs, seed)
    rows = _rows(states, sampled, measure, tolerance, progress, wrap)
    random = rows.pop(None)
    # Factors that matter equally, but for rounding, stay in the order that the dataset gives them.
    ordered = tuple(sorted(rows.values(), key=lambda row: -float(f"{row.mean:.5g}")))
    settings = (dict(dataset.spec), text, per_element, elements, pairs, seed)
    importance = Importance(*settings, random, ordered, left_out, wrap)
    for message in _concerns(importance, dataset, measure.likelihood):
        warn(message)
    return importance


def _sampled(states: States, pairs: int, seed: int) -> tuple[dict[int | None, Pairs], dict[str, str]]:
    """Pairs by factor, random pairs under None, and the reason for each factor without pairs."""
    space = states.dataset.factors
    random = states.pairs(None, pairs, seed)
    if random is None:
        raise UntwineError(f"{states.dataset!r} has a single state, and so no pairs to compare")
    sampled: dict[int | None, Pairs] = {None: random}
    left_out = {}
    for column, (name, size) in enumerate(zip(space.names, space.sizes, strict=True) if space else ()):
        of_factor = states.pairs(column, pairs, seed)
        if of_factor is not None:
            sampled[column] = of_factor
        else:
            left_out[name] = "it has a single value" if size < 2 else "no two examples differ in it alone"
    if isinstance(states, Grid) or space is None or len(sampled) > 1:
        return sampled, left_out
    raise UntwineError(no_pairs(states.dataset))


def _rows(
    states: States, sampled: dict[int | None, Pairs], measure: Any, tolerance: float, progress: Track | None, wrap: bool
) -> dict[int | None, Row]:
    """Measure the distances of all pairs: a row for each factor, and that of random pairs under None."""
    count, space = len(sampled[None][0]), states.dataset.factors
    distances = {column: np.empty(count) for column in sampled}
    visible = dict.fromkeys(sampled, False)
    size = max(1, CHUNK // math.prod(states.dataset.shape))
    for start in tracked(progress, range(0, count, size), "batches of pairs"):
        part = slice(start, start + size)
        seen: dict[int, tuple[np.ndarray, OfMeans]] = {}  # factors may share the first states of their pairs
        for column, (first, second) in sampled.items():
            if id(first) not in seen:
                images = states.images(first[part])
                seen[id(first)] = images, measure.of(images)
            images, to = seen[id(first)]
            others = states.images(second[part])
            distances[column][part] = to(others)
            visible[column] = visible[column] or not np.array_equal(images, others)
    rows = {}
    for column, (first, second) in sampled.items():
        about, truth = ("random", None, None), None
        if column is not None and space is not None:
            about = space.names[column], space.kinds[column], space.sizes[column]
            measured = ground_truth(space.kinds, space.sizes, wrap)  # the states of a pair differ in this factor alone
            truth = measured.pairs(states.factors(first), states.factors(second))
        row = _row(about, distances[column], truth, visible[column], tolerance)
        rows[column] = dataclasses.replace(row, wrapped=wrap and row.kind == "cyclic")
    return rows


def _row(
    about: tuple[str, str | None, int | None],
    distances: Float64[np.ndarray, " n"],
    truth: Float64[np.ndarray, " n"] | None,
    visible: bool,
    tolerance: float,
) -> Row:
    """Summarise the distances of pairs; `about` is the factor's name, kind and number of values."""
    mean, std = float(distances.mean()), float(distances.std())
    if not np.ptp(distances):
        mean, std = float(distances[0]), 0.0  # exact: the sums above round
    constant = not visible or std <= tolerance * abs(mean)
    spearman = pearson = None
    if truth is not None and about[1] != "categorical" and np.ptp(truth) > 0:
        spearman, pearson = (0.0, 0.0) if constant else correlations(truth, distances)
    # Only distances that occur: those of XYSquares are few, and interpolation would invent others.
    quantiles = tuple(np.quantile(distances, np.linspace(0, 1, LEVELS), method="inverted_cdf").tolist())
    return Row(*about, mean, std, std / math.sqrt(len(distances)), quantiles, spearman, pearson, constant, visible)


def correlations(truth: Num[np.ndarray, " n"], distances: Float64[np.ndarray, " n"]) -> tuple[float, float]:
    """Spearman's correlation (ties share their mean rank) and Pearson's. Neither argument may be constant.

    >>> correlations(np.array([1, 2, 3]), np.array([1.0, 4.0, 9.0]))[0]
    1.0
    """
    from scipy.stats import rankdata

    def pearson(a: np.ndarray, b: np.ndarray) -> float:
        a, b = a - a.mean(), b - b.mean()
        return float(np.clip((a @ b) / math.sqrt((a @ a) * (b @ b)), -1.0, 1.0))

    # Distances that differ by rounding alone are ties, too.
    steps = np.round((distances - distances.min()) / np.ptp(distances), 5)
    return pearson(rankdata(truth), rankdata(steps)), pearson(truth, distances)


def _concerns(importance: Importance, dataset: Dataset, likelihood: Likelihood) -> list[str]:
    """Warnings about these numbers, with what the user can do."""
    messages = []
    if dataset.factors is None:
        messages.append(f"{dataset!r} has no factors: only random pairs of its examples are compared")
    if isinstance(likelihood, Overlap):
        cure = "an overlap with a larger radius may show it which are close"
    elif len(dataset.shape) == 3:
        cure = f"an overlap likelihood, such as overlap({importance.likelihood}), shows it which are close"
    else:
        cure = "another likelihood, or another form of the data, may show it which are close"
    if importance.adversarial:
        messages.append(
            f"adversarial for {importance.likelihood}: all values of {', '.join(importance.adversarial)} are perceived "
            f"as equally far apart, so a VAE cannot put them in order (michlo2023, section 5); {cure}"
        )
    hardly = [row for row in importance.factors if row.unordered and not row.adversarial]
    if hardly:
        names = ", ".join(f"{row.name} ({row.spearman:.3f})" for row in hardly)
        turns = ", ".join(row.name for row in hardly if row.wrapped)
        repeats = f", unless pictures repeat within a turn of {turns}, as those of a square do" if turns else ""
        messages.append(
            f"the distances that {importance.likelihood} perceives say nothing about the order of the values of "
            f"{names}: Spearman's correlation is nearly 0, as along an adversarial factor; {cure}{repeats}"
        )
    unseen = [factor.name for factor in importance.factors if not factor.visible]
    if unseen:
        messages.append(f"examples do not change along {', '.join(unseen)}, of which nothing can be learned")
    return messages
