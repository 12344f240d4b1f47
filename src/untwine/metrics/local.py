"""Metrics of a model on data: on a sample of all states, or averaged over local samples (rhodes2021, section 5.3).

Where the dataset is not `complete` (some states have no example, or several), training examples are sampled.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from untwine import checks
from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.windows import Window, around, whole
from untwine.errors import UntwineError, refuse_unknown
from untwine.metrics.designs import Design, Groups, among
from untwine.metrics.encoder import Encode, Encoder
from untwine.metrics.examples import inside, refuse_interventions, windows_among
from untwine.metrics.score import Metric, Score, metrics


@dataclass(frozen=True)
class Bound:
    """A metric with its arguments, and how many states its sample has."""

    metric: Metric[...]
    arguments: dict[str, Any]
    points: int
    design: Design

    def __call__(self, sample: Sample, seed: int) -> Score:
        """The score of a sample. What the metric does not say itself, its kinds of factors and its seed, it is told."""
        told = self.metric.told(kinds=sample.window.space.kinds, seed=seed)
        return self.metric(sample.codes, sample.factors, **told | self.arguments)

    def check(self, encoder: Encoder) -> None:
        """Refuse what the data do not have: interventions need an image of every state."""
        if self.design.intervenes and encoder.space and not encoder.dataset.complete:
            refuse_interventions(self.metric.__name__, encoder.dataset, encoder.labels)


@dataclass(frozen=True)
class Sample:
    """States of a window, or examples in it, and their codes."""

    window: Window
    codes: np.ndarray
    factors: np.ndarray


def bind(metric: Any, points: int | None = None, local: bool = False, **arguments: Any) -> Bound:
    """A metric by its name, as itself or as a `functools.partial`, with arguments.

    >>> bind("mig", local=True).arguments, bind("mig", bins=7).arguments
    ({'bins': 5}, {'bins': 7})
    """
    if isinstance(metric, functools.partial):
        if metric.args:
            raise UntwineError("a metric's arguments are given by name: partial(mig, bins=5)")
        metric, arguments = metric.func, metric.keywords | arguments
    found = metrics[metric] if isinstance(metric, str) else metric
    if not isinstance(found, Metric):
        raise UntwineError(f"{metric!r} is no metric: name one, or decorate your function with @metrics.metric")
    if found.takes != ("codes", "factors"):
        raise UntwineError(f"{found.__name__} is a function of {', '.join(found.takes)}, not of codes and factors")
    refuse_unknown(f"argument of metric {found.__name__!r}:", arguments, found.options)
    own = {field.name for field in dataclasses.fields(found.design)} & arguments.keys()  # the size of groups, say
    design = dataclasses.replace(found.design, **{name: arguments[name] for name in own})
    if "groups" in arguments and isinstance(design, Groups):
        points = arguments["groups"] * design.states
    points = design.points if points is None else points
    checks.whole("points", points, 2)
    return Bound(found, (found.local if local else {}) | arguments, int(points), design)


def drawn(windows: Iterable[Window], design: Design, points: int, encoder: Encoder, seed: int) -> Iterator[Sample]:
    """A sample of each window, encoded: the same for all metrics of one design."""
    for step, window in enumerate(windows):
        if encoder.dataset.complete:
            factors = window.place(design.draw(window.grid, points, seed, step))
            yield Sample(window, encoder(factors), factors)
        else:
            held = inside(window, encoder.labels)
            numbers = held[among(len(held), points, seed, step)]
            yield Sample(window, encoder.of_examples(numbers), encoder.labels[numbers])


# A metric of a model, `(encode, dataset, seed=0)`: `encode` maps images to codes, of one model or of a pack.
OnModel = Callable[..., Score]


def sampled(metric: Any, points: int | None = None, **arguments: Any) -> OnModel:
    """A metric on states drawn from the whole factor space, as many as its definition has if `points` is None.

    Where some states have no example, or several, it is on as many training examples, or on all that there are.

    >>> import untwine.datasets
    >>> square = untwine.datasets.synthetic_linear(ratio=1.0)
    >>> score = sampled("mig", points=2000)(lambda x: x, square)
    >>> score.settings["samples"], score.settings["bins"], score.settings["dataset"]["name"]
    (2000, 20, 'synthetic_linear')
    """
    bound = bind(metric, points, **arguments)

    def score(encode: Encode, dataset: Dataset, seed: int = 0) -> Score:
        encoder = _encoder(encode, dataset)
        bound.check(encoder)
        (sample,) = drawn([whole(encoder.space)], bound.design, bound.points, encoder, seed)
        return described(bound(sample, seed), dataset, seed)

    return score


def local(
    metric: Any,
    radius: float = 0.1,
    samples: int = 20,
    points: int = 10_000,
    freeze_below: int | None = None,
    wrap: bool = False,
    **arguments: Any,
) -> OnModel:
    """Any metric of codes and factors made local: its mean over windows around random states (rhodes2021, 5.3).

    The same seed gives the same windows and the same states in them, whatever the model and the metric. The
    paper's settings are the defaults, 5 bins among them. `freeze_below` and `wrap`: see `data.windows.around`.

    Where some states have no example, or several, windows are around random examples and hold those whose factors are
    in them. Windows of fewer than 20 examples, or without a factor that varies, do not count (`metrics.examples`).

    Args:
        metric: By name, as a function, or a `functools.partial` of one.
        radius: Of a window, as a fraction of each factor's values (rho).
        samples: How many windows.
        points: States in each window.

    >>> import untwine.datasets
    >>> square = untwine.datasets.synthetic_linear(ratio=1.0)
    >>> score = local("mig", radius=0.2, points=2000)(lambda x: x, square)
    >>> score.values.shape, score.details["by_window"].shape
    ((1,), (20,))
    """
    bound = bind(metric, points, local=True, **arguments)
    rules = {"freeze_below": freeze_below, "wrap": wrap}

    def score(encode: Encode, dataset: Dataset, seed: int = 0) -> Score:
        encoder = _encoder(encode, dataset)
        bound.check(encoder)
        windows = windows_of(encoder, radius, samples, seed, **rules)
        scores = [bound(sample, seed) for sample in drawn(windows, bound.design, bound.points, encoder, seed)]
        return described(averaged(scores, windows, radius, rules), dataset, seed)

    return score


def windows_of(encoder: Encoder, radius: float, samples: int, seed: int, **rules: Any) -> list[Window]:
    """The windows of a seed."""
    checks.whole("samples (windows)", samples, 1)
    space = encoder.space
    if rules.get("freeze_below") is None and not can_move(space):
        raise UntwineError(
            f"there are no windows: every factor ({', '.join(space.names)}) is categorical, and so keeps its value "
            "in a window, or has a single one"
        )
    if not encoder.dataset.complete:
        return windows_among(space, encoder.labels, radius, samples, seed, **rules)
    return [around(space, radius, seed, step, **rules) for step in range(samples)]


def can_move(space: FactorSpace) -> bool:
    """Whether there is a window in which a factor varies: categorical ones are constant in all of them."""
    return any(size > 1 and kind != "categorical" for size, kind in zip(space.sizes, space.kinds, strict=True))


def averaged(scores: Sequence[Score], windows: Sequence[Window], radius: float, rules: dict[str, Any]) -> Score:
    """The mean over windows. `by_window` has the scores themselves, parts have their means."""
    first = scores[0]
    values = np.stack([score.values for score in scores], -1)
    pack = values.shape[0] > 1 or np.ndim(first.details.get("dead_codes", [0])) > 1
    details: dict[str, Any] = {"by_window": values if pack else values[0]}
    for name in first.parts:
        details[name] = np.mean([score.details[name] for score in scores], axis=0)
    details["constant_factors"] = [score.details["constant_factors"] for score in scores]
    details["dead_codes"] = [score.details["dead_codes"] for score in scores]
    details["low"] = [list(window.low) for window in windows]
    details["sizes"] = [list(window.grid.sizes) for window in windows]
    counts = [score.settings["samples"] for score in scores]
    used = counts[0] if len(set(counts)) == 1 else counts  # windows of examples hold what there is
    settings = first.settings | {"samples": used, "radius": radius, "windows": len(scores), **rules}
    return Score(f"local_{first.metric}", values.mean(-1), details, settings, first.parts)


def described(score: Score, dataset: Dataset, seed: int, **more: Any) -> Score:
    """A score that says on what it was computed."""
    content = dataset.content
    data = dict(dataset.spec) | ({"content": content} if content else {})
    settings = score.settings | {"dataset": data, "sampling_seed": seed, **more}
    return Score(score.metric, score.values, score.details, settings, score.parts)


def _encoder(encode: Encode, dataset: Dataset) -> Encoder:
    if not isinstance(dataset, Dataset):
        raise UntwineError(f"a model is scored on a dataset, such as datasets.three_dots(), not on {dataset!r:.80}")
    if isinstance(encode, Encoder):
        if encode.dataset is not dataset:
            raise UntwineError(f"this encoder is that of {encode.dataset!r}, not of {dataset!r}")
        return encode
    if not callable(encode):
        raise UntwineError(f"encode is a function from images to codes, such as ensemble.encode, not {encode!r:.80}")
    return Encoder(encode, dataset)
