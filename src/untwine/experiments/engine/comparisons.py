"""Claims that compare two sets of models, each a function of rows that returns a test and its effect size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from untwine.experiments.engine.findings import LEAST, Finding, Where, against, same, too_few
from untwine.experiments.engine.rows import Rows
from untwine.metrics import statistics


@dataclass(frozen=True)
class Higher:
    """One set of models scores higher than another (Welch's t-test).

    Args:
        text: The claim in words.
        measure: What is compared.
        first: The columns of the models that are said to score higher.
        second: The columns of the others.
        at: Columns that both share.
        best: Whether each seed's best value over a sweep is compared, in place of all values.
    """

    text: str
    measure: str
    first: Where
    second: Where
    at: Where = field(default_factory=dict)
    best: bool = False

    def find(self, rows: Rows, published: Rows) -> Finding:
        a, b = (self._values(rows, side) for side in (self.first, self.second))
        theirs = [self._values(published, side) for side in (self.first, self.second)]
        paper = against(*map(fmean, theirs)) if all(theirs) else ""
        if min(len(a), len(b)) < LEAST:
            return too_few(self.text, min(len(a), len(b)), paper)
        test = statistics.compare(a, b)
        ours = against(fmean(a), fmean(b))
        count = len(a) + len(b)
        # Two sets without any spread, such as seconds that were measured once, need no test.
        name = "Welch's t" if test.p is not None else ""
        return Finding(self.text, test.difference > 0, ours, paper, name, test.p, None, test.effect, count)

    def _values(self, rows: Rows, side: Where) -> list[float]:
        chosen = rows.where(measure=self.measure, **{**self.at, **side})
        if not self.best:
            return chosen.values
        by_seed = chosen.reduced(max, "seed").values
        return by_seed or [max(chosen.values)] if chosen.values else []


@dataclass(frozen=True)
class Exceeds:
    """The best of some models is above the best of others (an exact test of how many are above it).

    It is about maxima over a sweep, of which each setting may have a single seed.

    Args:
        text: The claim in words.
        measure: What is compared.
        first: The columns of the models that are said to reach higher.
        second: The columns of the others.
        at: Columns that both share.
    """

    text: str
    measure: str
    first: Where
    second: Where
    at: Where = field(default_factory=dict)

    def find(self, rows: Rows, published: Rows) -> Finding:
        a, b = _sides(self, rows)
        if min(len(a), len(b)) < LEAST:
            return too_few(self.text, min(len(a), len(b)), "")
        test = statistics.exceedance(a, b)
        ours = f"best {against(max(a), max(b))}; {test.count} of {test.among} are above the latter"
        share = test.count / test.among
        return Finding(self.text, max(a) > max(b), ours, "", "exceedances", test.p, None, share, len(a) + len(b))


@dataclass(frozen=True)
class Alike:
    """Two sets of models score alike, up to a margin (two one-sided Welch tests).

    Args:
        text: The claim in words.
        measure: What is compared.
        first: The columns of some models.
        second: The columns of others.
        within: The largest difference of the means that counts as none.
        at: Columns that both share.
    """

    text: str
    measure: str
    first: Where
    second: Where
    within: float
    at: Where = field(default_factory=dict)

    def find(self, rows: Rows, published: Rows) -> Finding:
        a, b = _sides(self, rows)
        theirs = _sides(self, published)
        paper = against(*map(fmean, theirs)) if all(theirs) else ""
        if min(len(a), len(b)) < LEAST:
            return too_few(self.text, min(len(a), len(b)), paper)
        test = statistics.compare(a, b)
        agrees, p, why = same(test, self.within)
        ours, name = against(fmean(a), fmean(b)), f"two one-sided t, within {self.within:g}"
        return Finding(self.text, agrees, ours, paper, name, p, None, test.effect, len(a) + len(b), why=why)


@dataclass(frozen=True)
class NotHigher:
    """One set of models does not score higher than another by more than a margin (a one-sided Welch test).

    Args:
        text: The claim in words.
        measure: What is compared.
        first: The columns of the models that are said not to score higher.
        second: The columns of the others.
        within: The largest difference of the means that counts as none.
        at: Columns that both share.
    """

    text: str
    measure: str
    first: Where
    second: Where
    within: float
    at: Where = field(default_factory=dict)

    def find(self, rows: Rows, published: Rows) -> Finding:
        a, b = _sides(self, rows)
        if min(len(a), len(b)) < LEAST:
            return too_few(self.text, min(len(a), len(b)), "")
        test = statistics.compare(a, b)
        p, ours = statistics.no_higher(test, self.within), against(fmean(a), fmean(b))
        agrees, name = test.difference < self.within, f"one-sided t, within {self.within:g}"
        return Finding(self.text, agrees, ours, "", name, p, None, test.effect, len(a) + len(b))


@dataclass(frozen=True)
class HigherGiven:
    """One set of models scores higher than another at equal values of another measure (analysis of covariance).

    Args:
        text: The claim in words.
        measure: What is compared.
        given: The measure at whose equal values it is compared.
        first: The columns of the models that are said to score higher.
        second: The columns of the others.
        same: The columns that tell models of one side apart.
        at: Columns that both share.
    """

    text: str
    measure: str
    given: str
    first: Where
    second: Where
    same: Sequence[str] = ("seed",)
    at: Where = field(default_factory=dict)

    def find(self, rows: Rows, published: Rows) -> Finding:
        (a, x), (b, y) = (self._pairs(rows, side) for side in (self.first, self.second))
        if min(len(a), len(b)) < LEAST:
            return too_few(self.text, min(len(a), len(b)), "")
        test = statistics.compare_given(a, b, x, y)
        if test.p is None:
            why = f"scores do not vary, or {self.given} alone tells the two sides apart"
            return Finding(self.text, None, "", why=why, models=len(a) + len(b))
        words, name = f"{test.difference:+.3g} at equal {self.given}", "analysis of covariance"
        return Finding(self.text, test.difference > 0, words, "", name, test.p, None, test.effect, len(a) + len(b))

    def _pairs(self, rows: Rows, side: Where) -> tuple[list[float], list[float]]:
        chosen = [rows.where(measure=name, **{**self.at, **side}).by(*self.same) for name in (self.measure, self.given)]
        keys = [key for key, known in chosen[0].items() if known.values and key in chosen[1] and chosen[1][key].values]
        return [chosen[0][key].values[0] for key in keys], [chosen[1][key].values[0] for key in keys]


def _sides(claim: Exceeds | Alike | NotHigher, rows: Rows) -> list[list[float]]:
    """The values of both sides of a comparison."""
    return [rows.where(measure=claim.measure, **{**claim.at, **side}).values for side in (claim.first, claim.second)]
