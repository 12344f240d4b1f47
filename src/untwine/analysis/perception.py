"""Which factors a loss perceives most, and whether it sees the order of their values (michlo2023, 5 and A)."""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from untwine import naming
from untwine.analysis.distances import distance_matrices
from untwine.analysis.losses import CHUNK, OfMeans, perceived
from untwine.analysis.states import Grid, Pairs, States, Track, check_dataset, no_pairs, states_of, tracked
from untwine.checks import whole
from untwine.data.contract import Dataset
from untwine.errors import UntwineError
from untwine.model.likelihoods import Likelihood, Overlap

__all__ = ["Importance", "Row", "correlations", "distance_matrices", "importance"]

FEWEST = 100  # pairs: of fewer, all may be equally far apart by chance
LEVELS = 101  # quantiles of a cumulative curve
NO_ORDER = 0.1  # a correlation (Spearman's) nearer to 0 than this shows no order


@dataclass(frozen=True)
class Row:
    """The perceived distances of pairs that differ in one factor, or of random pairs.

    `error` is the standard error of the mean, `quantiles` are at 0, 1, ... 100 percent. Spearman's and Pearson's
    correlation are those with the ground-truth distance: None where that has no meaning (a categorical factor, random
    pairs) or does not vary (two values), and 0 where the perceived distance is `constant`: the same for all pairs. A
    factor is `visible` if it changes any image.
    """

    name: str
    kind: str | None
    values: int | None
    mean: float
    std: float
    error: float
    quantiles: tuple[float, ...]
    spearman: float | None
    pearson: float | None
    constant: bool
    visible: bool

    @property
    def adversarial(self) -> bool:
        """Whether values that have an order are all equally far apart (michlo2023, section 5)."""
        return self.constant and self.visible and self.spearman is not None

    @property
    def unordered(self) -> bool:
        """Whether distances say nothing of the order of values: they are adversarial, or as good as uncorrelated.

        So is a factor whose values are equally far apart in every traversal, but not equally far in all of them, or
        whose images are noisy. That of a cyclic factor is not told: its ground truth does not wrap.
        """
        if self.adversarial or self.kind != "ordered" or self.spearman is None or not self.visible:
            return self.adversarial
        return abs(self.spearman) < NO_ORDER


@dataclass(frozen=True)
class Importance:
    """Factors in the order in which a VAE prefers to learn them, the most important first (michlo2023, appendix A).

    Factors whose means differ by less than about two standard errors are not ordered by this sample. `random` has
    random pairs, for comparison. `left_out` says of factors without pairs why they have none. `per_element` is the
    unit: nats for each of an example's `elements`, or summed over them.
    """

    dataset: dict[str, Any]
    likelihood: str
    per_element: bool
    elements: int
    pairs: int
    seed: int
    random: Row
    factors: tuple[Row, ...]
    left_out: dict[str, str]

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(factor.name for factor in self.factors)

    @property
    def adversarial(self) -> tuple[str, ...]:
        return tuple(factor.name for factor in self.factors if factor.adversarial)

    @property
    def unordered(self) -> tuple[str, ...]:
        return tuple(factor.name for factor in self.factors if factor.unordered)

    def to_json(self) -> dict[str, Any]:
        """All of it, for `json.dumps`."""
        return dataclasses.asdict(self) | {
            name: list(getattr(self, name)) for name in ("order", "adversarial", "unordered")
        }


def importance(
    dataset: Any,
    likelihood: Any = "squared_error",
    pairs: int = 50_000,
    seed: int = 0,
    per_element: bool = True,
    tolerance: Any = 1e-3,
    progress: Track | None = None,
) -> Importance:
    """The mean perceived distance between states that differ in one factor (michlo2023, Eq. 12, Table A1).

    Of each pair (a, b) the base a is uniform over all states, b over the other values of the factor; of random pairs
    (Eq. 13) b is uniform over all other states. Distances are the excess L(x_a, x_b) - L(x_a, x_a), as for `perceived`:
    squared error is not changed by that. A dataset whose examples alone have images is measured on pairs of examples,
    one without factors on random pairs alone. A factor whose perceived distance is constant though its values have an
    order is adversarial (section 5): a VAE cannot find that order, and a warning says so; another is for a factor
    whose distances vary, but hardly with the order (|Spearman| < 0.1).

    Args:
        dataset: Any.
        likelihood: The loss that perceives, by name or as a part.
        pairs: Of each factor. The means have a standard error of their std / sqrt(pairs): `error`.
        seed: Of the pairs.
        per_element: In nats for each element of an example, as in Table A1, or summed over them.
        tolerance: Distances count as constant when their standard deviation is at most this share of their mean.
        progress: Such as `untwine.progress.track`.

    >>> import untwine.datasets
    >>> dots = untwine.datasets.three_dots(size=16, positions=16)
    >>> found = importance(dots, pairs=2000)
    >>> found.random.mean > found.factors[0].mean, found.factors[0].spearman > 0.2, found.adversarial
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
        text = likelihood  # as it was written
    elements = math.prod(dataset.shape)

    states = states_of(dataset)
    sampled, left_out = _sampled(states, pairs, seed)
    rows = _rows(states, sampled, measure, tolerance, progress)
    random = rows.pop(None)
    # Factors that matter equally, but for rounding, stay in the order that the dataset gives them.
    ordered = tuple(sorted(rows.values(), key=lambda row: -float(f"{row.mean:.5g}")))
    about = (dict(dataset.spec), text, per_element, elements, pairs, seed)
    found = Importance(*about, random, ordered, left_out)
    for message in _concerns(found, dataset, measure.likelihood):
        warnings.warn(message, stacklevel=2)
    return found


def _sampled(states: States, pairs: int, seed: int) -> tuple[dict[int | None, Pairs], dict[str, str]]:
    """Pairs by factor, random ones under None, and which factors have none."""
    space = states.dataset.factors
    random = states.pairs(None, pairs, seed)
    if random is None:
        raise UntwineError(f"{states.dataset!r} has a single state, and so no pairs to compare")
    sampled: dict[int | None, Pairs] = {None: random}
    left_out = {}
    for column, (name, size) in enumerate(zip(space.names, space.sizes, strict=True) if space else ()):
        found = states.pairs(column, pairs, seed)
        if found is not None:
            sampled[column] = found
        else:
            left_out[name] = "it has a single value" if size < 2 else "no two examples differ in it alone"
    if isinstance(states, Grid) or space is None or len(sampled) > 1:
        return sampled, left_out
    raise UntwineError(no_pairs(states.dataset))


def _rows(
    states: States, sampled: dict[int | None, Pairs], measure: Any, tolerance: float, progress: Track | None
) -> dict[int | None, Row]:
    count, space = len(sampled[None][0]), states.dataset.factors
    found = {column: np.empty(count) for column in sampled}
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
            found[column][part] = to(others)
            visible[column] = visible[column] or not np.array_equal(images, others)
    rows = {}
    for column, (first, second) in sampled.items():
        about, truth = ("random", None, None), None
        if column is not None and space is not None:
            about = space.names[column], space.kinds[column], space.sizes[column]
            truth = np.abs(states.factors(first) - states.factors(second))[:, column]
        rows[column] = _row(about, found[column], truth, visible[column], tolerance)
    return rows


def _row(
    about: tuple[str, str | None, int | None],
    distances: Float64[np.ndarray, " n"],
    truth: Int64[np.ndarray, " n"] | None,
    visible: bool,
    tolerance: float,
) -> Row:
    mean, std = float(distances.mean()), float(distances.std())
    if not np.ptp(distances):
        mean, std = float(distances[0]), 0.0  # without rounding
    constant = not visible or std <= tolerance * abs(mean)
    spearman = pearson = None
    if truth is not None and about[1] != "categorical" and np.ptp(truth) > 0:
        spearman, pearson = (0.0, 0.0) if constant else correlations(truth, distances)
    # Distances that do occur: those of XYSquares are few, and a curve between them would be made up.
    quantiles = tuple(np.quantile(distances, np.linspace(0, 1, LEVELS), method="inverted_cdf").tolist())
    return Row(*about, mean, std, std / math.sqrt(len(distances)), quantiles, spearman, pearson, constant, visible)


def correlations(truth: Int64[np.ndarray, " n"], distances: Float64[np.ndarray, " n"]) -> tuple[float, float]:
    """Spearman's correlation (Pearson's of the ranks, where equals share theirs) and Pearson's; none may be constant.

    >>> correlations(np.array([1, 2, 3]), np.array([1.0, 4.0, 9.0]))[0]
    1.0
    """
    from scipy.stats import rankdata

    def pearson(a: np.ndarray, b: np.ndarray) -> float:
        a, b = a - a.mean(), b - b.mean()
        return float(np.clip((a @ b) / math.sqrt((a @ a) * (b @ b)), -1.0, 1.0))

    # Distances that differ by rounding alone share a rank, too.
    steps = np.round((distances - distances.min()) / np.ptp(distances), 5)
    return pearson(rankdata(truth), rankdata(steps)), pearson(truth, distances)


def _concerns(found: Importance, dataset: Dataset, likelihood: Likelihood) -> list[str]:
    """What a user should know of these numbers, and what to do about it."""
    said = []
    if dataset.factors is None:
        said.append(f"{dataset!r} has no factors: only random pairs of its examples are compared")
    if isinstance(likelihood, Overlap):
        cure = "an overlap with a larger radius may show it which are close"
    elif len(dataset.shape) == 3:
        cure = f"an overlap likelihood, such as overlap({found.likelihood}), shows it which are close"
    else:
        cure = "another likelihood, or another form of the data, may show it which are close"
    if found.adversarial:
        said.append(
            f"adversarial for {found.likelihood}: all values of {', '.join(found.adversarial)} are perceived as "
            f"equally far apart, so a VAE cannot put them in order (michlo2023, section 5); {cure}"
        )
    others = [f"{row.name} ({row.spearman:.3f})" for row in found.factors if row.unordered and not row.adversarial]
    if others:
        said.append(
            f"the distances that {found.likelihood} perceives say nothing about the order of the values of "
            f"{', '.join(others)}: Spearman's correlation is nearly 0, as along an adversarial factor; {cure}"
        )
    unseen = [factor.name for factor in found.factors if not factor.visible]
    if unseen:
        said.append(f"examples do not change along {', '.join(unseen)}, of which nothing can be learned")
    return said
