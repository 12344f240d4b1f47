"""The spec of a run: frozen, written to JSON and back."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, Union

import numpy as np

from untwine import data
from untwine.arguments import Count, EachPositive, PerMember, Positive, Share, checked, coerce
from untwine.cards import card
from untwine.coercion import shown
from untwine.data import Dataset
from untwine.data.moments import principal, standard
from untwine.errors import UntwineError, refuse_unknown
from untwine.methods import methods
from untwine.methods.registry import DEFAULTS
from untwine.model import networks
from untwine.model.info import Info
from untwine.model.networks import Network
from untwine.objective.core import Objective
from untwine.objective.schedules import Schedule, schedule
from untwine.parts import Each, from_json, resolve, to_json
from untwine.quantities import at_most
from untwine.train.folders.names import named
from untwine.train.holdout import Holdout, Selection, split
from untwine.train.member import (
    MOST,
    SILENT,
    Member,
    by_member,
    digest,
    each_paths,
    method_json,
    to_objective,
    watched,
)
from untwine.train.remarks.describing import settings, title
from untwine.train.seeds import Integer, Seeds, parse_seeds, seeds_in_words
from untwine.train.steps.optimisers import make, optimisers

Sampling: TypeAlias = Literal["iid", "epochs"]
Precision: TypeAlias = Literal["float32", "bfloat16"]
Spec: TypeAlias = Mapping[str, Any]  # JSON: {"name": ..., **arguments}

_SEEDS = ("seeds", "data_seeds")
_KINDS: dict[str, Any] = {
    "latents": Annotated[Count, at_most(MOST["latents"])],
    "steps": Annotated[Count, at_most(MOST["steps"])],
    "batch_size": Annotated[Count, at_most(MOST["batch_size"])],
    "sampling": Sampling,
    "clip": Union[Positive, None],  # noqa: UP007
    "precision": Precision,
    "standardise": bool,
    "log_every": Annotated[Count, at_most(MOST["log_every"])],
    "holdout": Union[Share, None],  # noqa: UP007
}


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Run:
    """What to train: a method on a dataset, with a network, for some seeds.

    An argument that is None takes the value with which the method was published, else the default.

    Args:
        method: A method's name, an objective such as `uw.methods.jl1_vae(gamma=0.2)`, or JSON.
        dataset: A dataset, its name, or its spec.
        network: A network, its name, or its spec. "auto" is the network that the method was published with where
            it takes such examples, else one that suits them.
        latents: The number of latents.
        seeds: A seed for each member: a list, a range, or a text such as "0-3,7".
        data_seeds: Seeds of the batches and of the noise; by default those of `seeds`. One number is for all members.
        steps: The number of training steps.
        batch_size: Examples in a step.
        lr: The learning rate: a number, one for each member, or a schedule.
        optimiser: An optimiser's name or its spec.
        sampling: "iid" draws with replacement; "epochs" reshuffles, and the last batch of an epoch is short.
        clip: The largest norm of a member's gradient; longer ones are scaled down.
        precision: The precision of the passes, "float32" or "bfloat16".
        standardise: Whether a network sees images less their mean, over their standard deviation, by channel
            (michlo2023, B.4).
        log_every: Steps between two lines of the log.
        watch: Names of further terms for the log.
        holdout: The share of the examples, such as 0.1, that is never trained on. Their loss is computed at every line
            of the log, on at most 8 batches, as `holdout_loss`. None trains on all examples.

    >>> run = Run(method="beta_vae", dataset="synthetic_linear", seeds=[0, 1], steps=10)
    >>> Run.from_json(run.to_json()) == run
    True
    """

    method: Objective
    dataset: dict[str, Any]
    network: Network
    latents: int
    seeds: tuple[int, ...]
    data_seeds: tuple[int, ...] | None
    steps: int
    batch_size: int
    lr: float | Each | Schedule
    optimiser: dict[str, Any]
    sampling: Sampling
    clip: float | None
    precision: Precision
    standardise: bool
    log_every: int
    watch: tuple[str, ...]
    holdout: float | None

    @checked("*")
    def __init__(
        self,
        method: str | Objective | Spec,
        dataset: str | Dataset | Spec,
        network: str | Network | Spec = "auto",
        latents: Integer | None = None,
        seeds: Seeds = (0,),
        data_seeds: Integer | Seeds | None = None,
        steps: Integer | None = None,
        batch_size: Integer | None = None,
        lr: PerMember | Schedule | None = None,
        optimiser: str | Spec | None = None,
        sampling: Sampling | None = None,
        clip: float | None = None,
        precision: Precision = "float32",
        standardise: bool = False,
        log_every: Integer = 100,
        watch: str | Sequence[str] | None = (),
        holdout: float | None = None,
    ) -> None:
        arguments = dict(locals())
        arguments.pop("self")
        self._settle(**arguments)

    def _settle(self, method: Any, dataset: Any, network: Any, seeds: Any, data_seeds: Any, **settings: Any) -> None:
        """Set every field: names become what they stand for, and values that cannot be right are refused."""
        objective = to_objective(method)
        published: Mapping[str, Any] = getattr(objective, "published", {})
        for name, value in _settings(published).items():
            if settings[name] is None:
                settings[name] = value
        put = functools.partial(object.__setattr__, self)
        put("_dataset", dataset if isinstance(dataset, Dataset) else None)
        put("method", objective)
        put("dataset", _dataset_spec(dataset))
        put("network", self._suited(network, published.get("network")))
        put("seeds", parse_seeds(seeds))
        put("data_seeds", self._data_seeds(data_seeds))
        rate, watch = settings["lr"], settings["watch"]
        put("lr", rate if isinstance(rate, Schedule) else coerce(rate, EachPositive, "lr"))
        put("optimiser", _optimiser_spec(settings["optimiser"]))
        watch = coerce((watch,) if isinstance(watch, str) else watch or (), tuple[str, ...], "watch")
        put("watch", tuple(dict.fromkeys(name.replace("-", "_") for name in watch)))
        for name, kind in _KINDS.items():
            put(name, coerce(settings[name], kind, name))
        put("holdout", self.holdout or None)
        if self.holdout and objective.pairing is not None:
            raise UntwineError("holdout cannot be kept: this method pairs examples with any states, held out or not")
        self._check_members()

    def _suited(self, network: Any, published: Any) -> Network:
        if isinstance(network, Network):
            return network
        if isinstance(network, str) and network == "auto":
            return networks.suited(self.make_dataset().shape, published)
        return networks.build(_named("network", network))

    def _data_seeds(self, seeds: Any) -> tuple[int, ...] | None:
        if seeds is None:
            return None
        parsed = parse_seeds([seeds] * len(self.seeds) if isinstance(seeds, int | np.integer) else seeds)
        if len(parsed) != len(self.seeds):
            raise UntwineError(f"the number of data seeds is {len(parsed)}, but of seeds {len(self.seeds)}")
        return parsed

    def _check_members(self) -> None:
        """Refuse numbers by member that are not one for each seed, and members that are the same."""
        for position, values in each_paths(self.spec()):
            if len(values) != len(self.seeds):
                raise UntwineError(
                    f"{position} has {len(values)} values, but the number of seeds is {len(self.seeds)}: "
                    "give one value for each member (seeds may repeat)"
                )
        ids = [member.id for member in self.members()]
        if len(set(ids)) < len(ids):
            raise UntwineError("two members of this run are the same: a seed repeats and nothing else differs")

    # --- what it stands for ------------------------------------------------------------------------

    def make_dataset(self) -> Dataset:
        """The dataset, which is made once."""
        dataset: Dataset | None = self.__dict__["_dataset"]
        if dataset is None:
            dataset = data.build(self.dataset)
            object.__setattr__(self, "_dataset", dataset)
        return dataset

    def info(self) -> Info:
        """What the parts of a model may know when they are built."""
        return self._info

    @functools.cached_property
    def _info(self) -> Info:
        dataset, training = self.make_dataset(), self.training()
        if training is not None:
            dataset = Selection(dataset, training)
        constants = standard(dataset) if self.standardise else None
        spread = constants[1] if constants else ()
        leading = functools.partial(principal, dataset, std=spread)
        return Info(self.latents, tuple(dataset.shape), len(dataset), constants, leading)

    def training(self) -> np.ndarray | None:
        """The numbers of the examples to train on; None where these are all."""
        return None if self._split is None else self._split.training

    def held_out(self) -> np.ndarray | None:
        """The numbers of the examples that are held out, in random order; None where there are none."""
        return None if self._split is None else self._split.held_out

    @functools.cached_property
    def _split(self) -> Holdout | None:
        return None if self.holdout is None else split(len(self.make_dataset()), self.holdout)

    def members(self) -> list[Member]:
        """The members, in the order of the seeds; each has its own values of what differs by member."""
        return list(self._members)

    @functools.cached_property
    def _members(self) -> tuple[Member, ...]:
        spec, members = self.spec(), []
        objectives, rates = by_member(self.method, len(self.seeds)), by_member(self.lr, len(self.seeds))
        schedules = {id(rate): schedule(rate) for rate in rates}  # the same for all, where the rate is
        for i, seed in enumerate(self.seeds):
            member = Member(
                seed=seed,
                data_seed=self.data_seeds[i] if self.data_seeds else seed,
                objective=watched(objectives[i], self.watch),
                network=self.network,
                lr=schedules[id(rates[i])],
                spec=resolve(spec, i),
            )
            members.append(member)
        return tuple(named(members))

    # --- JSON --------------------------------------------------------------------------------------

    def spec(self) -> dict[str, Any]:
        """Everything but the seeds, as JSON."""
        return {key: value for key, value in self.to_json().items() if key not in _SEEDS}

    @property
    def id(self) -> str:
        """The identity: a hash of all that can change the result."""
        return digest({key: value for key, value in self.to_json().items() if key not in SILENT})

    def to_json(self) -> dict[str, Any]:
        """The run as JSON, which `from_json` reads."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.holdout is None:  # runs were stored before there was one, and keep their ids
            del values["holdout"]
        return to_json({**values, "method": method_json(self.method), "network": self.network.spec})

    @classmethod
    def from_json(cls, value: Mapping[str, Any], stored: bool = False) -> Run:
        """The run that JSON describes; names are looked up, nothing in it is executed.

        Args:
            value: The JSON.
            stored: Whether a run wrote it; else it may leave out what is at its default.
        """
        if not isinstance(value, Mapping):
            raise UntwineError(f"a run as JSON is a mapping with a method and a dataset, not {value!r:.100}")
        refuse_unknown("field of a run:", value, cls.__dataclass_fields__)
        for key in ("method", "dataset"):
            if key not in value:
                raise UntwineError(f"a run needs a {key}")
        run = object.__new__(cls)
        defaults = {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}
        method = to_objective(value["method"], stored)
        run._settle(**{**defaults, **value, "method": method, "lr": from_json(value.get("lr"))})
        return run

    def replace(self, **changes: Any) -> Run:
        """The same run with some fields changed; all others stay, also those that came with the method or the data."""
        refuse_unknown("field of a run:", changes, self.__dataclass_fields__)
        run = dataclasses.replace(self, **changes)
        if "dataset" not in changes:
            object.__setattr__(run, "_dataset", self.__dict__["_dataset"])
        return run

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Run({title(self.spec())}, seeds {seeds_in_words(self.seeds)}, {self.steps:,} steps)"

    def _repr_html_(self) -> str:
        """The settings of the run, for notebooks."""
        return card("Run", [], settings(self.spec(), self.seeds))


def defaults(method: str) -> dict[str, Any]:
    """The settings of a run of a method that are not given.

    >>> defaults("jl1_vae")["lr"]
    0.0001
    """
    return _settings(getattr(methods[method], "published", {}))


def _settings(published: Mapping[str, Any]) -> dict[str, Any]:
    return {key: published.get(key, value) for key, value in DEFAULTS.items()}


def _dataset_spec(dataset: Any) -> dict[str, Any]:
    return dict(dataset.spec) if isinstance(dataset, Dataset) else data.full_spec(_named("dataset", dataset))


def _optimiser_spec(optimiser: Any) -> dict[str, Any]:
    given = _named("optimiser", optimiser)
    spec = optimisers.spec(given.pop("name"), given)
    make(spec)  # which refuses what its annotations allow
    return spec


def _named(kind: str, value: Any) -> dict[str, Any]:
    """A spec `{"name": ..., **arguments}`, from a name or JSON."""
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        one = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
        raise UntwineError(f"{one} is a name or {{'name': ..., ...}}, not {shown(value)}{_instead(kind, value)}")
    return dict(value)


def _instead(kind: str, value: Any) -> str:
    """What to give in place of a value that is nearly a dataset or a network; empty where that cannot be told."""
    if inspect.isfunction(value):
        return f": call it, as in {value.__name__}()"
    if kind == "dataset" and hasattr(value, "shape"):
        return ": an array becomes a dataset by uw.datasets.images(array)"
    if kind == "network" and hasattr(value, "parameters"):
        return ": a network of your own is a function that @uw.network decorates"
    return ""
