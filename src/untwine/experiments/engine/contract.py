"""What an experiment is: a function from settings to a plan, with settings for each scale."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from untwine.arguments import bind
from untwine.data import Dataset
from untwine.errors import UntwineError, brief, unknown
from untwine.experiments.engine.findings import Claim
from untwine.experiments.engine.rows import Row, Rows
from untwine.failures import failure
from untwine.train.ensemble import Ensemble
from untwine.train.remarks.slips import place
from untwine.train.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scale: TypeAlias = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
PAPER = "paper"


@dataclass(frozen=True)
class Case:
    """A run to train, and the columns that its numbers have: `{"method": "JL1-VAE", "gamma": 0.1}`."""

    run: Run
    columns: Mapping[str, Any]


def case(run: Run, **columns: Any) -> Case:
    """A run to train, with the columns of its numbers."""
    return Case(run, columns)


@dataclass(frozen=True)
class Trained:
    """The trained members of a case: what measures and drawings are given.

    Args:
        columns: The columns of the case.
        ensemble: The members.
        dataset: What they were trained on.
        histories: For each member the lines of its log, `{"step": 100, "loss": ...}`.
    """

    columns: Mapping[str, Any]
    ensemble: Ensemble
    dataset: Dataset
    histories: Sequence[Sequence[Row]]

    def rows(self, measure: str, values: Sequence[float], **columns: Any) -> list[Row]:
        """A row for each member, from a measure's name, the members' values, and further columns."""
        seeds = [member.seed for member in self.ensemble.members]
        both = zip(seeds, values, strict=True)
        return [{**columns, "seed": seed, "measure": measure, "value": float(value)} for seed, value in both]


@runtime_checkable
class Measure(Protocol):
    """Something to measure of trained members."""

    @property
    def key(self) -> Mapping[str, Any]:
        """All that its numbers depend on beside the members, as JSON: they are computed once."""
        ...

    def __call__(self, trained: Trained) -> list[Row]:
        """A row for each member and number; `Trained.rows` makes them."""
        ...


@dataclass(frozen=True)
class Fact:
    """Numbers that need no training: a function, and its arguments as JSON.

    Args:
        name: Its name, under which its numbers are kept.
        function: From the arguments to rows, each with a `measure` and a `value`.
        arguments: The arguments.
    """

    name: str
    function: Callable[..., Sequence[Row]]
    arguments: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Outcome(Protocol):
    """What drawings are given: our rows, the paper's, and the trained members of each case."""

    rows: Rows
    published: Rows

    def trained(self, **columns: Any) -> Trained:
        """The members of the one case that has these columns."""
        ...


@dataclass(frozen=True)
class Plan:
    """All that an experiment consists of, at one scale.

    Building a plan reads no data and trains nothing: datasets are named, and networks too.

    Args:
        cases: What to train.
        measures: What to measure of every case.
        facts: Numbers that need no training.
        claims: What the paper says, each a function of rows.
        published: The paper's numbers, in rows with the same columns as ours.
        figures: What to draw, by the name of the file.
        caveats: In what this differs from the paper, in sentences.
    """

    cases: Sequence[Case] = ()
    measures: Sequence[Measure] = ()
    facts: Sequence[Fact] = ()
    claims: Sequence[Claim] = ()
    published: Sequence[Row] = ()
    figures: Mapping[str, Callable[[Outcome], Figure]] = field(default_factory=dict)
    caveats: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of a paper.

    Args:
        name: The paper and the figure: rhodes2021/fig4.
        claim: What the paper says, in one line.
        function: From settings to a plan; the defaults of its arguments are the paper's settings.
        scales: The settings that differ at smaller scales.
        hidden: Why a smaller scale cannot show the effect, by scale; its verdict is then that it is not testable.
    """

    name: str
    claim: str
    function: Callable[..., Plan]
    scales: Mapping[str, Mapping[str, Any]]
    hidden: Mapping[str, str]

    @property
    def paper(self) -> str:
        """The short name of the paper."""
        return self.name.partition("/")[0]

    @property
    def about(self) -> str:
        """What is done, from the docstring of its function."""
        return inspect.cleandoc(self.function.__doc__ or "")

    def settings(self, scale: str, /, **changes: Any) -> dict[str, Any]:
        """All settings of a scale, with some of them changed; one that it does not have is refused."""
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES)
        own = dict(self.scales.get(scale, {}))
        what = f"experiment {self.name!r}"
        usual = bind(what, self.function, kwargs=own)
        settings = bind(what, self.function, kwargs={**own, **changes})
        for key, value in settings.items():
            if value == () and usual[key] != ():
                raise UntwineError(f"{key} of {what} must have a value or more, not none")
        return settings

    def plan(self, settings: Mapping[str, Any]) -> Plan:
        """The plan for these settings; those of which there is none are refused."""
        try:
            plan = self.function(**settings)
        except UntwineError:
            raise
        except Exception as error:
            why = f"{place(error.__traceback__)}: {brief(error)}"
            raise UntwineError(f"{self.name} has no plan for these settings{why}") from error
        columns = [repr(sorted(case.columns.items())) for case in plan.cases]
        for case, same in zip(plan.cases, columns, strict=True):
            if columns.count(same) > 1:  # its models would count twice
                raise UntwineError(f"{self.name} has two cases of {dict(case.columns)}: a setting repeats a value")
        return plan

    @contextlib.contextmanager
    def blamed(self, what: str) -> Iterator[None]:
        """Name the part of a user's own experiment that fails, and its line; a bug of ours keeps its traceback.

        Args:
            what: The part.
        """
        try:
            yield
        except UntwineError:
            raise
        except Exception as error:
            if self.function.__module__.startswith("untwine.") or failure(error) is not None:
                raise
            why = f"{place(error.__traceback__)}: {brief(error)}"
            raise UntwineError(f"{what} of {self.name} failed{why}") from error


_EXPERIMENTS: dict[str, Experiment] = {}


def experiment(
    name: str,
    claim: str,
    smoke: Mapping[str, Any],
    small: Mapping[str, Any] | None = None,
    hidden: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Plan]], Experiment]:
    """Register a function from settings to a plan as an experiment.

    Args:
        name: The paper and the figure: rhodes2021/fig4.
        claim: What the paper says, in one line.
        smoke: The settings that make it run in seconds on a CPU.
        small: Those with which it takes at most 15 minutes on two cores; None where the paper's do.
        hidden: Why a smaller scale cannot show the effect, by scale.
    """

    def register(function: Callable[..., Plan]) -> Experiment:
        reasons = {"smoke": "this scale only shows that everything runs", **(hidden or {})}
        known = Experiment(name, claim, function, {"smoke": smoke, "small": small or {}}, reasons)
        if name in _EXPERIMENTS:
            raise UntwineError(f"there are two experiments named {name!r}")
        _EXPERIMENTS[name] = known
        return known

    return register


def registered() -> dict[str, Experiment]:
    """All experiments that were registered, by name."""
    return dict(_EXPERIMENTS)
