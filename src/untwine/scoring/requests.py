"""Requests: metrics by name or as functions, with their arguments, global or local."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from untwine import metrics, naming
from untwine.errors import UntwineError, unregistered
from untwine.metrics import Metric
from untwine.metrics.sampling import PAIRED


@dataclass(frozen=True)
class Request:
    """A metric with its arguments, on all the data or on windows of a radius."""

    metric: Metric[...]
    arguments: dict[str, Any]
    local: bool = False
    radius: float | None = None

    @property
    def name(self) -> str:
        return ("local_" if self.local else "") + self.metric.__name__

    @property
    def label(self) -> str:
        """The request as a user writes it: `local-mig(bins=10)`."""
        arguments = ", ".join(f"{key}={value}" for key, value in self.arguments.items())
        return self.name.replace("_", "-") + (f"({arguments})" if arguments else "")

    def at(self, radius: float) -> Request:
        """The same request on windows of this radius."""
        return dataclasses.replace(self, radius=radius)

    def failure(self, error: UntwineError) -> str:
        """The message of an error with the request's label once, in place of the metric's name."""
        name = self.metric.__name__
        message = str(error).replace(f" of metric {name!r}", "")
        rest = message.removeprefix(name)
        where = "" if self.radius is None or "interventions" in message else f", radius {self.radius:g}"
        starts_with_name = rest != message and rest[:1] in (":", " ")
        return self.label + where + (rest if starts_with_name else f": {message}")


def requests(wanted: Sequence[str | Callable[..., Any]]) -> list[Request]:
    """The requests that texts or metrics stand for.

    A text is a name, with arguments in brackets if need be: `mig`, `local-mig`, `dci(estimator=sklearn)`. A metric is
    the function itself, such as `metrics.mig`, or a `functools.partial` of it.

    >>> [request.label for request in requests(["local-mig(bins=4)", functools.partial(metrics.mig, bins=4)])]
    ['local-mig(bins=4)', 'mig(bins=4)']
    """
    table = {}
    for name in metrics.names():
        metric = metrics.get(name)
        table[name] = _maker(metric, False)
        if metric.takes == PAIRED:
            table[f"local_{name}"] = _maker(metric, True)
    return [_request(item, table) for item in wanted]


def _request(wanted: str | Callable[..., Any], table: dict[str, Callable[..., Request]]) -> Request:
    if isinstance(wanted, str):
        name = wanted.partition("(")[0].strip().replace("-", "_")
        bare = name.removeprefix("local_")
        if name != bare and bare in table and name not in table:
            arrays = ", ".join(metrics.get(bare).takes)
            raise UntwineError(
                f"{bare.replace('_', '-')} has no local form: it is a function of {arrays}, not of factors"
            )
        if name.isidentifier() and name not in table:
            raise unregistered("metric", name.replace("_", "-"), (known.replace("_", "-") for known in table))
        return naming.read("metric", wanted, table)
    metric, arguments = wanted, {}
    if isinstance(metric, functools.partial) and not metric.args:
        metric, arguments = metric.func, dict(metric.keywords)
    if not isinstance(metric, Metric):
        raise UntwineError(
            f"a metric is a name such as 'local-mig', or a function that @untwine.metric decorates, not {wanted!r}"
        )
    return table[metric.__name__](**arguments)


def _maker(metric: Metric[...], local: bool) -> Callable[..., Request]:
    """A function that has the metric's options as keyword arguments and returns the request."""

    def make(**arguments: Any) -> Request:
        metric.check_options(arguments)
        return Request(metric, arguments, local)

    parameters = inspect.signature(metric).parameters
    options = [parameters[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in metric.options]
    make.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return make
