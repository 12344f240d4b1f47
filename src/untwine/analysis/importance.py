"""What is found of perceived distances: factor by factor, in order of importance, and what there is to say of them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from untwine.data.dataset import Dataset
from untwine.model.likelihoods import Likelihood, Overlap

LEVELS = 101  # quantiles of a cumulative curve


@dataclass(frozen=True)
class Perceived:
    """The perceived distances of pairs that differ in one factor, or of random pairs.

    `quantiles` are at 0, 1, ... 100 percent. Spearman's and Pearson's correlation are those with the ground-truth
    distance: None where that has no meaning (a categorical factor, random pairs) or does not vary (two values), and
    0 where the perceived distance is `constant`. A factor is `visible` if it changes any image.
    """

    name: str
    kind: str | None
    values: int | None
    mean: float
    std: float
    quantiles: tuple[float, ...]
    spearman: float | None
    pearson: float | None
    constant: bool
    visible: bool

    @property
    def adversarial(self) -> bool:
        """Whether values that have an order are all equally far apart (michlo2023, section 5)."""
        return self.constant and self.visible and self.spearman is not None


@dataclass(frozen=True)
class Importance:
    """Factors in the order in which a VAE prefers to learn them, the most important first (michlo2023, appendix A).

    `random` has random pairs, for comparison. `left_out` says of factors without pairs why they have none.
    `per_element` is the unit: nats for each of an example's `elements`, or summed over them.
    """

    dataset: dict[str, Any]
    likelihood: str
    per_element: bool
    elements: int
    pairs: int
    seed: int
    random: Perceived
    factors: tuple[Perceived, ...]
    left_out: dict[str, str]

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(factor.name for factor in self.factors)

    @property
    def adversarial(self) -> tuple[str, ...]:
        return tuple(factor.name for factor in self.factors if factor.adversarial)

    def to_json(self) -> dict[str, Any]:
        """All of it, for `json.dumps`."""
        return dataclasses.asdict(self) | {"order": list(self.order), "adversarial": list(self.adversarial)}


def summary(
    name: str,
    kind: str | None,
    values: int | None,
    distances: Float64[np.ndarray, " n"],
    truth: Int64[np.ndarray, " n"] | None,
    constant: bool,
    visible: bool,
    unit: float = 1.0,
) -> Perceived:
    """Sampled distances in a few numbers, in another unit.

    >>> summary("x", "ordered", 4, np.array([1.0, 4.0, 9.0]), np.array([1, 2, 3]), False, True, unit=0.5).spearman
    1.0
    """
    spearman = pearson = None
    if truth is not None and kind != "categorical" and np.ptp(truth) > 0:
        spearman, pearson = (0.0, 0.0) if constant else correlations(truth, distances)
    # Distances that do occur: those of XYSquares are few, and a curve between them would be made up.
    quantiles = np.quantile(distances, np.linspace(0, 1, LEVELS), method="inverted_cdf") * unit
    mean, std = float(distances.mean() * unit), float(distances.std() * unit)
    return Perceived(name, kind, values, mean, std, tuple(quantiles.tolist()), spearman, pearson, constant, visible)


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


def concerns(found: Importance, dataset: Dataset, likelihood: Likelihood) -> list[str]:
    """What a user should know of these numbers, and what to do about it."""
    said = []
    if dataset.factors is None:
        said.append(f"{dataset!r} has no factors: only random pairs of its examples are compared")
    if found.adversarial:
        if isinstance(likelihood, Overlap):
            cure = "an overlap with a larger radius may show it which are close"
        elif len(dataset.shape) == 3:
            cure = f"an overlap likelihood, such as overlap({found.likelihood}), shows it which are close"
        else:
            cure = "another likelihood, or another form of the data, may show it which are close"
        said.append(
            f"adversarial for {found.likelihood}: all values of {', '.join(found.adversarial)} are perceived as "
            f"equally far apart, so a VAE cannot put them in order (michlo2023, section 5); {cure}"
        )
    unseen = [factor.name for factor in found.factors if not factor.visible]
    if unseen:
        said.append(f"examples do not change along {', '.join(unseen)}, of which nothing can be learned")
    return said
