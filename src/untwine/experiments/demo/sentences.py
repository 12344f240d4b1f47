"""The demo's numbers in words: every sentence follows from a test."""

from __future__ import annotations

from dataclasses import dataclass

from untwine.experiments.demo.plan import WORDS
from untwine.experiments.engine.findings import NOT, PARTLY, REPRODUCED, Finding
from untwine.experiments.engine.rows import Rows
from untwine.experiments.rhodes2021.published import BETA_VAE, JL1
from untwine.metrics.statistics import summary

METHODS = (BETA_VAE, JL1)


@dataclass(frozen=True)
class Told:
    """A number of both methods, and what a test says of their difference.

    Args:
        measure: The name of the measure.
        what: What it is, in words.
        values: The mean over each method's models and its interval of 95 percent, by method.
        sentence: What the test says.
    """

    measure: str
    what: str
    values: dict[str, str]
    sentence: str


def told(rows: Rows, findings: dict[str, Finding]) -> list[Told]:
    """What there is to say, a line for each measure.

    Args:
        rows: The measurements.
        findings: What they say of each claim, by measure.
    """
    return [
        Told(
            measure,
            what,
            {method: mean(rows.where(method=method, measure=measure).values) for method in METHODS},
            sentence(findings[measure]),
        )
        for measure, what in WORDS.items()
    ]


def mean(values: list[float]) -> str:
    """The mean of models and its interval of 95 percent; of fewer than three models the mean alone.

    >>> mean([0.5, 0.6, 0.7]), mean([0.5, 0.6]), mean([])
    ('0.600 (0.352 to 0.848)', '0.550', 'none')
    """
    if not values:
        return "none"
    known = summary(values, resamples=1)
    if known.interval is None:
        return _short(known.mean)
    return f"{_short(known.mean)} ({_short(known.interval[0])} to {_short(known.interval[1])})"


def sentence(finding: Finding) -> str:
    """A claim, and whether a test bears it out.

    >>> finding = Finding("It is larger", True, "2 against 1", corrected=0.2, effect=0.9, models=10, verdict=PARTLY)
    >>> sentence(finding)
    'It is larger: perhaps: it is so in this run, but 10 models cannot tell it from chance (p = 0.2, effect +0.9).'
    """
    numbers = f"p = {finding.corrected:.2g}, effect {finding.effect:+.1f}" if finding.corrected is not None else ""
    verdicts = {
        REPRODUCED: f"yes ({numbers}).",
        PARTLY: f"perhaps: it is so in this run, but {finding.models} models cannot tell it from chance ({numbers}).",
        NOT: f"no, not in this run ({numbers}).",
    }
    return f"{finding.text}: {verdicts.get(finding.verdict, f'not tested, as {finding.why}.')}"


def _short(number: float) -> str:
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.3f}"
