"""From requests to scores: samples are drawn, encoded once for all members, and shared by all metrics of one design."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from untwine import metrics
from untwine.data import Dataset
from untwine.data.windows import Window, whole
from untwine.errors import UntwineError
from untwine.metrics.designs import Design
from untwine.metrics.encoder import Encoder
from untwine.metrics.local import Bound, averaged, bind, can_move, described, drawn, windows_of
from untwine.progress import counter
from untwine.scoring.requests import PAIRED, Request
from untwine.scoring.sources import Source

SCORED = ("mig", "modularity", "local-mig", "local-modularity")  # by default, where there are factors
GLOBAL = ("mig", "modularity")  # where these have no windows
UNSCORED = ("hoyer", "delta-kl", "dto")  # where there are none


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
