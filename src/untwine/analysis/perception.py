"""How a loss perceives a dataset's factors: distance matrices and importance (michlo2023, sections 4.3, 5 and A)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from untwine import naming
from untwine.analysis.distances import Distance, ToMean, perceived
from untwine.analysis.importance import Importance, Perceived, concerns, summary
from untwine.analysis.losses import CHUNK
from untwine.analysis.states import Grid, Pairs, States, on_states
from untwine.data.dataset import Dataset
from untwine.errors import UntwineError
from untwine.model.likelihoods import NAMED

# Wraps what is gone through, with what that is and how long it is: a progress bar.
Track = Callable[[Iterable[Any], str, int], Iterable[Any]]

FEWEST = 100  # pairs: of fewer, all may be equally far apart by chance


# --- matrices -------------------------------------------------------------------------------------------


def kept_values(size: int, longest: int = 256) -> Int64[np.ndarray, " f"]:
    """The values of a factor that a matrix shows: all of them, or `longest` of them at equal distances.

    >>> kept_values(3).tolist(), kept_values(100, longest=4).tolist()
    ([0, 1, 2], [0, 33, 66, 99])
    """
    return np.unique(np.linspace(0, size - 1, min(size, longest)).round().astype(np.int64))


def distance_matrices(
    dataset: Dataset,
    distances: Mapping[str, Distance],
    traversals: int = 100,
    seed: int = 0,
    longest: int = 256,
    progress: Track | None = None,
) -> dict[str, dict[str, Float64[np.ndarray, "*members f f"]]]:
    """The mean over random traversals of all distances along each factor (michlo2023, Eqs. 9 and 10): D^(i).

    By factor and distance. All distances see the same traversals. Factors of one value are left out. Where only
    the examples have images, a traversal has those of its states that there are, and an entry that none has is NaN.

    Args:
        dataset: With factors.
        distances: By any names, as `{"perceived": perceived("bernoulli")}`.
        traversals: How many of each factor.
        seed: Of the traversals.
        longest: The most values of a factor that are shown (`kept_values`).
        progress: Such as `untwine.train.progress.track`.

    >>> import untwine.datasets
    >>> squares = untwine.datasets.xy_squares()
    >>> found = distance_matrices(squares, {"perceived": perceived()}, traversals=3)
    >>> found["x_R"]["perceived"][:3, :3]
    array([[  0., 128., 128.], [128.,   0., 128.], [128., 128.,   0.]])
    """
    space = dataset.factors
    if space is None:
        raise UntwineError(f"{dataset!r} has no factors, and so no traversals to compare distances along")
    for name, value, least in (("traversals", traversals, 1), ("longest", longest, 2), ("seed", seed, 0)):
        _whole(name, value, least)
    moving = [column for column, size in enumerate(space.sizes) if size > 1]
    if not moving:
        raise UntwineError(f"every factor of {dataset!r} has a single value: there is nothing to traverse")

    def work(states: States) -> dict[str, dict[str, np.ndarray]]:
        jobs = [(column, number) for column in moving for number in range(traversals)]
        sums: dict[str, dict[str, _Sum]] = {}
        for column, number in _tracked(progress, jobs, "traversals"):
            values = kept_values(space.sizes[column], longest)
            found = states.traversal(column, values, number, seed)
            if found is None:
                continue
            factors, images = states.factors(found), states.images(found)
            places = np.searchsorted(values, factors[:, column])
            for name, distance in distances.items():
                sums.setdefault(space.names[column], {}).setdefault(name, _Sum(len(values))).add(
                    places, distance.matrix(factors, images)
                )
        if not sums:
            raise UntwineError(_no_pairs(dataset))
        return {factor: {name: one.mean() for name, one in by.items()} for factor, by in sums.items()}

    return on_states(dataset, work)


class _Sum:
    """Matrices over some of the values, added up."""

    def __init__(self, size: int) -> None:
        self.size, self.count = size, np.zeros((size, size))
        self.total: np.ndarray | None = None

    def add(self, places: Int64[np.ndarray, " m"], matrix: Float64[np.ndarray, "*members m m"]) -> None:
        if self.total is None:
            self.total = np.zeros((*matrix.shape[:-2], self.size, self.size))
        rows = (..., places[:, None], places[None])
        self.total[rows] += matrix
        self.count[rows] += 1

    def mean(self) -> Float64[np.ndarray, "*members f f"]:
        assert self.total is not None
        return np.where(self.count > 0, self.total / np.maximum(self.count, 1), np.nan)


# --- importance -----------------------------------------------------------------------------------------


def importance(
    dataset: Dataset,
    likelihood: Any = "squared_error",
    pairs: int = 50_000,
    seed: int = 0,
    per_element: bool = True,
    tolerance: float = 1e-3,
    progress: Track | None = None,
) -> Importance:
    """The mean perceived distance between states that differ in one factor (michlo2023, Eq. 12, Table A1).

    Of each pair one state is uniform over all, the other over the other values of the factor; of random pairs (Eq. 13)
    the other is uniform over all other states. A dataset whose examples alone have images is measured on
    pairs of examples, one without factors on random pairs alone. A factor whose perceived distance is constant though
    its values have an order is adversarial (section 5): a VAE cannot find that order, and a warning says so.

    Args:
        dataset: Any.
        likelihood: The loss that perceives, by name or as a part.
        pairs: Of each factor.
        seed: Of the pairs.
        per_element: In nats for each element of an example, as in Table A1, or summed over them.
        tolerance: Distances count as constant when their standard deviation is at most this share of their mean
            (of what they are above the distance of an image to itself).
        progress: Such as `untwine.train.progress.track`.

    >>> import untwine.datasets
    >>> dots = untwine.datasets.three_dots(size=16, positions=16)
    >>> found = importance(dots, pairs=2000)
    >>> found.random.mean > found.factors[0].mean, found.factors[0].spearman > 0.2, found.adversarial
    (True, True, ())
    """
    for name, value, least in (("pairs", pairs, FEWEST), ("seed", seed, 0)):
        _whole(name, value, least)
    measure = perceived(likelihood)
    text = naming.write(measure.likelihood, NAMED)
    if isinstance(likelihood, str) and text == repr(measure.likelihood):
        text = likelihood  # as it was written
    elements = math.prod(dataset.shape)

    def work(states: States) -> Importance:
        sampled, left_out = _sampled(states, pairs, seed)
        rows = _rows(states, sampled, measure, 1 / elements if per_element else 1.0, tolerance, progress)
        random = rows.pop(None)
        # Factors that matter equally, but for rounding, stay in the order that the dataset gives them.
        ordered = tuple(sorted(rows.values(), key=lambda row: -float(f"{row.mean:.5g}")))
        return Importance(dict(dataset.spec), text, per_element, elements, pairs, seed, random, ordered, left_out)

    found = on_states(dataset, work)
    for message in concerns(found, dataset, measure.likelihood):
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
    raise UntwineError(_no_pairs(states.dataset))


def _rows(
    states: States,
    sampled: dict[int | None, Pairs],
    measure: Any,
    unit: float,
    tolerance: float,
    progress: Track | None,
) -> dict[int | None, Perceived]:
    count, space = len(sampled[None][0]), states.dataset.factors
    found = {column: np.empty(count) for column in sampled}
    own = {column: np.empty(count) for column in sampled}
    visible = dict.fromkeys(sampled, False)
    # What an image is away from itself: 0 or a constant for most losses, but not for cross-entropy on grey pixels.
    few = states.images(sampled[None][0][:64])
    itself = measure.pairs(few, few)
    varies = np.ptp(itself) > 1e-6 * np.abs(itself).max()
    size = max(1, CHUNK // math.prod(states.dataset.shape))
    for start in _tracked(progress, range(0, count, size), "batches of pairs"):
        part = slice(start, start + size)
        seen: dict[int, tuple[np.ndarray, ToMean]] = {}  # factors may share the first states of their pairs
        for column, (first, second) in sampled.items():
            if id(first) not in seen:
                images = states.images(first[part])
                seen[id(first)] = images, measure.to(images)
            images, to = seen[id(first)]
            others = states.images(second[part])
            found[column][part] = to(others)
            own[column][part] = measure.pairs(others, others) if varies else itself[0]
            visible[column] = visible[column] or not np.array_equal(images, others)
    rows = {}
    for column, (first, second) in sampled.items():
        excess = found[column] - own[column]
        constant = not visible[column] or bool(excess.std() <= tolerance * excess.mean())
        about, truth = ("random", None, None), None
        if column is not None and space is not None:
            about = space.names[column], space.kinds[column], space.sizes[column]
            truth = np.abs(states.factors(first) - states.factors(second))[:, column]
        rows[column] = summary(*about, found[column], truth, constant, visible[column], unit)
    return rows


def _no_pairs(dataset: Dataset) -> str:
    return (
        f"no two of the {len(dataset):,} examples of {dataset!r} differ in one factor only, and not every state has an "
        "image: distances along a factor need such pairs"
    )


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value < 2**63:
        raise UntwineError(f"{name} must be a whole number, {least} or more, not {value!r}")


def _tracked(progress: Track | None, items: Any, what: str) -> Iterable[Any]:
    return items if progress is None else progress(items, what, len(items))
