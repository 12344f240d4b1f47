"""Models that ignore their codes: no latent is active, and scores that compare what codes say mean nothing."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from untwine.data import Dataset
from untwine.differences import listed
from untwine.metrics import Metric, Score, active_latents
from untwine.metrics.designs import among
from untwine.metrics.forced import NOT_ACTIVE
from untwine.train.ensemble import Ensemble

EXAMPLES = 1_000  # on which posterior variances are averaged


def active_counts(ensemble: Ensemble, dataset: Dataset) -> list[int | None]:
    """How many latents of each member are active: their posterior is narrower than the prior (`active_latents`).

    Where the prior is no standard normal, variances are relative to its own; None where these are not known.

    Args:
        ensemble: The models.
        dataset: Their data.
    """
    images = dataset.batch(np.sort(among(len(dataset), EXAMPLES, seed=0, purpose="active latents")))
    variances = ensemble.variances(images).double().numpy()
    scales = map(prior_variances, ensemble.priors())
    return [_count(member / scale) for member, scale in zip(variances, scales, strict=True)]


def judged(score: Score, metric: Metric[...], active: Sequence[int | None]) -> Score:
    """The score with a reason for each of the metric's ratios of members that have no active latent.

    Args:
        score: The score.
        metric: The metric.
        active: How many latents of each member are active.
    """
    if 0 not in active:
        return score
    forced = dict(score.forced)
    for name in metric.ratios:
        pairs = zip(score.reasons(name), active, strict=True)
        forced[name] = tuple(NOT_ACTIVE if count == 0 else reason for reason, count in pairs)
    return dataclasses.replace(score, forced=forced)


def warn_of_collapse(names: Sequence[str], path: Path | None) -> None:
    """Warn that these members have no active latent.

    Args:
        names: The names of the members.
        path: The folder of their run, if there is one.
    """
    if names:
        where = "" if path is None else f"{path}: "
        warnings.warn(
            f"{where}{NOT_ACTIVE} in {listed(names)}: posteriors are about as wide as the prior, so the decoder can "
            "hardly use the codes. Scores that compare what codes say, however little that is, leave these models out. "
            "Train longer, or with a smaller weight on the KL",
            stacklevel=3,
        )


def _count(variances: np.ndarray) -> int | None:
    return len(active_latents(variances)) if np.isfinite(variances).all() else None


def prior_variances(prior: Any) -> np.ndarray | float:
    """The variances of a prior's latents; NaN where they are not known."""
    try:
        return prior.variance.detach().double().cpu().numpy()
    except (NotImplementedError, AttributeError):
        return np.nan
