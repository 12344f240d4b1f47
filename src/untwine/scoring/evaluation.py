"""Score a run: `untwine.evaluate`, and the command of that name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from untwine.arguments import checked
from untwine.data import Dataset
from untwine.data.specs import short_name, source
from untwine.differences import own_numbers
from untwine.errors import UntwineError, warn
from untwine.scores import storage
from untwine.scores.scores import Scores
from untwine.scoring.collapse import active_counts, judged, warn_of_collapse
from untwine.scoring.requests import Conditions, requests
from untwine.scoring.scorer import Scorer, default_radius
from untwine.train.ensemble import Ensemble
from untwine.train.folders.record import Record
from untwine.train.loading import load
from untwine.train.run import Run


class PartlyScored(UntwineError):
    """Some metrics failed; `scores` has those that did not, which are stored."""

    def __init__(self, scores: Scores, failures: Sequence[str]):
        super().__init__("\n".join(dict.fromkeys(failures)))
        self.scores = scores


def refuse_impossible(
    metrics: Sequence[str | Callable[..., Any]],
    rho: Sequence[float] = (),
    windows: int = 20,
    points: int | None = None,
    examples: int = 10_000,
    jacobians: int = 1_000,
) -> None:
    """Raise an error for what can be asked of no run; see `evaluate` for the arguments."""
    requests(metrics)
    for radius in rho or [None]:
        Conditions(radius, windows, points, examples, jacobians)


@checked("run", "metrics", "device")
def evaluate(
    run: str | Path | Ensemble,
    metrics: str | Callable[..., Any] | Sequence[str | Callable[..., Any]] = (),
    *,
    rho: float | Sequence[float] = (),
    windows: int = 20,
    points: int | None = None,
    examples: int = 10_000,
    jacobians: int = 1_000,
    seed: int = 0,
    gaussian: bool = False,
    wrap: bool = True,
    device: str = "auto",
    again: bool = False,
    dataset: Dataset | None = None,
    progress: bool | None = None,
) -> Scores:
    """Score the finished members of a run with any metrics, and return their scores.

    Scores of a run's folder are kept in its `scores.json`: what was scored before, in the same way by the same version,
    is not computed again. So are those of an ensemble that has a folder which can be written to; other ensembles keep
    theirs in memory (`ensemble.scores`). Runs that are scored with the same seed are scored on the same states. Where
    states have no example, or several, metrics are on training examples, and those that need interventions are refused.
    If a metric fails, the others are computed and stored all the same before the error is raised, which has them.

    Args:
        run: The folder of a run, or what `fit` and `load` return.
        metrics: One or several names, with arguments in brackets if need be, a metric's own or, for it alone, those
            below: mig, local-mig, "dci(estimator=sklearn, points=1000)", "local-mig(rho=0.2)". There `sampling_seed`
            is the seed of the sample, and `seed` a metric's own. By default mig and modularity, and their local forms
            unless all factors are categorical, or windows hold too few examples; without factors hoyer, delta-kl and
            dto.
        rho: Radii of the windows of local metrics, as fractions of each factor's range. By default 0.1, or what
            moves the factor with most values by one step.
        windows: How many windows a local metric is averaged over.
        points: States in a sample, or examples, none twice and no more than there are; by default those of the
            metric's sampling design, and 10,000 in each window.
        examples: Training examples for metrics that need no factors.
        jacobians: Training examples at which dto takes Jacobians.
        seed: Seed of the windows, the states, and whatever is random in a metric.
        gaussian: Map codes to a normal by their prior's distribution function first, as mathieu2019 does for Student-t.
        wrap: Whether the last value of a cyclic factor is next to its first: windows continue at the other end, and
            knn-score and the regression of sap measure on the circle. Without it cyclic factors are taken as ordered.
        device: auto, cpu, cuda or mps; an ensemble stays where it is.
        again: Compute also what was scored before.
        dataset: The data of the run, where they were an array in memory; by default they are made from its spec.
        progress: Whether to show progress bars; by default on a terminal.
    """
    radii = [rho] if isinstance(rho, int | float) else list(rho)
    if not isinstance(metrics, Sequence) or isinstance(metrics, str):
        metrics = [metrics]
    refuse_impossible(metrics, radii, windows, points, examples, jacobians)
    ensemble, members, path = _opened(run, device)
    data = ensemble.dataset() if dataset is None else dataset
    if dataset is not None:
        _warn_of_others(ensemble, dataset)
    scorer = Scorer(ensemble, data, progress)
    conditions = [
        Conditions(radius, windows, points, examples, jacobians, seed, gaussian, wrap)
        for radius in radii or [default_radius(data)]
    ]
    wanted = [
        request.under(each)
        for request in requests(metrics or scorer.defaults(radii, conditions[0]))
        for each in (conditions if request.local else conditions[:1])
    ]
    by_key = {storage.key({"metric": request.name, "asked": scorer.conditions(request)}): request for request in wanted}
    stored = [*([] if path is None else storage.read(path)), *ensemble.entries]
    storage.warn_of_other_weights(stored, members)
    known = {storage.key(entry): entry for entry in stored}
    missing = [request for key, request in by_key.items() if again or not storage.is_current(known.get(key), members)]
    active = active_counts(ensemble, data) if missing else []
    kept = path is not None and os.access(path, os.W_OK)
    if missing and path is not None and not kept:
        warn(f"{path} cannot be written to: what is scored now is not kept")
    failures = []
    for request, score in scorer.scores(missing):
        if isinstance(score, UntwineError):
            failures.append(request.failure(score))
            continue
        score = judged(score, request.metric, active)
        entry = storage.to_entry(score, scorer.label(request), scorer.conditions(request), members, active)
        if kept and path is not None:
            storage.write(path, entry)
        else:
            ensemble.entries = storage.added(ensemble.entries, entry)
        known[storage.key(entry)] = entry
    scores = Scores(
        [
            storage.select(known[key], members, scorer.label(request))
            for key, request in by_key.items()
            if storage.is_current(known.get(key), members)
        ]
    )
    warn_of_collapse(scores.collapsed(), path)
    if failures:
        raise PartlyScored(scores, failures)
    return scores


def _warn_of_others(ensemble: Ensemble, dataset: Dataset) -> None:
    """Warn where the examples to score on are of another kind than those of the run: no other part of its data."""
    if any(source(member.spec["dataset"]) != source(dataset.spec) for member in ensemble.members):
        warn(
            f"these models were not trained on {short_name(dataset):.200}, and may never have seen such examples: "
            "their scores may mean nothing"
        )


def _opened(run: str | Path | Ensemble | Run, device: str) -> tuple[Ensemble, dict[str, dict[str, Any]], Path | None]:
    """The trained members of a run, what scores.json says of each, and the folder for that file. Reads run.json once.

    Which numbers differ by member depends on all members of a folder, also on those that are not finished.
    """
    if isinstance(run, Run):
        raise UntwineError("this run is not trained: evaluate the ensemble that fit(run) returns, or the run's folder")
    if isinstance(run, Ensemble):
        ensemble, path = run, run.path
        if path is not None and not (path / "run.json").exists():
            path = None
        record = None if path is None else Record.read(path)
    else:
        record = Record.read(run)
        path = record.path
        ensemble = load(record, device)
    if record is None:
        specs = {member.name: member.spec for member in ensemble.members}
    else:
        specs = {entry["name"]: entry["spec"] for entry in record.entries}
    own = dict(zip(specs, own_numbers(list(specs.values())), strict=True))
    return (
        ensemble,
        {name: {**identity, "own": own.get(name, {})} for name, identity in ensemble.identities().items()},
        path,
    )
