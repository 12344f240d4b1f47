"""How sparse codes are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64

from untwine.errors import UntwineError
from untwine.metrics.arrays import dead_codes
from untwine.metrics.forced import too_few_codes
from untwine.metrics.score import UNIT, Outcome, metric


def _between_live_codes(details: Mapping[str, Any], codes: np.ndarray) -> str | None:
    return too_few_codes(details["codes_compared"])


@metric(bounds=UNIT, forced={"value": _between_live_codes}, ratios=("value",))
def hoyer(codes: Float64[np.ndarray, "n d"], normalise: bool = True) -> Outcome:
    """Sparsity: mean over samples of (sqrt(d) - |z|_1 / |z|_2) / (sqrt(d) - 1), codes divided by their deviations.

    mathieu2019, section 6.3 (Hurley & Rickard 2008): 0 for a sample whose codes all have the same magnitude, 1 for
    one with a single code that is not 0. Each code is first divided by its standard deviation over the samples, so
    that codes on smaller scales do not count as off; nothing is centred. Independent Gaussian codes have about .27
    at d = 10 (tending to 1 - sqrt(2 / pi) = .2 for many).

    What the definition leaves open: a dead code has no scale, and is left out, from d too: or a model would be sparse
    by switching codes off. Fewer than two codes that live have 0. A sample of zeros alone makes use of no code, rather
    than of few, and counts as 0.

    Args:
        codes: Codes `[n, d]`, or `[members, n, d]` of a pack.
        normalise: Whether codes are divided by their standard deviations.

    >>> float(hoyer(np.eye(4))), float(hoyer(np.ones((3, 4)), normalise=False))
    (1.0, 0.0)
    """
    if codes.shape[1] < 2:
        raise UntwineError("hoyer compares latents with each other: it needs models of two or more latents, not 1")
    if normalise:
        deviation = codes.std(0)
        deviation[dead_codes(codes)] = 0  # exactly, whatever rounding does
        codes = codes[:, deviation > 0] / deviation[deviation > 0]
    d = codes.shape[1]
    if d < 2:
        return 0.0, {"samples_of_zeros": 0, "codes_compared": d}
    # Relative to a sample's largest magnitude, so that no square is too large or too small for a float.
    magnitudes = np.abs(codes)
    largest = magnitudes.max(1, keepdims=True)
    on = largest[:, 0] > 0
    magnitudes = magnitudes / np.where(largest > 0, largest, 1)
    norm = np.sqrt((magnitudes**2).sum(1))
    ratio = magnitudes.sum(1) / np.where(on, norm, 1)
    by_sample = np.where(on, (np.sqrt(d) - ratio) / (np.sqrt(d) - 1), 0.0)
    # Rounding may pass the bounds by a last digit.
    details = {"samples_of_zeros": int((~on).sum()), "codes_compared": d}
    return float(np.clip(by_sample, 0, 1).mean()), details
