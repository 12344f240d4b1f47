"""Why a score cannot be otherwise: reasons that have nothing to do with how good a model is.

A metric names its checks when it is registered (`@metric(forced={"value": between_factors})`). A check takes the
details of a score and the arrays of one model, and returns the reason, or None. A value with a reason is still in
`Score.values`, as the definition has it; summaries, tables and comparisons leave it out and give the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from untwine.metrics.arrays import varying

VALUE = "value"  # the name of a score's value beside those of its parts
ONE_FACTOR = "only one factor varies"
ONE_CODE = "only one code varies"
NO_CODE = "no code varies"
NOT_ACTIVE = "no latent is active"


def between_factors(details: Mapping[str, Any], codes: np.ndarray, factors: np.ndarray) -> str | None:
    """The reason why a score that tells factors apart is constant: a single factor, or codes that never vary.

    Args:
        details: Those of the score.
        codes: Codes `[*samples, d]`.
        factors: Factors `[*samples, k]`, those that vary.

    >>> between_factors({}, np.eye(4), np.eye(4)[:, :1].astype(int))
    'only one factor varies'
    """
    if factors.shape[-1] < 2:
        return ONE_FACTOR
    return None if varying(codes).any() else NO_CODE


def between_codes(details: Mapping[str, Any], codes: np.ndarray, factors: np.ndarray | None = None) -> str | None:
    """The reason why a score that tells codes apart is constant: fewer than two codes vary.

    Args:
        details: Those of the score.
        codes: Codes `[*samples, d]`.
        factors: Not looked at.

    >>> between_codes({}, np.eye(4)[:, :1]), between_codes({}, np.eye(4))
    ('only one code varies', None)
    """
    return too_few_codes(int(varying(codes).sum()))


def between_both(details: Mapping[str, Any], codes: np.ndarray, factors: np.ndarray) -> str | None:
    """The reason why a score that tells factors apart by which of the codes they move is constant.

    Args:
        details: Those of the score.
        codes: Codes `[*samples, d]`.
        factors: Factors `[*samples, k]`, those that vary.

    >>> between_both({}, np.eye(4)[:, :1], np.eye(4, dtype=int))
    'only one code varies'
    """
    return between_factors(details, codes, factors) or between_codes(details, codes)


def values_once(details: Mapping[str, Any], codes: np.ndarray, factors: np.ndarray) -> str | None:
    """The reason why values cannot be learned: each occurs once, and so never in training and in the test.

    Args:
        details: Those of the score.
        codes: Not looked at.
        factors: Factors `[n, k]`, those that vary.

    >>> values_once({}, np.eye(3), np.array([[0, 2], [1, 1], [2, 0]]))
    'no value of a factor occurs twice'
    """
    repeated = any(len(np.unique(column)) < len(column) for column in factors.reshape(-1, factors.shape[-1]).T)
    return None if repeated else "no value of a factor occurs twice"


def too_few_codes(count: int) -> str | None:
    """The reason why a comparison of this many codes says nothing.

    >>> too_few_codes(0), too_few_codes(2)
    ('no code varies', None)
    """
    return (NO_CODE, ONE_CODE, None)[min(count, 2)]


def in_windows(reasons: Sequence[str | None]) -> tuple[str | None, str | None]:
    """For a mean over windows: why it cannot be otherwise, and what to say of windows that are left out.

    Args:
        reasons: The reason of each window, None for those that count.

    >>> in_windows(["only one factor varies", None, None])
    (None, '1 of 3 windows left out, as only one factor varies')
    >>> in_windows(["only one factor varies"] * 3)
    ('only one factor varies in every window', None)
    """
    without = [reason for reason in reasons if reason is not None]
    if not without:
        return None, None
    text = " or ".join(dict.fromkeys(without))
    if len(without) == len(reasons):
        return f"{text} in every window", None
    return None, f"{len(without)} of {len(reasons)} windows left out, as {text}"
