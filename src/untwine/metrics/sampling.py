"""The sampling engine of all metrics of codes and factors: draw, encode, score, average over windows.

`metrics.sampled`, `metrics.local` and `untwine.scoring` all call `score_tasks`. States are drawn without replacement:
no picture is on both sides where a metric trains on a part of its sample. Where the dataset does not have one image of
every state, training examples are sampled instead of states, likewise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from untwine import checks
from untwine.data.contract import Dataset
from untwine.data.windows import Window, whole
from untwine.errors import UntwineError, refuse_unknown
from untwine.metrics.averaging import average
from untwine.metrics.designs import Design, Groups
from untwine.metrics.encoder import Encoder
from untwine.metrics.examples import LEAST, refuse_interventions
from untwine.metrics.score import Metric, Score, metrics
from untwine.metrics.windows import Sample, Windows, count_samples, draw_samples
from untwine.progress import counter

PAIRED = ("codes", "factors")  # the arrays of metrics that are scored on samples


class TooFew(UntwineError):
    """A sample is too small for a metric; that of a larger window need not be."""


@dataclass(frozen=True)
class Task:
    """A metric with its arguments, and the sample that it is scored on: of all states, or of each window."""

    metric: Metric[...]
    arguments: dict[str, Any]
    points: int
    design: Design
    windows: Windows | None = None
    label: str = ""  # for the progress bar

    def score(self, sample: Sample, seed: int) -> Score:
        """The score of a sample. What is known of it is passed on to metrics that have such options."""
        space = sample.window.space
        known: dict[str, Any] = {"kinds": space.kinds, "sizes": space.sizes, "seed": seed}
        if self.windows is not None:
            known["wrap"] = self.windows.wrap
        known = self.metric.known_options(**known, **self.design.options(self.points))
        self._refuse_few(len(sample))
        factors = sample.factors if "wrap" in self.metric.options else sample.unwrapped
        return self.metric(sample.codes, factors, **known | self.arguments | self._fewer_bins(sample))

    def _refuse_few(self, samples: int) -> None:
        """Raise an error for a sample that is too small for a metric that trains on a part of it."""
        trains = "test" in self.metric.options and not self.arguments.get("regression")  # sap's, which has no parts
        if trains and samples < LEAST:
            larger = "" if self.windows is None else ": take a larger radius (rho)"
            raise TooFew(
                f"{self.metric.__name__} trains on a part of its sample and tests on the rest, but the sample has only "
                f"{samples} points; it takes {LEAST} or more{larger}"
            )

    def _fewer_bins(self, sample: Sample) -> dict[str, Any]:
        """A bin for each state, where a sample of all states has fewer than the metric has bins: small, but exact."""
        bins = (self.metric.options | self.arguments).get("bins")
        fewer = isinstance(bins, int) and len(sample) < bins and len(sample) == sample.window.grid.states
        return {"bins": len(sample)} if fewer else {}

    def refuse_missing_states(self, encoder: Encoder) -> None:
        """Raise an error if the metric intervenes on factors and the dataset has no image of every state."""
        if self.design.intervenes and encoder.space and not encoder.dataset.complete:
            refuse_interventions(self.metric.__name__, encoder.dataset, encoder.labels)


def bind(metric: Any, points: int | None = None, windows: Windows | None = None, **arguments: Any) -> Task:
    """The task of scoring a metric.

    Args:
        metric: A name, a metric, or a `functools.partial` of one.
        points: The most states in a sample; None takes the number of the metric's design.
        windows: The windows of a local score; None samples all states.
        **arguments: Arguments of the metric.

    >>> bind("mig", windows=Windows()).arguments, bind("mig", bins=7).arguments
    ({'bins': 5}, {'bins': 7})
    """
    if isinstance(metric, functools.partial):
        if metric.args:
            raise UntwineError("a metric's arguments are given by name: partial(mig, bins=5)")
        metric, arguments = metric.func, metric.keywords | arguments
    if isinstance(metric, str):
        metric = metrics[metric]
    if not isinstance(metric, Metric):
        raise UntwineError(f"{metric!r} is no metric: name one, or decorate your function with @untwine.metric")
    if metric.takes != PAIRED:
        raise UntwineError(f"{metric.__name__} is a function of {', '.join(metric.takes)}, not of codes and factors")
    refuse_unknown(f"argument of metric {metric.__name__!r}:", arguments, metric.options)
    changed = {field.name for field in dataclasses.fields(metric.design)} & arguments.keys()  # the size of groups, say
    design = dataclasses.replace(metric.design, **{name: arguments[name] for name in changed})
    if "groups" in arguments and isinstance(design, Groups):
        points = arguments["groups"] * design.states
    points = design.points if points is None else points
    checks.whole("points", points, 2)
    defaults = metric.local if windows is not None else {}
    return Task(metric, defaults | arguments, int(points), design, windows)


def score_tasks(
    tasks: Sequence[Task], encoder: Encoder, seed: int, progress: bool | None = False
) -> Iterator[tuple[int, Score | UntwineError]]:
    """The number of each task with its score, or with the error that prevented it, as soon as it is known.

    Tasks of equal windows, design and points share their samples, which are encoded once. A task that fails does not
    stop the others.

    Args:
        tasks: What to score.
        encoder: The codes of a model, or of a pack, on a dataset.
        seed: Seed of windows and samples, and of what is random in a metric.
        progress: Whether to show a progress bar; None shows one on a terminal.
    """
    groups: dict[Any, list[int]] = {}
    for number, task in enumerate(tasks):
        try:
            task.refuse_missing_states(encoder)
        except UntwineError as error:
            yield number, error
        else:
            groups.setdefault((task.windows, task.design, task.points), []).append(number)
    for numbers in groups.values():
        results = _score_group([tasks[number] for number in numbers], encoder, seed, progress)
        yield from zip(numbers, results, strict=True)


def score_task(task: Task, encoder: Encoder, seed: int) -> Score:
    """The score of a single task; what prevents it is raised."""
    ((_, result),) = score_tasks([task], encoder, seed)
    if isinstance(result, UntwineError):
        raise result
    return result


def _score_group(
    tasks: Sequence[Task], encoder: Encoder, seed: int, progress: bool | None
) -> list[Score | UntwineError]:
    """The scores of tasks that share their samples."""
    windows, design, points = tasks[0].windows, tasks[0].design, tasks[0].points
    scores: list[list[Score]] = [[] for _ in tasks]
    scored: list[list[Window]] = [[] for _ in tasks]
    errors: dict[int, UntwineError] = {}
    too_few: dict[int, TooFew] = {}
    chosen: list[Window] = []
    try:
        chosen = [whole(encoder.space)] if windows is None else windows.choose(encoder, seed)
        with _counted(tasks, chosen, encoder, progress) as count:
            for sample in draw_samples(chosen, design, points, encoder, seed):
                count(len(sample))
                for i, task in enumerate(tasks):
                    if i in errors:
                        continue
                    try:
                        scores[i].append(task.score(sample, seed))
                        scored[i].append(sample.window)
                    except TooFew as error:  # of some windows, at the bounds
                        too_few[i] = error
                    except UntwineError as error:
                        errors[i] = error
    except UntwineError as error:  # there is no such sample, so no task can be scored
        errors = dict.fromkeys(range(len(tasks)), error)
    results: list[Score | UntwineError] = []
    for i, task_scores in enumerate(scores):
        if i in errors or not task_scores:
            results.append(errors.get(i) or too_few[i])
        else:
            small = len(chosen) - len(task_scores)
            score = task_scores[0] if windows is None else average(task_scores, scored[i], windows, small)
            results.append(with_data(score, encoder.dataset, seed))
    return results


@contextlib.contextmanager
def _counted(
    tasks: Sequence[Task], windows: Sequence[Window], encoder: Encoder, progress: bool | None
) -> Iterator[Callable[[int], None]]:
    """A progress bar over the points of all samples, and a function to call with the number in each when it is encoded.

    The bar moves while images are encoded. Those that were encoded before, for another window or metric, are added by
    that function, so that the bar is full at the end.
    """
    if progress is False:
        yield lambda points: None
        return
    chosen = tasks[0].windows
    labels = ", ".join(task.label for task in tasks) + ("" if chosen is None else f", radius {chosen.radius:g}")
    images = 0

    def count_images(more: int) -> None:
        nonlocal images
        images += more
        advance(more)

    def count_sample(points: int) -> None:
        nonlocal images
        advance(points - images)
        images = 0

    before = encoder.on_images
    total = count_samples(windows, tasks[0].design, tasks[0].points, encoder)
    with counter(labels, total, progress) as advance:
        encoder.on_images = count_images
        try:
            yield count_sample
        finally:
            encoder.on_images = before


def with_data(score: Score, dataset: Dataset, seed: int) -> Score:
    """The score with the data and the seed of its sample among the settings.

    Where the values of factors have names, the details have them, too: other details number factors and values.
    """
    content = dataset.content
    data = dict(dataset.spec) | ({"content": content} if content else {})
    details, space = score.details, dataset.factors
    if "constant_factors" in details and space is not None and space.values is not None:
        details = details | {"factor_values": dict(zip(space.names, map(list, space.values), strict=True))}
    settings = score.settings | {"dataset": data, "sampling_seed": seed}
    return dataclasses.replace(score, details=details, settings=settings)
