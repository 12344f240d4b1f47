"""From requests to scores: on samples through the engine of `metrics.sampling`, or on what else a model yields."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

from untwine.data import Dataset
from untwine.errors import UntwineError
from untwine.metrics import Score
from untwine.metrics.encoder import Encoder
from untwine.metrics.sampling import PAIRED, Task, bind, score_tasks, with_data
from untwine.metrics.windows import Windows, has_windows
from untwine.scoring.requests import Request
from untwine.scoring.sources import Source

SCORED = ("mig", "modularity", "local-mig", "local-modularity")  # defaults where there are factors
GLOBAL = ("mig", "modularity")  # where these have no windows
UNSCORED = ("hoyer", "delta-kl", "dto")  # where there are no factors
LOCAL_POINTS = 10_000  # states in each window by default


def default_radius(dataset: Dataset) -> float:
    """The paper's 0.1, or the least radius at which an ordered factor varies.

    >>> import untwine.datasets
    >>> default_radius(untwine.datasets.xy_squares())  # of 8 values
    0.125
    """
    kinds = zip(dataset.factors.sizes, dataset.factors.kinds, strict=True) if dataset.factors else ()
    return max(0.1, 1 / max((size for size, kind in kinds if kind != "categorical"), default=1))


class Scorer:
    """Scores requests on a source.

    Args:
        source: The models and their data.
        windows: How many windows a local metric is averaged over.
        points: The most states in a sample; None takes the number of the metric's design, and 10,000 in each window.
        progress: Whether to show progress bars; None shows them on a terminal.
        wrap: False takes cyclic factors as ordered, in windows and in metrics.
    """

    def __init__(self, source: Source, windows: int, points: int | None, progress: bool | None, wrap: bool = True):
        self.source = source
        self.windows = windows
        self.points = points
        self.progress = progress
        self.wrap = wrap
        self.encoder = Encoder(source.encode, source.dataset)  # one for all: radii and designs may share states

    def defaults(self, rho: Sequence[float]) -> tuple[str, ...]:
        """The metrics to score where none are named."""
        space = self.source.dataset.factors
        if space is None:
            return UNSCORED
        if not has_windows(space):
            return GLOBAL
        try:
            if not rho:  # whoever names a radius is told if there are no such windows
                Windows(default_radius(self.source.dataset), 1, wrap=self.wrap).choose(self.encoder, self.source.seed)
        except UntwineError:
            return GLOBAL
        return SCORED

    def conditions(self, request: Request) -> dict[str, Any]:
        """Everything that a request's result depends on, besides the model, as JSON."""
        metric, dataset = request.metric, self.source.dataset
        options = metric.options | (metric.local if request.local else {}) | self._arguments(request)
        conditions: dict[str, Any] = {"options": options, "dataset": dict(dataset.spec), "seed": self.source.seed}
        if content := dataset.content:  # a folder may have changed since
            conditions["content"] = content
        if metric.takes == PAIRED:
            conditions["points"] = self._task(request).points
        else:
            conditions["examples"] = self.source.counts["jacobians" if "jacobians" in metric.takes else "examples"]
        if request.local:
            conditions |= {"radius": request.radius, "windows": self.windows, "wrap": self._wraps(request)}
        if metric.together:
            conditions["models"] = [member.id for member in self.source.ensemble.members]
        return json.loads(json.dumps(conditions | self._mapping(request), default=str))

    def scores(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Score | UntwineError]]:
        """The requests with their scores, or with the errors that prevented them, as soon as they are known."""
        on_samples = [request for request in requests if request.metric.takes == PAIRED]
        tasks = [self._task(request) for request in on_samples]
        for number, result in score_tasks(tasks, self.encoder, self.source.seed, self.progress):
            request = on_samples[number]
            yield request, result if isinstance(result, UntwineError) else self._with_mapping(request, result)
        for request in requests:
            if request.metric.takes != PAIRED:
                try:
                    score = with_data(self._score_of_model(request), self.source.dataset, self.source.seed)
                    yield request, self._with_mapping(request, score)
                except UntwineError as error:
                    yield request, error

    def _score_of_model(self, request: Request) -> Score:
        """The score of a metric that takes something else than codes and factors."""
        metric = request.metric
        known = metric.known_options(kl=self.source.kl, seed=self.source.seed)
        return metric(*(getattr(self.source, name) for name in metric.takes), **known | request.arguments)

    def _task(self, request: Request) -> Task:
        windows = None
        points = self.points
        if request.local:
            radius = default_radius(self.source.dataset) if request.radius is None else request.radius
            windows = Windows(radius, self.windows, wrap=self._wraps(request))
            points = points or LOCAL_POINTS
        task = bind(request.metric, points, windows, **self._arguments(request))
        return dataclasses.replace(task, label=request.label)

    def _arguments(self, request: Request) -> dict[str, Any]:
        """The arguments of a request's metric."""
        return request.metric.known_options(wrap=self.wrap) | request.arguments

    def _wraps(self, request: Request) -> bool:
        """Whether cyclic factors go round in a request, whose own argument goes before the scorer's."""
        return request.arguments.get("wrap", self.wrap)

    def _mapping(self, request: Request) -> dict[str, bool]:
        """The setting that tells mapped codes from others, where the metric looks at codes."""
        return {"gaussian": True} if self.source.gaussian and "codes" in request.metric.takes else {}

    def _with_mapping(self, request: Request, score: Score) -> Score:
        return dataclasses.replace(score, settings=score.settings | self._mapping(request))
