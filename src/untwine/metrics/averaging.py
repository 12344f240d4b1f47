"""The mean of a metric over windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from untwine.data.windows import Window
from untwine.metrics.examples import LEAST
from untwine.metrics.forced import VALUE, in_windows
from untwine.metrics.score import Score
from untwine.metrics.windows import Windows


def average(scores: Sequence[Score], windows: Sequence[Window], chosen: Windows, small: int = 0) -> Score:
    """The mean over windows. `by_window` has the scores themselves, parts have their means.

    Windows in which a member's value cannot be otherwise are left out of its mean; `details["windows_left_out"]` says
    so. If all are such, the value is the mean over all of them, and is forced itself.

    Args:
        scores: The score of each window.
        windows: The windows themselves.
        chosen: How they were chosen.
        small: How many more windows were too small to be scored.
    """
    first = scores[0]
    by_window = np.stack([score.values for score in scores], -1)
    pack = len(by_window) > 1 or np.ndim(first.details.get("dead_codes", [0])) > 1
    details: dict[str, Any] = {"by_window": by_window if pack else by_window[0]}
    forced: dict[str, tuple[str | None, ...]] = {}
    means: dict[str, np.ndarray] = {}
    left_out: dict[str, tuple[str | None, ...]] = {}
    too_small = [f"they hold fewer than {LEAST} points"] * small
    for name in (VALUE, *first.parts):
        of_windows = by_window
        if name != VALUE:
            of_windows = np.stack([np.atleast_1d(score.details[name]) for score in scores], -1)
        reasons = [[score.reasons(name)[member] for score in scores] for member in range(len(by_window))]
        means[name] = np.array([_mean(*member) for member in zip(of_windows, reasons, strict=True)])
        why, without = zip(*(in_windows([*member, *too_small]) for member in reasons), strict=True)
        if any(why):
            forced[name] = why
        if any(without):
            left_out[name] = without
    details |= {name: means[name] if pack else means[name][0] for name in first.parts}
    details["windows_left_out"] = left_out
    details["constant_factors"] = [score.details["constant_factors"] for score in scores]
    details["dead_codes"] = [score.details["dead_codes"] for score in scores]
    details["low"] = [list(window.low) for window in windows]
    details["sizes"] = [list(window.grid.sizes) for window in windows]
    if windows[0].space.values is not None:
        details["ranges"] = [named_range(window) for window in windows]
    counts = [score.settings["samples"] for score in scores]
    samples = counts[0] if len(set(counts)) == 1 else counts  # windows hold different numbers of states or examples
    settings = {"samples": samples, "radius": chosen.radius, "windows": len(scores), **chosen.rules}
    return Score(f"local_{first.metric}", means[VALUE], details, first.settings | settings, first.parts, forced)


def _mean(values: np.ndarray, reasons: Sequence[str | None]) -> float:
    """The mean of the values without a reason, or of all where each has one."""
    counted = np.array([reason is None for reason in reasons])
    return float(values[counted].mean() if counted.any() else values.mean())


def named_range(window: Window) -> dict[str, list[Any]]:
    """The first and the last value of each factor in a window, as the data calls them."""
    space, last = window.space, np.array(window.grid.sizes) - 1
    ends = window.place(np.stack([0 * last, last]))
    return {name: space.named(column, ends[:, column]) for column, name in enumerate(space.names)}
