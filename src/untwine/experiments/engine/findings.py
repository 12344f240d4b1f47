"""What our numbers say of a claim, and the verdict.

A claim is reproduced if our numbers agree with it and its test says so (p below .05, corrected by Holm for the number
of tests of one figure); partly if they agree but the test does not decide; not, if they do not agree. A claim about
numbers without chance, such as a pixel's mean, has no test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from untwine.experiments.engine.rows import Rows
from untwine.metrics import statistics

Verdict: TypeAlias = Literal["reproduced", "partly", "not", "not testable here"]
REPRODUCED: Verdict = "reproduced"
PARTLY: Verdict = "partly"
NOT: Verdict = "not"
UNTESTABLE: Verdict = "not testable here"
Where: TypeAlias = Mapping[str, Any]  # columns of rows, and their values
LEVEL = 0.05
LEAST = statistics.LEAST_FOR_INTERVAL  # models on each side of a test


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

    @property
    def text(self) -> str:
        """The claim in words."""
        ...

    def find(self, rows: Rows, published: Rows) -> Finding:
        """The finding of these rows, its p value not yet corrected, beside the paper's rows."""
        ...


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
    if finding.agrees is None:
        return dataclasses.replace(finding, verdict=UNTESTABLE, why=finding.why or hidden)
    if hidden:
        return dataclasses.replace(finding, verdict=UNTESTABLE, why=hidden)
    if not finding.agrees:
        return dataclasses.replace(finding, verdict=NOT)
    if finding.test and (finding.corrected is None or finding.corrected >= LEVEL):
        return dataclasses.replace(finding, verdict=PARTLY, why="our numbers agree, but the test does not decide")
    return dataclasses.replace(finding, verdict=REPRODUCED)


def too_few(text: str, count: int, paper: str) -> Finding:
    why = "there are no numbers" if not count else f"{count} models are too few for a test: it needs {LEAST}"
    return Finding(text, None, "", paper, models=count, why=why)


def same(test: statistics.Comparison, within: float) -> tuple[bool, float | None, str]:
    """Whether a difference may count as none, the p value of its being within a margin, and what speaks against it.

    Args:
        test: The test of the difference.
        within: The margin.
    """
    p, inside = statistics.alike(test, within), abs(test.difference) < within
    if inside and test.p is not None and test.p < LEVEL and (p is None or p >= LEVEL):
        return False, p, f"the difference is no chance (p = {test.p:.2g}), and may be larger than {within:g}"
    return inside, p, ""


def against(first: float, second: float) -> str:
    return f"{short(first)} against {short(second)}"


def short(number: float) -> str:
    return f"{number:.3g}"
