"""Score a run: whatever metrics ask for is sampled, encoded once for all members, and kept in `scores.json`."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untwine import metrics, naming
from untwine.data import Dataset
from untwine.data.windows import Window, whole
from untwine.errors import UntwineError
from untwine.experiments import results, scores
from untwine.experiments.sources import Source
from untwine.metrics.designs import Design
from untwine.metrics.encoder import Encoder
from untwine.metrics.local import Bound, averaged, bind, can_move, described, drawn, windows_of
from untwine.progress import counter
from untwine.train.ensemble import load
from untwine.train.folder import stored

SCORED = ("mig", "modularity", "local-mig", "local-modularity")  # by default, where there are factors
GLOBAL = ("mig", "modularity")  # where these have no windows
UNSCORED = ("hoyer", "delta-kl", "dto")  # where there are none
PAIRED = ("codes", "factors")


class Partly(UntwineError):
    """Some metrics failed; `found` has what the others gave, which is stored."""

    def __init__(self, found: list[dict[str, Any]], failures: Sequence[str]):
        super().__init__("; ".join(failures))
        self.found = found


@dataclass(frozen=True)
class Request:
    """A metric with its arguments, on all the data or on windows of a radius."""

    metric: metrics.Metric[...]
    arguments: dict[str, Any]
    local: bool = False
    radius: float | None = None

    @property
    def name(self) -> str:
        return ("local_" if self.local else "") + self.metric.__name__

    @property
    def label(self) -> str:
        """As it was asked for: `local-mig(bins=10)`."""
        arguments = ", ".join(f"{key}={value}" for key, value in self.arguments.items())
        return self.name.replace("_", "-") + (f"({arguments})" if arguments else "")

    def failure(self, error: UntwineError) -> str:
        """What went wrong, in the name of what was asked for rather than of the metric, and that only once."""
        name = self.metric.__name__
        said = str(error).replace(f" of metric {name!r}", "")
        rest = said.removeprefix(name)
        return self.label + (rest if rest != said and rest[:1] in (":", " ") else f": {said}")


def requests(names: Sequence[str]) -> list[Request]:
    """What texts ask for: `mig`, `local-mig`, `dci(estimator=sklearn)`."""
    table = {}
    for name in metrics.names():
        metric = metrics.get(name)
        table[name] = _maker(metric, False)
        if metric.takes == PAIRED:
            table[f"local_{name}"] = _maker(metric, True)
    for text in names:
        bare = text.partition("(")[0].replace("-", "_").removeprefix("local_")
        if text.startswith("local") and bare in table and f"local_{bare}" not in table:
            of = ", ".join(metrics.get(bare).takes)
            raise UntwineError(f"{bare.replace('_', '-')} has no local form: it is a function of {of}, not of factors")
    return [naming.read("metric", text, table) for text in names]


def _maker(metric: metrics.Metric[...], local: bool) -> Any:
    """A function with the metric's options, all by name."""

    def make(**arguments: Any) -> Request:
        return Request(metric, arguments, local)

    parameters = inspect.signature(metric).parameters
    options = [parameters[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in metric.options]
    make.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return make


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


def default_radius(dataset: Dataset) -> float:
    """The paper's 0.1, or the least radius at which an ordered factor varies.

    >>> import untwine.datasets
    >>> default_radius(untwine.datasets.xy_squares())  # of 8 values
    0.125
    """
    kinds = zip(dataset.factors.sizes, dataset.factors.kinds, strict=True) if dataset.factors else ()
    return max(0.1, 1 / max((size for size, kind in kinds if kind != "categorical"), default=1))


class Scorer:
    """Draws the samples that requests need, those of one design for all its metrics at once."""

    def __init__(self, source: Source, windows: int, points: int | None, progress: bool | None):
        self.source, self.windows, self.points, self.progress = source, windows, points, progress
        self.encoder = Encoder(source.encode, source.dataset)  # one for all: radii and designs may share states

    def defaults(self, rho: Sequence[float]) -> tuple[str, ...]:
        """What is asked for where nothing is named."""
        space = self.source.dataset.factors
        if space is None:
            return UNSCORED
        if not can_move(space):
            return GLOBAL
        try:
            if not rho:  # whoever names a radius is told if there are no such windows
                windows_of(self.encoder, default_radius(self.source.dataset), 1, self.source.seed)
        except UntwineError:
            return GLOBAL
        return SCORED

    def asked(self, one: Request) -> dict[str, Any]:
        """Everything that a request's result depends on, besides the model."""
        options = one.metric.options | (one.metric.local if one.local else {}) | one.arguments
        dataset = self.source.dataset
        about: dict[str, Any] = {"options": options, "dataset": dict(dataset.spec), "seed": self.source.seed}
        if content := dataset.content:  # a folder may have changed since
            about["content"] = content
        if one.metric.takes == PAIRED:
            about["points"] = self._bound(one).points
        else:
            about["examples"] = self.source.counts["jacobians" if "jacobians" in one.metric.takes else "examples"]
        if one.local:
            about |= {"radius": one.radius, "windows": self.windows}
        if one.metric.together:
            about["models"] = [member.id for member in self.source.ensemble.members]
        return json.loads(json.dumps(about | self._mapped(one), default=str))

    def scores(self, asked: Sequence[Request]) -> Iterator[tuple[Request, metrics.Score | UntwineError]]:
        """The requests with their scores, or with what went wrong, as soon as they are known."""
        samples: dict[Any, list[tuple[Request, Bound]]] = {}
        for one in asked:
            if one.metric.takes == PAIRED:
                bound = self._bound(one)
                try:
                    bound.check(self.encoder)
                except UntwineError as error:
                    yield one, error
                else:
                    samples.setdefault((one.radius, bound.design, bound.points), []).append((one, bound))
        for (radius, design, points), those in samples.items():
            yield from self._on_samples(those, radius, design, points)
        for one in asked:
            if one.metric.takes != PAIRED:
                try:
                    yield one, self._described(one, self._of_model(one))
                except UntwineError as error:
                    yield one, error

    def _on_samples(
        self, those: list[tuple[Request, Bound]], radius: float | None, design: Design, points: int
    ) -> Iterator[tuple[Request, metrics.Score | UntwineError]]:
        """Metrics of one design: all see the same samples, and one that fails does not stop the others."""
        names = ", ".join(one.label for one, _ in those) + ("" if radius is None else f", radius {radius:g}")
        rules = {"freeze_below": None, "wrap": False}
        seed, encoder = self.source.seed, self.encoder
        found: dict[int, list[metrics.Score]] = {i: [] for i in range(len(those))}
        failed: dict[int, UntwineError] = {}
        chosen: list[Window] = []
        if not self.source.dataset.complete:
            points = min(points, len(self.source.dataset))
        try:
            with counter(names, (1 if radius is None else self.windows) * points, self.progress) as count:
                encoder.on_images = count
                chosen = [whole(encoder.space)] if radius is None else windows_of(encoder, radius, self.windows, seed)
                for sample in drawn(chosen, design, points, encoder, seed):
                    for i in found.keys() - failed.keys():
                        try:
                            found[i].append(those[i][1](sample, seed))
                        except UntwineError as error:
                            failed[i] = error
        except UntwineError as error:  # there is no such sample
            failed = dict.fromkeys(found, error)
        for i, (one, _) in enumerate(those):
            if i in failed:
                yield one, failed[i]
            else:
                score = found[i][0] if radius is None else averaged(found[i], chosen, radius, rules)
                yield one, self._described(one, score)

    def _of_model(self, one: Request) -> metrics.Score:
        told = one.metric.told(kl=self.source.kl, seed=self.source.seed)
        return one.metric(*(getattr(self.source, name) for name in one.metric.takes), **told | one.arguments)

    def _bound(self, one: Request) -> Bound:
        points = self.points or (10_000 if one.local else None)
        return bind(one.metric, points, one.local, **one.arguments)

    def _described(self, one: Request, score: metrics.Score) -> metrics.Score:
        return described(score, self.source.dataset, self.source.seed, **self._mapped(one))

    def _mapped(self, one: Request) -> dict[str, bool]:
        return {"gaussian": True} if self.source.gaussian and "codes" in one.metric.takes else {}
