"""From requests to scores: on samples through the engine of `metrics.sampling`, or on what else a model yields."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from untwine.data import Dataset
from untwine.errors import UntwineError
from untwine.metrics import Score
from untwine.metrics.encoder import Encoder
from untwine.metrics.sampling import PAIRED, Task, bind, score_tasks, with_data
from untwine.metrics.windows import Windows, has_windows
from untwine.scoring.requests import Conditions, Request, applicable
from untwine.scoring.sources import Source
from untwine.train.ensemble import Ensemble

SCORED = ("mig", "modularity", "local-mig", "local-modularity")  # defaults where there are factors
GLOBAL = ("mig", "modularity")  # where these have no windows
UNSCORED = ("hoyer", "delta-kl", "dto")  # where there are no factors
LOCAL_POINTS = 10_000  # states in each window by default


def default_radius(dataset: Dataset) -> float:
    """The paper's 0.1, or the least radius of four digits at which an ordered factor varies.

    >>> import untwine.datasets
    >>> default_radius(untwine.datasets.xy_squares())  # of 8 values
    0.125
    """
    kinds = zip(dataset.factors.sizes, dataset.factors.kinds, strict=True) if dataset.factors else ()
    most = max((size for size, kind in kinds if kind != "categorical"), default=1)
    return max(0.1, math.ceil(10_000 / most) / 10_000)


class Scorer:
    """Scores requests on a pack of models and their data.

    Args:
        ensemble: The models.
        dataset: Their data.
        progress: Whether to show progress bars; None shows them on a terminal.
    """

    def __init__(self, ensemble: Ensemble, dataset: Dataset, progress: bool | None):
        self.ensemble = ensemble
        self.dataset = dataset
        self.progress = progress
        self._sources: dict[tuple[Any, ...], Source] = {}
        self._encoders: dict[bool, Encoder] = {}  # radii, designs and seeds may share states

    def defaults(self, rho: Sequence[float], conditions: Conditions) -> tuple[str, ...]:
        """The metrics to score where none are named.

        Args:
            rho: The radii that are named.
            conditions: What they are to be scored on.
        """
        space = self.dataset.factors
        if space is None:
            return UNSCORED
        if not has_windows(space):
            return GLOBAL
        try:
            if not rho:  # whoever names a radius is told if there are no such windows
                windows = Windows(default_radius(self.dataset), 1, wrap=conditions.wrap)
                windows.choose(self._encoder(conditions), conditions.sampling_seed)
        except UntwineError:
            return GLOBAL
        return SCORED

    def conditions(self, request: Request) -> dict[str, Any]:
        """Everything that a request's result depends on, besides the model, as JSON."""
        metric, conditions = request.metric, request.conditions
        options = _implied(request) | _arguments(request)
        asked: dict[str, Any] = {"options": options, "dataset": dict(self.dataset.spec)}
        if content := self.dataset.content:  # a folder may have changed since
            asked["content"] = content
        counts = {"points": self._task(request).points} if metric.takes == PAIRED else self._source(conditions).counts
        names = applicable(metric, request.local)
        known = dataclasses.asdict(conditions) | counts
        asked |= {name: known[name] for name in names if name != "gaussian" or conditions.gaussian}
        if metric.together:
            asked["models"] = [member.id for member in self.ensemble.members]
        return json.loads(json.dumps(asked, default=str))

    def label(self, request: Request) -> str:
        """The request with its radius, and all arguments and conditions that are not the defaults.

        Requests of different results have different labels, as long as the data and the models stay the same.
        """
        implied = _implied(request)
        arguments = {name: value for name, value in _arguments(request).items() if value != implied[name]}
        plain = dataclasses.replace(request, given={}, conditions=Conditions(request.conditions.rho))
        asked, default = self.conditions(request), self.conditions(plain)
        names = [name for name in applicable(request.metric, request.local) if name != "rho"]
        changed = {name: asked[name] for name in names if asked.get(name) != default.get(name)}
        return request.labelled(arguments | changed)

    def scores(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Score | UntwineError]]:
        """The requests with their scores, or with the errors that prevented them, as soon as they are known."""
        groups: dict[tuple[int, bool], list[Request]] = {}
        for request in requests:
            if request.metric.takes == PAIRED:
                group = request.conditions.sampling_seed, request.conditions.gaussian
                groups.setdefault(group, []).append(request)
        for (seed, _), on_samples in groups.items():
            encoder = self._encoder(on_samples[0].conditions)
            tasks = [self._task(request) for request in on_samples]
            for number, result in score_tasks(tasks, encoder, seed, self.progress):
                request = on_samples[number]
                yield request, result if isinstance(result, UntwineError) else _with_mapping(request, result)
        for request in requests:
            if request.metric.takes != PAIRED:
                try:
                    score = with_data(self._score_of_model(request), self.dataset, request.conditions.sampling_seed)
                    yield request, _with_mapping(request, score)
                except UntwineError as error:
                    yield request, error

    def _score_of_model(self, request: Request) -> Score:
        """The score of a metric that takes something else than codes and factors."""
        metric, source = request.metric, self._source(request.conditions)
        known = metric.known_options(seed=source.seed) | ({"kl": source.kl} if "kl" in metric.options else {})
        return metric(*(getattr(source, name) for name in metric.takes), **known | request.arguments)

    def _task(self, request: Request) -> Task:
        conditions, windows, points = request.conditions, None, request.conditions.points
        if request.local:
            radius = default_radius(self.dataset) if conditions.rho is None else conditions.rho
            wrap = request.arguments.get("wrap", conditions.wrap)  # a metric's own argument goes first
            windows = Windows(radius, conditions.windows, wrap=wrap)
            points = points or LOCAL_POINTS
        task = bind(request.metric, points, windows, **_arguments(request))
        return dataclasses.replace(task, label=request.labelled(request.arguments, radius=False))  # bars have it

    def _source(self, conditions: Conditions) -> Source:
        """The source of these conditions, one for all requests that share them."""
        key = conditions.examples, conditions.jacobians, conditions.sampling_seed, conditions.gaussian
        if key not in self._sources:
            self._sources[key] = Source(self.ensemble, self.dataset, *key)
        return self._sources[key]

    def _encoder(self, conditions: Conditions) -> Encoder:
        if conditions.gaussian not in self._encoders:
            self._encoders[conditions.gaussian] = Encoder(self._source(conditions).encode, self.dataset)
        return self._encoders[conditions.gaussian]


def _arguments(request: Request) -> dict[str, Any]:
    """The arguments of a request's metric, and whether cyclic factors go round, where that is one of its options."""
    return request.metric.known_options(wrap=request.conditions.wrap) | request.arguments


def _implied(request: Request) -> dict[str, Any]:
    """The options of a request that gives no arguments: the metric's defaults, and the seed of the sample."""
    metric = request.metric
    return (
        metric.options
        | (metric.local if request.local else {})
        | metric.known_options(seed=request.conditions.sampling_seed)
    )


def _with_mapping(request: Request, score: Score) -> Score:
    """The score with the setting that tells mapped codes from others, where the metric looks at codes."""
    mapped = request.conditions.gaussian and "codes" in request.metric.takes
    return dataclasses.replace(score, settings=score.settings | {"gaussian": True}) if mapped else score
