"""What a metric yields, and how a plain function of one model's arrays becomes a metric."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, overload

import numpy as np
from jaxtyping import Float64

from untwine.checks import conform
from untwine.errors import UntwineError, refuse_unknown
from untwine.metrics.arrays import Given, given, several
from untwine.metrics.designs import Design, Independent
from untwine.metrics.statistics import Summary, summary
from untwine.registry import Registry

metrics = Registry("metric")
P = ParamSpec("P")

# Settings that say on what a score was computed.
RESERVED = {"samples", "models", "members", "dataset", "sampling_seed", "radius", "windows", "freeze_below", "wrap"}

# What a metric's function returns for one model: its value, and whatever explains it.
Outcome = tuple[float, dict[str, Any]]


@dataclass(frozen=True)
class Score:
    """A metric's value for each member, what explains it, and the settings under which it was computed.

    `details` has arrays of one model as they are, and of a pack with the members as their first dimension.
    Those named in `parts` are scores in their own right. Scores are comparable where their settings are equal.

    >>> score = Score("mig", np.array([0.5]), {}, {"bins": 20})
    >>> float(score), score.comparable(Score("mig", np.array([0.1]), {}, {"bins": 5}))
    (0.5, False)
    """

    metric: str
    values: Float64[np.ndarray, " members"]
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    settings: dict[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()

    def __float__(self) -> float:
        if len(self.values) != 1:
            raise UntwineError(f"this {self.metric} has {len(self.values)} members: use .values, or .values.mean()")
        return float(self.values[0])

    def comparable(self, other: Score) -> bool:
        """Whether both are the same metric under the same settings."""
        return (self.metric, self.settings) == (other.metric, other.settings)

    def summary(self, level: float = 0.95) -> Summary:
        """The mean over members, its standard error, and intervals of a level."""
        return summary(self.values, level)

    def scores(self) -> dict[str, Float64[np.ndarray, " members"]]:
        """The value and the parts by name, each with one number for each member; parts that are None are left out."""
        parts = {f"{self.metric} {name}": np.atleast_1d(self.details[name]) for name in self.parts}
        return {self.metric: self.values, **{name: part for name, part in parts.items() if part.dtype != object}}


class Metric(Generic[P]):
    """A registered metric. Called, it checks its arrays, leaves out constant factors, and scores every member.

    `takes` names the arrays that it needs (its arguments without a default), `design` says how to sample them
    where it must be sampled, `local` has the defaults that differ for local samples.
    """

    KNOWN = ("kinds", "kl", "seed")  # options that are passed on from a model or its data, unless they are given

    __name__: str
    __wrapped__: Callable[P, Any]

    def __init__(
        self,
        function: Callable[P, Any],
        parts: Sequence[str] = (),
        design: Design | None = None,
        local: Mapping[str, Any] | None = None,
        continuous: bool = False,
        together: bool = False,
    ):
        functools.update_wrapper(self, function)
        parameters = inspect.signature(function).parameters
        self.takes = tuple(name for name, p in parameters.items() if p.default is p.empty)
        self.options = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
        refuse_unknown(f"local default of {self.__name__}:", local or {}, self.options)
        if taken := RESERVED & self.options.keys():
            raise UntwineError(
                f"metric {self.__name__!r}: every score has a setting {taken.pop()!r}; rename this option"
            )
        self.parts, self.local = tuple(parts), dict(local or {})
        self.design = design or Independent()
        self.continuous, self.together = continuous, together

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        hints = typing.get_type_hints(self.__wrapped__)
        return {name: hints.get(name, Any) for name in self.options}

    def told(self, **known: Any) -> dict[str, Any]:
        """Those of the things known of a model or its data that are options of this metric."""
        return {name: value for name, value in known.items() if name in self.options}

    def __repr__(self) -> str:
        return f"<metric {self.__name__}({', '.join(self.takes)})>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Score:
        refuse_unknown(f"argument of metric {self.__name__!r}:", kwargs, (*self.takes, *self.options))
        try:
            bound = inspect.signature(self.__wrapped__).bind(*args, **kwargs)
        except TypeError as error:
            raise UntwineError(f"metric {self.__name__!r} takes {', '.join(self.takes)}: {error}") from None
        bound.apply_defaults()
        values = bound.arguments
        for name in self.options:
            values[name] = conform(values[name], self._hints[name], f"{name!r} of metric {self.__name__!r}")
        taken = {name: values.pop(name) for name in self.takes}
        if "factors" in taken and isinstance(self.design, Independent) and np.ndim(taken["factors"]) > 2:
            shape = list(np.shape(taken["factors"]))
            raise UntwineError(f"{self.__name__}: factors have shape {shape}; they must be [n, k], one row a sample")
        check = several if self.together else given
        arrays = check(taken, self.continuous, self.__name__)
        return self._score(arrays, values)

    def _score(self, arrays: Given, options: dict[str, Any]) -> Score:
        used = arrays.options(options)
        if self.together:
            found, details = self.__wrapped__(*map(list, zip(*arrays.members, strict=True)), **used)  # type: ignore[call-arg]
        else:
            outcomes: list[Outcome] = [self.__wrapped__(*one, **used) for one in arrays.members]  # type: ignore[call-arg]
            found = [value for value, _ in outcomes]
            gathered = {key: [details[key] for _, details in outcomes] for key in outcomes[0][1]}
            details = {key: _gathered(those, arrays.pack) for key, those in gathered.items()}
        if not np.isfinite(found).all():
            raise UntwineError(f"{self.__name__} is not finite: {np.asarray(found).tolist()}; are codes very large?")
        settings = {name: _plain(value) for name, value in options.items()} | arrays.settings
        # What a function chose by itself, such as an estimator where the argument left it open.
        chosen = details.pop("settings", {})
        settings |= chosen if isinstance(chosen, dict) else {"members": chosen}
        return Score(self.__name__, np.array(found, np.float64), details | arrays.details, settings, self.parts)


def _gathered(those: list[Any], pack: bool) -> Any:
    """One model's detail as it is; those of a pack stacked, where they are arrays of one shape."""
    if not pack:
        return those[0]
    if isinstance(those[0], str | dict) and all(one == those[0] for one in those):
        return those[0]
    ragged = any(isinstance(one, list) for one in those) or len({np.shape(one) for one in those}) > 1
    return those if ragged else np.stack(those)


def _plain(value: Any) -> Any:
    """A setting as JSON."""
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(one) for one in value] if isinstance(value, tuple | list | np.ndarray) else value


@overload
def metric(function: Callable[P, Any], /) -> Metric[P]: ...


@overload
def metric(
    *,
    parts: Sequence[str] = ...,
    design: Design | None = ...,
    local: Mapping[str, Any] | None = ...,
    continuous: bool = ...,
    together: bool = ...,
) -> Callable[[Callable[P, Any]], Metric[P]]: ...


def metric(function: Any = None, /, **about: Any) -> Any:
    """Register a function from one model's arrays to `(value, details)` as a metric, under its name.

    Its arguments without a default are arrays, known by their names: `codes` and `factors`, `means`,
    `variances`, `jacobians`. They arrive checked (finite, of one length), with constant factors left out, and
    the function is called for one member at a time; all else is the same for every metric.

    Args:
        parts: Details that are scores in their own right, one number for each member.
        design: How its sample is drawn; independent states if None.
        local: Defaults that differ for local samples.
        continuous: Whether factors may be floats.
        together: The function takes a list of all members' arrays, and returns a value for each.

    >>> @metric
    ... def spread(codes, factors, power=1.0):
    ...     '''The range of the codes.'''
    ...     return float(np.ptp(codes) ** power), {}
    >>> float(spread(np.array([[0.0], [2.0]]), np.array([[0], [1]])))
    2.0
    >>> del metrics._entries["spread"]
    """
    if function is None:
        return functools.partial(metric, **about)
    return metrics.add(Metric(function, **about))
