"""How important each factor is to a loss: the result of `perception.factor_importance`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

NO_ORDER = 0.1  # a correlation (Spearman's) nearer to 0 than this shows no order


@dataclass(frozen=True)
class Row:
    """The perceived distances of pairs that differ in one factor, or of random pairs.

    `error` is the standard error of the mean; `quantiles` are at 0, 1, ... 100 percent. The correlations, Spearman's
    and Pearson's, are with the ground-truth distance: None where that has no meaning (a categorical factor, random
    pairs) or does not vary (two values, three on a circle), and 0 where the perceived distance is `constant`, the same
    for all pairs. A factor is `visible` if it changes any image, and `wrapped` if its ground truth goes the shorter way
    round a circle.
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
    wrapped: bool = False

    @property
    def adversarial(self) -> bool:
        """Whether values that have an order are all equally far apart (michlo2023, section 5)."""
        return self.constant and self.visible and self.spearman is not None

    @property
    def unordered(self) -> bool:
        """Whether distances do not show the order of the values: they are adversarial, or nearly uncorrelated with it.

        Distances are nearly uncorrelated, for example, if values are equally far apart in every traversal but the
        distance differs between traversals, or if images are noisy. A cyclic factor that is not `wrapped` is only
        unordered if it is adversarial: its ground truth is not that of its order.
        """
        has_order = self.kind == "ordered" or self.wrapped
        if self.adversarial or not has_order or self.spearman is None or not self.visible:
            return self.adversarial
        return abs(self.spearman) < NO_ORDER


@dataclass(frozen=True)
class Importance:
    """Factors in the order in which a VAE prefers to learn them, the most important first (michlo2023, appendix A).

    The order of factors whose means differ by less than about two standard errors is not certain. `random` is about
    random pairs, for comparison. `left_out` says why a factor has no pairs. `per_element` is the unit: nats for each
    of an example's `elements`, or summed over them. `wrap` says whether the ground truth of cyclic factors goes round.
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
    wrap: bool = True

    @property
    def order(self) -> tuple[str, ...]:
        """The names of the factors, the most important first."""
        return tuple(factor.name for factor in self.factors)

    @property
    def adversarial(self) -> tuple[str, ...]:
        """The names of the adversarial factors."""
        return tuple(factor.name for factor in self.factors if factor.adversarial)

    @property
    def unordered(self) -> tuple[str, ...]:
        """The names of the factors whose order the distances do not show."""
        return tuple(factor.name for factor in self.factors if factor.unordered)

    def to_json(self) -> dict[str, Any]:
        """All fields and the three lists of names, for `json.dumps`."""
        return dataclasses.asdict(self) | {
            name: list(getattr(self, name)) for name in ("order", "adversarial", "unordered")
        }
