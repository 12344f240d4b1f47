"""The spec of a run: frozen, written to JSON and back, and the identity of its members."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from untwine import data
from untwine.arguments import EachPositive, coerce
from untwine.data import Dataset
from untwine.data.moments import principal, standard
from untwine.errors import UntwineError, refuse_unknown, unknown
from untwine.methods import methods
from untwine.methods.registry import DEFAULTS
from untwine.model import likelihoods, networks, posteriors, priors  # noqa: F401 - a spec names their parts
from untwine.model.info import Info
from untwine.objective import pairing  # noqa: F401 - likewise
from untwine.objective.core import Objective
from untwine.objective.penalties import watchable
from untwine.objective.schedules import Schedule, schedule
from untwine.parts import from_json, is_each, number, resolve, to_json
from untwine.registry import Registry
from untwine.train.optimisers import optimisers

# Fields that change what is written down, not what is trained.
SILENT = ("log_every", "watch")
_SEEDS = ("seeds", "data_seeds")
_MOST = 10_000


def digest(value: Any) -> str:
    """A short hash of JSON data, independent of the order of keys.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Member:
    """One model of a run: its seeds, its own spec, the hash of both, and a name for people."""

    seed: int
    data_seed: int
    spec: dict[str, Any] = field(compare=False)
    name: str = field(compare=False)

    @property
    def id(self) -> str:
        own = {key: value for key, value in self.spec.items() if key not in SILENT}
        return digest([own, self.seed, self.data_seed])

    def named(self, taken: Iterable[str]) -> Member:
        """The same member under a name that is not taken."""
        apart = "" if self.data_seed == self.seed else f"-data-{self.data_seed}"
        name = f"seed-{self.seed}{apart}"
        return dataclasses.replace(self, name=f"{name}-{self.id[:8]}" if name in taken else name)


def parse_seeds(seeds: Any) -> tuple[int, ...]:
    """Seeds from a list, a range, or text such as `"0-3,7"`.

    >>> parse_seeds("0-3,7")
    (0, 1, 2, 3, 7)
    """
    if isinstance(seeds, str):
        found: list[int] = []
        try:
            for piece in seeds.replace(" ", "").split(","):
                first, dash, last = piece.partition("-")
                many = range(int(first), int(last) + 1) if dash else [int(first)]
                if not 0 < len(many) <= _MOST:
                    raise UntwineError(f"{piece} is not a range of 1 to {_MOST:,} seeds")
                found += many
        except ValueError:
            raise UntwineError(f"seeds are written as 0-9 or 0,1,5, not {seeds!r}") from None
        seeds = found
    if hasattr(seeds, "tolist"):
        seeds = seeds.tolist()
    if not isinstance(seeds, Sequence) or not seeds:
        raise UntwineError(f"seeds are a list such as [0, 1, 2] or '0-9', not {seeds!r}")
    seeds = [seed.tolist() if hasattr(seed, "tolist") else seed for seed in seeds]
    for seed in seeds:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**62:
            raise UntwineError(f"a seed is a whole number from 0, not {seed!r}")
    return tuple(seeds)


@dataclass(frozen=True)
class Run:
    """What to train: a method on a dataset, with a network, for some seeds.

    `method` is a name, an objective such as `uw.methods.jl1_vae(gamma=0.2)`, or JSON; `dataset` and
    `network` likewise (`"auto"` is the network that the method was published with where it takes such
    examples, else one that suits them). `seeds` has one number for each member; `data_seeds` (order of data,
    and noise) are the same unless given. `sampling` is `"iid"`, with replacement, or `"epochs"`, reshuffled,
    whose last batch is short. With `standardise` a network sees images less their mean, over their standard
    deviation, by channel (michlo2023, B.4). `watch` adds terms to the log. What is None here is as the method was
    published.

    >>> run = Run(method="beta_vae", dataset="synthetic_linear", seeds=[0, 1], steps=10)
    >>> Run.from_json(run.to_json()) == run
    True
    """

    method: Any
    dataset: Any
    network: Any = "auto"
    latents: Any = None
    seeds: Any = (0,)
    data_seeds: Any = None
    steps: Any = None
    batch_size: Any = None
    lr: Any = None
    optimiser: Any = None
    sampling: Any = None
    clip: Any = None
    precision: str = "float32"
    standardise: Any = False
    log_every: int = 100
    watch: Any = ()

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("_dataset", self.dataset if isinstance(self.dataset, Dataset) else None)
        published = getattr(self.method, "published", None)
        put("method", _method(self.method))
        if published is None:
            published = _published(self.method)
        for name, value in _settings(published).items():
            if getattr(self, name) is None:
                put(name, value)
        put("dataset", _named("dataset", self.dataset, data.full_spec))
        put("optimiser", _named("optimiser", self.optimiser, _whole(optimisers)))
        put("seeds", parse_seeds(self.seeds))
        if self.data_seeds is not None:
            given: Any = self.data_seeds
            given = parse_seeds([given] * len(self.seeds) if isinstance(given, int) else given)
            put("data_seeds", given)
            if len(given) != len(self.seeds):
                raise UntwineError(f"the number of data seeds is {len(given)}, but of seeds {len(self.seeds)}")
        put("lr", self.lr if isinstance(self.lr, Schedule) else coerce(self.lr, EachPositive, "lr"))
        watch = (self.watch,) if isinstance(self.watch, str) else self.watch or ()
        put("watch", tuple(dict.fromkeys(name.replace("-", "_") for name in watch)))
        put("clip", None if self.clip is None else number(self.clip))
        for name in ("latents", "batch_size", "log_every", "steps"):
            if hasattr(getattr(self, name), "tolist"):  # a NumPy integer
                put(name, getattr(self, name).tolist())
        if isinstance(self.network, str) and self.network == "auto":
            put("network", networks.suited(self.make_dataset().shape, published.get("network")).spec)
        else:
            put("network", _named("network", self.network, _whole(networks.networks)))
        self._check()

    def _check(self) -> None:
        for name in ("latents", "batch_size", "log_every", "steps"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UntwineError(f"{name} must be a whole number, 1 or more, not {value!r}")
        if not isinstance(self.standardise, bool):
            raise UntwineError(f"standardise is True or False, not {self.standardise!r}")
        for name, allowed in (("sampling", ("iid", "epochs")), ("precision", ("float32", "bfloat16"))):
            if getattr(self, name) not in allowed:
                raise unknown(name, str(getattr(self, name)), allowed)
        if self.clip is not None and not (isinstance(self.clip, float) and self.clip > 0):
            raise UntwineError(f"clip must be positive, not {self.clip!r}")
        for name in self.watch:
            watchable(name)
        for position, value in _each_paths(self.spec()):
            if len(value) != len(self.seeds):
                raise UntwineError(
                    f"{position} has {len(value)} values, but the number of seeds is {len(self.seeds)}: "
                    "give one value for each member (seeds may repeat)"
                )
        ids = [member.id for member in self.members()]
        if len(set(ids)) < len(ids):
            raise UntwineError("two members of this run are the same: a seed repeats and nothing else differs")

    # --- what it stands for ------------------------------------------------------------------------

    def make_dataset(self) -> Dataset:
        """The dataset, made once."""
        made: Dataset | None = self.__dict__["_dataset"]
        if made is None:
            made = data.build(self.dataset)
            object.__setattr__(self, "_dataset", made)
        return made

    def info(self) -> Info:
        dataset = self.make_dataset()
        constants = standard(dataset) if self.standardise else None
        spread = constants[1] if constants else ()
        leading = functools.partial(principal, dataset, std=spread)
        return Info(self.latents, tuple(dataset.shape), len(dataset), constants, leading)

    def members(self) -> list[Member]:
        """The members, in the order of the seeds; each has its own values of what differs by member."""
        spec = self.spec()
        both = zip(self.seeds, self.data_seeds or self.seeds, strict=True)
        members: list[Member] = []
        for i, (seed, data_seed) in enumerate(both):
            member = Member(seed, data_seed, resolve(spec, i), "")
            members.append(member.named([other.name for other in members]))
        return members

    # --- JSON --------------------------------------------------------------------------------------

    def spec(self) -> dict[str, Any]:
        """Everything but the seeds, as JSON."""
        whole = self.to_json()
        return {key: value for key, value in whole.items() if key not in _SEEDS}

    @property
    def id(self) -> str:
        """The identity: a hash of all that can change the result."""
        return digest({key: value for key, value in self.to_json().items() if key not in SILENT})

    def to_json(self) -> dict[str, Any]:
        return {f.name: to_json(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Run:
        refuse_unknown("field of a run:", value, cls.__dataclass_fields__)
        for key in ("method", "dataset"):
            if key not in value:
                raise UntwineError(f"a run needs a {key}")
        arguments: dict[str, Any] = {k: from_json(v) if k == "lr" else v for k, v in value.items()}
        return cls(**arguments)

    def replace(self, **changes: Any) -> Run:
        """The same run with some fields changed; all others stay, also those that came with the method or the data."""
        refuse_unknown("field of a run:", changes, self.__dataclass_fields__)
        made = dataclasses.replace(self, **changes)
        if "dataset" not in changes:
            object.__setattr__(made, "_dataset", self.__dict__["_dataset"])
        return made


def _published(method: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run with which a method (its spec) was published."""
    return getattr(methods[method["name"]], "published", {}) if "name" in method else {}


def defaults(method: str) -> dict[str, Any]:
    """What a run of a method is unless it says otherwise.

    >>> defaults("jl1_vae")["lr"]
    0.0001
    """
    return _settings(_published({"name": method}))


def _settings(published: Mapping[str, Any]) -> dict[str, Any]:
    return {key: published.get(key, value) for key, value in DEFAULTS.items()}


def objective(spec: dict[str, Any]) -> Objective:
    """The objective of a (resolved) spec, with the terms that it watches."""
    method = spec["method"]
    if "objective" in method:
        made = from_json(method["objective"])
        if not isinstance(made, Objective):
            raise UntwineError("the method of this run is not an objective")
    else:
        made = methods.call(method["name"], {k: from_json(v) for k, v in method.items() if k != "name"})
    return made.watching({name: watchable(name) for name in spec.get("watch", ())})


def learning_rate(spec: dict[str, Any]) -> Schedule:
    return schedule(from_json(spec["lr"]))


def _method(value: Any) -> dict[str, Any]:
    if isinstance(value, Objective):
        spec = getattr(value, "method", None)
        return {"objective": to_json(value)} if spec is None else {k: to_json(v) for k, v in spec.items()}
    if isinstance(value, Mapping) and "objective" in value:
        return {"objective": to_json(from_json(value["objective"]))}
    if isinstance(value, str | Mapping):
        named = {"name": value} if isinstance(value, str) else dict(value)
        if "name" not in named:
            raise UntwineError(f"a method is {{'name': ..., ...}} or {{'objective': ...}}, not {sorted(named)}")
        return _method(methods.call(named.pop("name"), {k: from_json(v) for k, v in named.items()}))
    raise UntwineError(f"a method is a name, an Objective or JSON, not {value!r}")


def _whole(registry: Registry) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda spec: registry.spec(spec["name"], {k: v for k, v in spec.items() if k != "name"})


def _named(kind: str, value: Any, complete: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """A spec `{"name": ..., **arguments}` with every argument, from a name, an object or JSON."""
    if hasattr(value, "spec"):
        return dict(value.spec)
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping) or "name" not in value:
        raise UntwineError(f"a {kind} is a name or {{'name': ..., ...}}, not {value!r}")
    return complete(value)


def _each_paths(value: Any, path: str = "") -> list[tuple[str, list[float]]]:
    if isinstance(value, Mapping):
        if is_each(value):
            return [(path, value["each"])]
        return [found for k, v in value.items() for found in _each_paths(v, f"{path}.{k}" if path else k)]
    if isinstance(value, list):
        return [found for i, v in enumerate(value) for found in _each_paths(v, f"{path}[{i}]")]
    return []
