"""`Score`, the result of a metric, and `@metric`, which makes a metric of a plain function of one model's arrays."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, overload

import numpy as np
from jaxtyping import Float64

from untwine.arguments import bind, hints
from untwine.errors import UntwineError, refuse_unknown
from untwine.metrics.arrays import Arrays, check_arrays, check_models
from untwine.metrics.designs import Design, Independent
from untwine.metrics.forced import VALUE
from untwine.metrics.statistics import UNBOUNDED, Bounds, Summary, summary
from untwine.registry import Registry

metrics = Registry("metric")
P = ParamSpec("P")

# Settings that say on what a score was computed, and arguments of every request.
RESERVED = {"samples", "models", "members", "dataset", "sampling_seed", "radius", "windows", "freeze_below"}
RESERVED |= {"vary_categorical", "rho", "examples", "jacobians", "gaussian"}

UNIT: Bounds = (0.0, 1.0)
POSITIVE: Bounds = (0.0, math.inf)

# What a metric's function returns for one model: its value, and details that explain it.
Outcome = tuple[float, dict[str, Any]]
# The details of a score and one model's arrays to the reason why it cannot be otherwise; of all models' arrays (a
# metric of models `together`) to a reason for each.
Check = Callable[..., str | None] | Callable[..., Sequence[str | None]]


@dataclass(frozen=True)
class Score:
    """A metric's value for each member, details that explain it, and the settings under which it was computed.

    Details of a pack have the members as their first dimension. Those named in `parts` are scores in their own right.
    Scores are comparable where their settings are equal. `forced` has, for "value" and for parts, the reason why each
    member's number cannot be otherwise (None where it can): that number says nothing about the model.

    >>> score = Score("mig", np.array([0.5]), {}, {"bins": 20})
    >>> float(score), score.comparable(Score("mig", np.array([0.1]), {}, {"bins": 5}))
    (0.5, False)
    """

    metric: str
    values: Float64[np.ndarray, " members"]
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    settings: dict[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    forced: dict[str, tuple[str | None, ...]] = field(default_factory=dict)

    def __float__(self) -> float:
        if len(self.values) != 1:
            raise UntwineError(f"this {self.metric} has {len(self.values)} members: use .values, or .values.mean()")
        return float(self.values[0])

    def comparable(self, other: Score) -> bool:
        """Whether both are the same metric under the same settings."""
        return (self.metric, self.settings) == (other.metric, other.settings)

    def reasons(self, name: str = VALUE) -> tuple[str | None, ...]:
        """For each member why its value, or this part of it, cannot be otherwise; None where it can."""
        return self.forced.get(name, (None,) * len(self.values))

    def summary(self, level: float = 0.95) -> Summary:
        """The mean over members, its standard error, and intervals of a level, without values that are forced."""
        values = [value for value, reason in zip(self.values, self.reasons(), strict=True) if reason is None]
        if not values:
            raise UntwineError(f"this {self.metric} says nothing to summarise: {self.reasons()[0]}")
        return summary(values, level, bounds=bounds_of(self.metric))

    def scores(self) -> dict[str, Float64[np.ndarray, " members"]]:
        """The value and the parts by name, each with one number for each member; parts that are None are left out."""
        parts = {f"{self.metric} {name}": np.atleast_1d(self.details[name]) for name in self.parts}
        return {self.metric: self.values, **{name: part for name, part in parts.items() if part.dtype != object}}


class Metric(Generic[P]):
    """A registered metric. Called, it checks its arrays, leaves out constant factors, and scores every member.

    `takes` names the arrays that it needs (its arguments without a default), `options` has its other arguments with
    their defaults, `design` says which states to sample, `local` has the defaults that differ for local samples,
    `bounds` what the value and each part can be, `ratios` which of them mean nothing where no latent is active.
    """

    # Options that are passed on from a model or its data, unless they are given.
    KNOWN = ("kinds", "sizes", "kl", "seed")

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
        bounds: Bounds | Mapping[str, Bounds] = UNBOUNDED,
        forced: Mapping[str, Check] | None = None,
        ratios: Sequence[str] = (),
    ):
        functools.update_wrapper(self, function)
        parameters = inspect.signature(function).parameters
        self.takes = tuple(name for name, p in parameters.items() if p.default is p.empty)
        self.options = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
        refuse_unknown(f"local default of {self.__name__}:", local or {}, self.options)
        of_sample = {"points"} if "factors" in self.takes else set[str]()
        if reserved := (RESERVED | of_sample) & self.options.keys():
            raise UntwineError(
                f"metric {self.__name__!r}: every score has a setting {reserved.pop()!r}; rename this option"
            )
        self.parts = tuple(parts)
        names = (VALUE, *self.parts)
        self.bounds = dict(bounds) if isinstance(bounds, Mapping) else dict.fromkeys(names, bounds)
        self.forced = dict(forced or {})
        self.ratios = tuple(ratios)
        refuse_unknown(f"part of metric {self.__name__!r}:", (*self.bounds, *self.forced, *self.ratios), names)
        self.local = dict(local or {})
        self.design = design or Independent()
        self.continuous = continuous
        self.together = together

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        """The annotations of options. Arrays have checks of their own, and what has no annotation may be anything."""
        resolved = hints(self.__wrapped__)
        return {name: resolved[name] for name in self.options if name in self.__wrapped__.__annotations__}

    def known_options(self, **known: Any) -> dict[str, Any]:
        """What is known of a model or its data and is an option of this metric."""
        return {name: value for name, value in known.items() if name in self.options}

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse options that the metric does not have, or whose values are not of their types."""
        refuse_unknown(f"argument of metric {self.__name__!r}:", options, self.options)
        bind(f"metric {self.__name__!r}", self._signature, [None] * len(self.takes), options, self._hints)

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.__wrapped__)

    def __repr__(self) -> str:
        return f"<metric {self.__name__}({', '.join(self.takes)})>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Score:
        options = bind(f"metric {self.__name__!r}", self._signature, args, kwargs, self._hints)
        arrays = {name: options.pop(name) for name in self.takes}
        if "factors" in arrays and isinstance(self.design, Independent) and np.ndim(arrays["factors"]) > 2:
            shape = list(np.shape(arrays["factors"]))
            raise UntwineError(f"{self.__name__}: factors have shape {shape}; they must be [n, k], one row a sample")
        check = check_models if self.together else check_arrays
        return self._score(check(arrays, self.continuous, self.__name__), options)

    def _score(self, arrays: Arrays, options: dict[str, Any]) -> Score:
        """The score of arrays that are checked, with all options."""
        used = arrays.options(options)
        if self.together:
            models = list(map(list, zip(*arrays.members, strict=True)))
            values, details = self._checked(self.__wrapped__(*models, **used))  # type: ignore[call-arg]
            reasons: dict[str, Any] = {name: check(details, *models) for name, check in self.forced.items()}
        else:
            outcomes = [self._checked(self.__wrapped__(*member, **used)) for member in arrays.members]  # type: ignore[call-arg]
            values = [value for value, _ in outcomes]
            pairs = [(known, member) for (_, known), member in zip(outcomes, arrays.members, strict=True)]
            reasons = {name: [check(known, *member) for known, member in pairs] for name, check in self.forced.items()}
            by_key = {key: [details[key] for _, details in outcomes] for key in outcomes[0][1]}
            details = {key: _stacked(member_details, arrays.pack) for key, member_details in by_key.items()}
        if not np.isfinite(values).all():
            raise UntwineError(f"{self.__name__} is not finite: {np.asarray(values).tolist()}; are codes very large?")
        settings = {name: _json(value) for name, value in options.items()} | arrays.settings
        # What a function chose by itself, such as an estimator where the argument left it open.
        chosen = details.pop("settings", {})
        settings |= chosen if isinstance(chosen, dict) else {"members": chosen}
        forced = {name: tuple(of_members) for name, of_members in reasons.items() if any(of_members)}
        array = np.array(values, np.float64)
        return Score(self.__name__, array, details | arrays.details, settings, self.parts, forced)

    def _checked(self, outcome: Any) -> tuple[Any, dict[str, Any]]:
        """What the function returned; anything but a value and its details is refused."""
        if isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[1], dict):
            return outcome
        wanted = "(values, details), with a value for each model" if self.together else "(value, details)"
        raise UntwineError(
            f"metric {self.__name__!r} must return {wanted}, where details are a dict, such as {{}}; "
            f"it returned {type(outcome).__name__} {repr(outcome).partition(chr(10))[0]:.80}"
        )


def bounds_of(name: str, part: str = VALUE) -> Bounds:
    """The least and the largest value of a metric, or of its local form; none are known of one that is not registered.

    Args:
        name: The name of the metric.
        part: The part; by default the value itself.

    >>> bounds_of("local_nothing")
    (-inf, inf)
    """
    known = metrics[name.removeprefix("local_")].bounds if name.removeprefix("local_") in metrics else {}
    return known.get(part, UNBOUNDED)


def _stacked(details: list[Any], pack: bool) -> Any:
    """One model's detail as it is; those of a pack stacked, where they are arrays of one shape."""
    first = details[0]
    if not pack:
        return first
    if isinstance(first, str | dict) and all(detail == first for detail in details):
        return first
    ragged = any(isinstance(detail, list) for detail in details) or len({np.shape(detail) for detail in details}) > 1
    return details if ragged else np.stack(details)


def _json(value: Any) -> Any:
    """A setting as JSON."""
    if isinstance(value, np.generic):
        return value.item()
    return [_json(item) for item in value] if isinstance(value, tuple | list | np.ndarray) else value


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
    bounds: Bounds | Mapping[str, Bounds] = ...,
    forced: Mapping[str, Check] | None = ...,
    ratios: Sequence[str] = ...,
) -> Callable[[Callable[P, Any]], Metric[P]]: ...


def metric(function: Any = None, /, **about: Any) -> Any:
    """Register a function from one model's arrays to `(value, details)` as a metric, under its name.

    Its arguments without a default are arrays, known by their names: `codes` and `factors`, `means`,
    `variances`, `jacobians`. They arrive checked (finite, of one length), with constant factors left out, and
    the function is called for one member at a time.

    Args:
        function: The function, where the decorator has no arguments.
        parts: Details that are scores in their own right, one number for each member.
        design: Which states its sample has; None draws independent states.
        local: Defaults that differ for local samples.
        continuous: Whether factors may be floats.
        together: The function takes a list of all members' arrays, and returns a value for each.
        bounds: The least and the largest value, for the value and all parts, or for each by name ("value", a part).
        forced: By name the check that says why a number cannot be otherwise (`metrics.forced`).
        ratios: Names of numbers that compare what codes say, however little: they do not fall where codes say nothing.

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
