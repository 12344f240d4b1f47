"""Score a run: what metrics ask for is sampled and encoded, and their scores are kept in `scores.json`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from untwine.errors import UntwineError
from untwine.scoring import results, scores
from untwine.scoring.requests import Request, requests
from untwine.scoring.scorer import Scorer, default_radius
from untwine.scoring.sources import Source
from untwine.train.ensemble import load
from untwine.train.folder import stored


class Partly(UntwineError):
    """Some metrics failed; `found` has what the others gave, which is stored."""

    def __init__(self, found: list[dict[str, Any]], failures: Sequence[str]):
        super().__init__("\n".join(dict.fromkeys(failures)))
        self.found = found


def check(metrics: Sequence[str], rho: Sequence[float], windows: int, points: int | None) -> None:
    """Refuse at once what no run can be asked for."""
    requests(metrics)
    for radius in rho:
        if not 0 < radius <= 1:
            raise UntwineError(f"rho is a fraction of each factor's range, above 0 and at most 1, not {radius:g}")
    if windows < 1:
        raise UntwineError(f"windows must be 1 or more, not {windows}")
    if points is not None and points < 2:
        raise UntwineError(f"points must be 2 or more, not {points}")


def run(
    path: str | Path,
    metrics: tuple[str, ...] = (),
    rho: tuple[float, ...] = (),
    windows: int = 20,
    points: int | None = None,
    examples: int = 10_000,
    jacobians: int = 1_000,
    seed: int = 0,
    gaussian: bool = False,
    device: str = "auto",
    again: bool = False,
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """Score the finished members of a run's folder, write `scores.json` there, and return what was asked for.

    What the folder already holds, asked in the same way of the same version, is not computed again. Models that are
    compared with the same seed are compared on the same states. Where states have no example, or several, metrics are
    on training examples, and those that need interventions are refused. If a metric fails, the others are computed
    and stored all the same.

    Args:
        path: The folder of a run.
        metrics: Names, with a metric's own arguments in brackets if need be: mig, local-mig, "dci(estimator=sklearn)".
            By default mig and modularity, and their local forms unless all factors are categorical, or windows hold
            too few examples; without factors hoyer, delta-kl and dto.
        rho: Radii of the windows of local metrics, as fractions of each factor's range. By default 0.1, or what
            moves the factor with most values by one step.
        windows: How many windows a local metric is averaged over.
        points: States in a sample; by default those of the metric's sampling design, and 10,000 in each window. Of
            examples no more than there are.
        examples: Training examples for metrics that need no factors.
        jacobians: Training examples at which dto takes Jacobians.
        seed: Of the windows, the states, and whatever is random in a metric.
        gaussian: Map codes to a normal by their prior's distribution function first, as mathieu2019 does for Student-t.
        device: auto, cpu, cuda or mps.
        again: Compute also what is there already.
    """
    path = Path(path)
    check(metrics, rho, windows, points)
    ensemble = load(path, device)
    if not os.access(path, os.W_OK):
        raise UntwineError(f"{path} cannot be written to, so its scores could not be kept: copy it to where it can")
    dataset = stored(path).make_dataset()
    source = Source(ensemble, dataset, examples, jacobians, seed, gaussian)
    scorer = Scorer(source, windows, points, progress)
    asked = [
        Request(one.metric, one.arguments, one.local, radius)
        for one in requests(metrics or scorer.defaults(rho))
        for radius in (rho or [default_radius(dataset)] if one.local else [None])
    ]
    own = {name: member["own"] for name, member in results.members(path).items()}
    members = {member.name: {"id": member.id, "own": own[member.name]} for member in ensemble.members}
    held = {scores.key(entry): entry for entry in scores.read(path)}
    keys = {scores.key({"metric": one.name, "asked": scorer.asked(one)}): one for one in asked}
    missing = [one for key, one in keys.items() if again or not scores.holds(held.get(key), members)]
    failures = []
    for one, score in scorer.scores(missing):
        if isinstance(score, UntwineError):
            failures.append(one.failure(score))
            continue
        entry = scores.entry(score, one.label, scorer.asked(one), members)
        scores.write(path, entry)
        held[scores.key(entry)] = entry
    found = [
        scores.only(held[key], members) | {"label": one.label}  # as it is asked for now
        for key, one in keys.items()
        if scores.holds(held.get(key), members)
    ]
    if failures:
        raise Partly(found, failures)
    return found
