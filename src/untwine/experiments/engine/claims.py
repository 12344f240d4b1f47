"""Claims about one set of models: a number, a bound, a trend. Those that compare two sets are in `comparisons`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from untwine.experiments.engine.findings import LEAST, Finding, Where, same, short, too_few
from untwine.experiments.engine.rows import Rows
from untwine.metrics import statistics


@dataclass(frozen=True)
class Near:
    """The mean over models is the paper's number, up to a margin (two one-sided t-tests).

    Args:
        text: The claim in words.
        measure: What was measured.
        of: The columns of the models.
        within: The largest difference from the paper's number that counts as none.
    """

    text: str
    measure: str
    of: Where
    within: float

    def find(self, rows: Rows, published: Rows) -> Finding:
        values = rows.where(measure=self.measure, **self.of).values
        theirs = fmean(published.where(measure=self.measure, **self.of).values)
        if len(values) < LEAST:
            return too_few(self.text, len(values), short(theirs))
        test = statistics.against(values, theirs)
        agrees, p, why = same(test, self.within)
        name, ours = f"two one-sided t, within {self.within:g}", short(fmean(values))
        return Finding(self.text, agrees, ours, short(theirs), name, p, None, test.effect, len(values), why=why)


@dataclass(frozen=True)
class Beyond:
    """The mean over models is above a bound, or below it (Student's t-test).

    Args:
        text: The claim in words.
        measure: What was measured.
        of: The columns of the models.
        bound: The bound.
        above: Whether the mean is said to be above it.
    """

    text: str
    measure: str
    of: Where
    bound: float
    above: bool = True

    def find(self, rows: Rows, published: Rows) -> Finding:
        values = rows.where(measure=self.measure, **self.of).values
        theirs = published.where(measure=self.measure, **self.of).values
        paper = short(fmean(theirs)) if theirs else ""
        if len(values) < LEAST:
            return too_few(self.text, len(values), paper)
        test = statistics.against(values, self.bound)
        agrees = test.difference > 0 if self.above else test.difference < 0
        # Models that are all the same, such as a share of 100 percent, need no test.
        name = "Student's t" if test.p is not None else ""
        return Finding(self.text, agrees, short(fmean(values)), paper, name, test.p, None, test.effect, len(values))


@dataclass(frozen=True)
class Trend:
    """A measure rises, or falls, along a column (Spearman's rank correlation over all models).

    Args:
        text: The claim in words.
        measure: What was measured.
        along: The column, whose values are numbers.
        of: The columns of the models.
        rising: Whether it is said to rise.
    """

    text: str
    measure: str
    along: str
    of: Where = field(default_factory=dict)
    rising: bool = True

    def find(self, rows: Rows, published: Rows) -> Finding:
        chosen = [row for row in rows.where(measure=self.measure, **self.of) if row.get("value") is not None]
        pairs = [(row[self.along], row["value"]) for row in chosen if self.along in row]
        return _correlated(self.text, pairs, self.rising)


@dataclass(frozen=True)
class Related:
    """Two measures of the same models rise together, or one falls as the other rises (Spearman's rank correlation).

    Args:
        text: The claim in words.
        first: A measure.
        second: Another.
        of: The columns of the models.
        rising: Whether both are said to rise together.
        same: The columns that tell models apart.
    """

    text: str
    first: str
    second: str
    of: Where = field(default_factory=dict)
    rising: bool = True
    same: Sequence[str] = ("seed",)

    def find(self, rows: Rows, published: Rows) -> Finding:
        sides = [rows.where(measure=name, **self.of).by(*self.same) for name in (self.first, self.second)]
        pairs = [
            (x.values[0], sides[1][key].values[0])
            for key, x in sides[0].items()
            if key in sides[1] and x.values and sides[1][key].values
        ]
        return _correlated(self.text, pairs, self.rising)


@dataclass(frozen=True)
class Exactly:
    """A number without chance is the paper's, up to a share of it.

    Args:
        text: The claim in words.
        measure: What was measured.
        of: The columns of the number.
        within: The largest relative difference.
    """

    text: str
    measure: str
    of: Where
    within: float

    def find(self, rows: Rows, published: Rows) -> Finding:
        values = rows.where(measure=self.measure, **self.of).values
        theirs = fmean(published.where(measure=self.measure, **self.of).values)
        if not values:
            return too_few(self.text, 0, short(theirs))
        ours = fmean(values)
        off = abs(ours - theirs) / abs(theirs) if theirs else abs(ours)
        return Finding(self.text, off <= self.within, short(ours), short(theirs), models=len(values))


def _correlated(text: str, pairs: Sequence[tuple[float, float]], rising: bool) -> Finding:
    if len(pairs) < LEAST:
        return too_few(text, len(pairs), "")
    known = statistics.correlation([x for x, _ in pairs], [y for _, y in pairs])
    if known.rho is None:
        return Finding(text, None, "", why="all models are the same", models=known.count)
    agrees = known.rho > 0 if rising else known.rho < 0
    words = f"rank correlation {known.rho:+.2f}"
    return Finding(text, agrees, words, "", "Spearman's", known.p, None, known.rho, known.count)
