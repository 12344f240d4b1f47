"""Requests: metrics by name or as functions, with their arguments, global or local, and what they are scored on."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from untwine import metrics, naming
from untwine.arguments import bind
from untwine.errors import UntwineError, unregistered
from untwine.metrics import Metric
from untwine.metrics.sampling import PAIRED
from untwine.room import refuse_larger


@dataclass(frozen=True)
class Conditions:
    """What requests are scored on; `untwine.evaluate` explains each. Those of a request stand in its brackets."""

    rho: float | None = None
    windows: int = 20
    points: int | None = None
    examples: int = 10_000
    jacobians: int = 1_000
    sampling_seed: int = 0
    gaussian: bool = False
    wrap: bool = True

    def __post_init__(self) -> None:
        if self.rho is not None and not 0 < self.rho <= 1:
            raise UntwineError(f"rho is a fraction of each factor's range, above 0 and at most 1, not {self.rho:g}")
        for name, least in (("windows", 1), ("points", 2), ("examples", 2), ("jacobians", 2)):
            count = getattr(self, name)
            if count is not None and count < least:
                raise UntwineError(f"{name} must be {least} or more, not {count}")
        refuse_larger(1_000 * self.windows, f"{self.windows:,} windows", "take fewer")


def applicable(metric: Metric[...], local: bool) -> tuple[str, ...]:
    """The conditions that the score of a metric depends on.

    Args:
        metric: The metric.
        local: Whether it is scored on windows.

    >>> applicable(metrics.mig, local=True), applicable(metrics.dto, local=False)
    (('rho', 'windows', 'wrap', 'points', 'sampling_seed', 'gaussian'), ('examples', 'jacobians', 'sampling_seed'))
    """
    of_sample = ("points",) if metric.takes == PAIRED else ("examples",)
    of_jacobians = ("jacobians",) if "jacobians" in metric.takes else ()
    of_codes = ("gaussian",) if "codes" in metric.takes else ()
    of_windows = ("rho", "windows", *(() if "wrap" in metric.options else ("wrap",))) if local else ()
    return (*of_windows, *of_sample, *of_jacobians, "sampling_seed", *of_codes)


@dataclass(frozen=True)
class Request:
    """A metric with its arguments, on all the data or on windows.

    `given` has the conditions that the request states itself, `conditions` all of them.
    """

    metric: Metric[...]
    arguments: dict[str, Any]
    local: bool = False
    given: dict[str, Any] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def name(self) -> str:
        return ("local_" if self.local else "") + self.metric.__name__

    @property
    def label(self) -> str:
        """The request as a user writes it: `local-mig(rho=0.1, bins=10)`."""
        return self.labelled({**self.arguments, **{key: value for key, value in self.given.items() if key != "rho"}})

    def labelled(self, arguments: Mapping[str, Any], radius: bool = True) -> str:
        """The name with arguments in brackets.

        Args:
            arguments: The arguments.
            radius: Whether the radius comes first, where one is known.
        """
        first = {"rho": self.conditions.rho} if radius and self.local and self.conditions.rho is not None else {}
        items = ", ".join(f"{key}={_text(value)}" for key, value in (first | dict(arguments)).items())
        return self.name.replace("_", "-") + (f"({items})" if items else "")

    def under(self, conditions: Conditions) -> Request:
        """The same request under these conditions, except for those that it states itself."""
        return dataclasses.replace(self, conditions=dataclasses.replace(conditions, **self.given))

    def failure(self, error: UntwineError) -> str:
        """The message of an error with the request's label once, in place of the metric's name."""
        name = self.metric.__name__
        message = str(error).replace(f" of metric {name!r}", "")
        rest = message.removeprefix(name)
        starts_with_name = rest != message and rest[:1] in (":", " ")
        label = self.labelled(self.arguments, radius="interventions" not in message)  # one error for all radii
        return label + (rest if starts_with_name else f": {message}")


def requests(wanted: Sequence[str | Callable[..., Any]]) -> list[Request]:
    """The requests that texts or metrics stand for.

    A text is a name, with arguments in brackets if need be: `mig`, `local-mig(rho=0.2)`, `dci(estimator=sklearn,
    points=1000)`. A metric is the function itself, such as `metrics.mig`, or a `functools.partial` of it.

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
    """A function with the metric's options and the conditions as keyword arguments that returns the request."""
    own = [name for name in applicable(metric, local) if name not in metric.options]

    def make(**arguments: Any) -> Request:
        options = {name: value for name, value in arguments.items() if name not in own}
        metric.check_options(options)
        given = {name: value for name, value in arguments.items() if name in own}
        checked = bind(f"metric {metric.__name__!r}", Conditions, kwargs=given)
        given = {name: checked[name] for name in given}
        return Request(metric, options, local, given, Conditions(**given))

    parameters = inspect.signature(metric).parameters
    options = [parameters[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in metric.options]
    conditions = inspect.signature(Conditions).parameters
    stated = [conditions[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in own]
    make.__signature__ = inspect.Signature([*options, *stated])  # type: ignore[attr-defined]
    return make


def _text(value: Any) -> str:
    """A value as a request has it: `naming.read` gives it back."""
    return value if isinstance(value, str) and value.isidentifier() else repr(value)
