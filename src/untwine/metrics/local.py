"""Metrics of a model on a dataset: on a sample of all states, or averaged over windows (rhodes2021, section 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from untwine.data.contract import Dataset
from untwine.errors import UntwineError
from untwine.metrics.encoder import Encode, Encoder
from untwine.metrics.sampling import Task, bind, score_task
from untwine.metrics.score import Score
from untwine.metrics.windows import Windows

# A metric of a model, `(encode, dataset, seed=0)`: `encode` maps images to codes, of one model or of a pack.
OnModel = Callable[..., Score]


def sampled(metric: Any, points: int | None = None, **arguments: Any) -> OnModel:
    """A metric on states drawn from all of the factor space, none of them twice: on all where there are no more.

    Where some states have no example, or several, it is on as many training examples, or on all that there are. The
    score's `settings["samples"]` says how many there were.

    Args:
        metric: A name, a metric, or a `functools.partial` of one.
        points: States in the sample, no more than there are; None takes the number of the metric's definition.
        **arguments: Arguments of the metric.

    >>> import untwine.datasets
    >>> square = untwine.datasets.synthetic_linear(ratio=1.0)
    >>> score = sampled("mig", points=2000)(lambda x: x, square)
    >>> score.settings["samples"], score.settings["bins"], score.settings["dataset"]["name"]
    (2000, 20, 'synthetic_linear')
    """
    return _on_model(bind(metric, points, **arguments))


def local(
    metric: Any,
    radius: float = 0.1,
    samples: int = 20,
    points: int = 10_000,
    freeze_below: int | None = None,
    wrap: bool = True,
    vary_categorical: bool = False,
    **arguments: Any,
) -> OnModel:
    """A metric of codes and factors made local: its mean over windows around random states (rhodes2021, 5.3).

    The same seed gives the same windows and the same states in them, whatever the model and the metric. No state is
    drawn twice, so a window of fewer states than `points` is scored on each of them once; metrics that train on a part
    of them need 20 or more. The paper's settings are the defaults, 5 bins among them.

    Where some states have no example, or several, windows are around random examples and hold those whose factors are
    in them. Windows of fewer than 20 examples do not count, unless they hold one of each of their states; nor do
    windows without a factor that varies (`metrics.examples`).

    Args:
        metric: A name, a metric, or a `functools.partial` of one.
        radius: The radius of a window, as a fraction of each factor's values (rho).
        samples: How many windows.
        points: States in the sample of a window, no more than it has.
        freeze_below: Factors of fewer values keep their value in a window; see `data.windows.around`.
        wrap: Whether windows of cyclic factors continue at the other end; False takes cyclic factors as ordered, in
            windows and in the metric.
        vary_categorical: Whether categorical factors take all of their values in every window, instead of one.
        **arguments: Arguments of the metric.

    >>> import untwine.datasets
    >>> square = untwine.datasets.synthetic_linear(ratio=1.0)
    >>> score = local("mig", radius=0.2, points=2000)(lambda x: x, square)
    >>> score.values.shape, score.details["by_window"].shape
    ((1,), (20,))
    """
    windows = Windows(radius, samples, freeze_below, wrap, vary_categorical)
    return _on_model(bind(metric, points, windows, **arguments))


def _on_model(task: Task) -> OnModel:
    def score(encode: Encode, dataset: Dataset, seed: int = 0) -> Score:
        return score_task(task, _encoder(encode, dataset), seed)

    return score


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
