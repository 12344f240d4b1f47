"""Claims of papers: functions of rows that return a test, its p value, an effect size and a verdict.

A claim is reproduced if our numbers agree with it and its test says so (p below .05, corrected by Holm for the number
of tests of one figure); partly if they agree but the test does not decide; not, if they do not agree. A claim about
numbers without chance, such as a pixel's mean, has no test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from untwine.experiments.engine.rows import Rows
from untwine.metrics import statistics

Verdict: TypeAlias = Literal["reproduced", "partly", "not", "not testable here"]
REPRODUCED: Verdict = "reproduced"
PARTLY: Verdict = "partly"
NOT: Verdict = "not"
UNTESTABLE: Verdict = "not testable here"
LEVEL = 0.05
LEAST = statistics.LEAST_FOR_INTERVAL  # models on each side of a test

Where: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """What our numbers say of a claim.

    Args:
        text: The claim.
        agrees: Whether our numbers agree with it; None where they cannot say.
        ours: Our numbers, in words.
        paper: The paper's numbers, in words, where it has any.
        test: The name of the test; "" for numbers without chance.
        p: Its p value.
        corrected: The p value corrected for the number of tests of the figure.
        effect: The effect size: Cohen's d, or a rank correlation.
        models: How many models the test is about.
        verdict: The verdict, once the p value is corrected.
        why: Why it is not testable, or what is missing.
    """

    text: str
    agrees: bool | None
    ours: str
    paper: str = ""
    test: str = ""
    p: float | None = None
    corrected: float | None = None
    effect: float | None = None
    models: int = 0
    verdict: Verdict = UNTESTABLE
    why: str = ""


@runtime_checkable
class Claim(Protocol):
    """What a paper says, to be compared with rows."""

    text: str

    def find(self, rows: Rows, published: Rows) -> Finding:
        """The finding of these rows, its p value not yet corrected, beside the paper's rows."""
        ...


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
        paper = _against(*map(fmean, theirs)) if all(theirs) else ""
        if min(len(a), len(b)) < LEAST:
            return _too_few(self.text, min(len(a), len(b)), paper)
        test = statistics.compare(a, b)
        ours = _against(fmean(a), fmean(b))
        count = len(a) + len(b)
        return Finding(self.text, test.difference > 0, ours, paper, "Welch's t", test.p, None, test.effect, count)

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
        a, b = (rows.where(measure=self.measure, **{**self.at, **side}).values for side in (self.first, self.second))
        if min(len(a), len(b)) < LEAST:
            return _too_few(self.text, min(len(a), len(b)), "")
        test = statistics.exceedance(a, b)
        ours = f"best {_against(max(a), max(b))}; {test.count} of {test.among} are above the latter"
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
        a, b = (rows.where(measure=self.measure, **{**self.at, **side}).values for side in (self.first, self.second))
        theirs = [
            published.where(measure=self.measure, **{**self.at, **side}).values for side in (self.first, self.second)
        ]
        paper = _against(*map(fmean, theirs)) if all(theirs) else ""
        if min(len(a), len(b)) < LEAST:
            return _too_few(self.text, min(len(a), len(b)), paper)
        test = statistics.compare(a, b)
        p, ours = statistics.alike(test, self.within), _against(fmean(a), fmean(b))
        agrees, name = abs(test.difference) < self.within, f"two one-sided t, within {self.within:g}"
        return Finding(self.text, agrees, ours, paper, name, p, None, test.effect, len(a) + len(b))


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
            return _too_few(self.text, len(values), _short(theirs))
        test = statistics.against(values, theirs)
        p, agrees = statistics.alike(test, self.within), abs(test.difference) < self.within
        name = f"two one-sided t, within {self.within:g}"
        return Finding(
            self.text, agrees, _short(fmean(values)), _short(theirs), name, p, None, test.effect, len(values)
        )


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
        paper = _short(fmean(theirs)) if theirs else f"{'above' if self.above else 'below'} {_short(self.bound)}"
        if len(values) < LEAST:
            return _too_few(self.text, len(values), paper)
        test = statistics.against(values, self.bound)
        agrees = test.difference > 0 if self.above else test.difference < 0
        # Models that are all the same, such as a share of 100 percent, need no test.
        name = "Student's t" if test.p is not None else ""
        return Finding(self.text, agrees, _short(fmean(values)), paper, name, test.p, None, test.effect, len(values))


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
            return _too_few(self.text, 0, _short(theirs))
        ours = fmean(values)
        off = abs(ours - theirs) / abs(theirs) if theirs else abs(ours)
        return Finding(self.text, off <= self.within, _short(ours), _short(theirs), models=len(values))


def judge(claims: Sequence[Claim], rows: Rows, published: Rows, hidden: str = "") -> list[Finding]:
    """The findings of all claims of a figure, their p values corrected for being several, each with its verdict.

    Args:
        claims: What the paper says.
        rows: Our numbers.
        published: The paper's.
        hidden: Why these numbers cannot show it, if that is known beforehand.
    """
    findings = [claim.find(rows, published) for claim in claims]
    tested = [i for i, finding in enumerate(findings) if finding.p is not None]
    corrected = statistics.holm([findings[i].p or 0.0 for i in tested])
    for i, p in zip(tested, corrected, strict=True):
        findings[i] = dataclasses.replace(findings[i], corrected=p)
    return [_judged(finding, hidden) for finding in findings]


def overall(findings: Sequence[Finding]) -> Verdict:
    """The verdict on a figure: that of its claims if they agree, else partly; those not testable do not count.

    >>> overall([Finding("a", True, "1", verdict="reproduced"), Finding("b", False, "1", verdict="not")])
    'partly'
    """
    verdicts: set[Verdict] = {finding.verdict for finding in findings if finding.verdict != UNTESTABLE}
    return UNTESTABLE if not verdicts else verdicts.pop() if len(verdicts) == 1 else PARTLY


def _judged(finding: Finding, hidden: str) -> Finding:
    if finding.agrees is None or hidden:
        return dataclasses.replace(finding, verdict=UNTESTABLE, why=finding.why or hidden)
    if not finding.agrees:
        return dataclasses.replace(finding, verdict=NOT)
    if finding.test and (finding.corrected is None or finding.corrected >= LEVEL):
        return dataclasses.replace(finding, verdict=PARTLY, why="our numbers agree, but the test does not decide")
    return dataclasses.replace(finding, verdict=REPRODUCED)


def _correlated(text: str, pairs: Sequence[tuple[float, float]], rising: bool) -> Finding:
    if len(pairs) < LEAST:
        return _too_few(text, len(pairs), "")
    known = statistics.correlation([x for x, _ in pairs], [y for _, y in pairs])
    if known.rho is None:
        return Finding(text, None, "", why="all models are the same", models=known.count)
    agrees = known.rho > 0 if rising else known.rho < 0
    words = f"rank correlation {known.rho:+.2f}"
    return Finding(text, agrees, words, "", "Spearman's", known.p, None, known.rho, known.count)


def _too_few(text: str, count: int, paper: str) -> Finding:
    why = "there are no numbers" if not count else f"{count} models are too few for a test: it needs {LEAST}"
    return Finding(text, None, "", paper, models=count, why=why)


def _against(first: float, second: float) -> str:
    return f"{_short(first)} against {_short(second)}"


def _short(number: float) -> str:
    return f"{number:.3g}"
