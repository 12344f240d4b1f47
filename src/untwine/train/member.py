"""A member: one model of a run, with its seeds, its objective, and its identity."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from untwine.errors import UntwineError
from untwine.methods import methods
from untwine.methods.registry import as_stored
from untwine.model import likelihoods, networks, posteriors, priors  # noqa: F401 - a spec names their parts
from untwine.model.networks import Network
from untwine.objective import pairing  # noqa: F401 - likewise
from untwine.objective.core import Objective
from untwine.objective.penalties import watchable
from untwine.objective.schedules import Schedule, schedule
from untwine.parts import Each, from_json, is_each, leaves, rebuild, to_json

T = TypeVar("T")

# The largest numbers that a run may have.
MOST = {"latents": 100_000, "steps": 10**12, "batch_size": 10**9, "log_every": 10**12}

# Fields of a spec that change what is written down, not what is trained.
SILENT = ("log_every", "watch")


def digest(value: Any) -> str:
    """A short hash of JSON data, independent of the order of keys.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def identity(spec: Mapping[str, Any], seed: int, data_seed: int) -> str:
    """The id of a member: a hash of all that can change what is trained.

    Args:
        spec: Everything but the seeds as JSON.
        seed: The seed of its initial parameters.
        data_seed: The seed of its batches and of its noise.
    """
    return digest([{key: value for key, value in spec.items() if key not in SILENT}, seed, data_seed])


@dataclass(frozen=True)
class Member:
    """One model of a run.

    Args:
        seed: The seed of its initial parameters.
        data_seed: The seed of its batches and of its noise.
        objective: What it minimises, with the terms that it watches.
        network: The network of its encoder and decoder.
        lr: Its learning rate.
        spec: Everything but the seeds as JSON, as `run.json` has it.
        name: A name for people, unique in its run.
    """

    seed: int
    data_seed: int
    objective: Objective = field(compare=False, repr=False)
    network: Network = field(compare=False, repr=False)
    lr: Schedule = field(compare=False, repr=False)
    spec: dict[str, Any] = field(compare=False, repr=False)
    name: str = field(compare=False, default="")

    @classmethod
    def from_json(cls, seed: int, data_seed: int, spec: dict[str, Any], name: str = "") -> Member:
        """The member that a spec describes.

        Args:
            seed: The seed of its initial parameters.
            data_seed: The seed of its batches and of its noise.
            spec: Everything else as JSON; nothing in it differs by member.
            name: Its name.
        """
        objective = watched(to_objective(spec["method"], stored=True), spec.get("watch", ()))
        lr = schedule(from_json(spec["lr"]))
        return cls(seed, data_seed, objective, networks.build(spec["network"]), lr, spec, name)

    @functools.cached_property
    def id(self) -> str:
        """The identity: a hash of all that can change the result."""
        return identity(self.spec, self.seed, self.data_seed)

    @property
    def method(self) -> str:
        """The name of its method; "objective" for one without a name."""
        return self.spec["method"].get("name", "objective")

    @property
    def optimiser(self) -> dict[str, Any]:
        """The spec of its optimiser."""
        return self.spec["optimiser"]

    @property
    def precision(self) -> str:
        """The precision of its passes: "float32" or "bfloat16"."""
        return self.spec["precision"]


def to_objective(method: Any, stored: bool = False) -> Objective:
    """The objective that a method's name, its JSON or an objective stands for.

    Args:
        method: The name, JSON or objective.
        stored: Whether the JSON was written by a run (see `as_stored`).

    >>> list(to_objective({"name": "beta_vae", "beta": 2.0}).penalties)
    ['kl']
    """
    if isinstance(method, Objective):
        return method
    if isinstance(method, str):
        return methods.call(method, {})
    if not isinstance(method, Mapping):
        raise UntwineError(f"a method is a name, an Objective or JSON, not {method!r}")
    if "objective" in method:
        objective = from_json(method["objective"])
        if not isinstance(objective, Objective):
            raise UntwineError("the method of this run is not an objective")
        return objective
    if "name" not in method:
        raise UntwineError(f"a method is {{'name': ..., ...}} or {{'objective': ...}}, not {sorted(method)}")
    arguments = {key: from_json(value) for key, value in method.items() if key != "name"}
    return methods.call(method["name"], as_stored(method["name"], arguments, stored))


def method_json(objective: Objective) -> dict[str, Any]:
    """The JSON of a method: its name and arguments, or all of its objective where it has no name."""
    call = getattr(objective, "method", None)
    return {"objective": to_json(objective)} if call is None else {key: to_json(value) for key, value in call.items()}


def watched(objective: Objective, names: Iterable[str]) -> Objective:
    """An objective with further terms, by their names, that are only watched."""
    terms = {name: watchable(name) for name in names}
    return objective.watching(terms) if terms else objective


def by_member(value: T, count: int) -> list[T]:
    """A part, or a number, for each member: every `Each` in it is replaced by the member's value.

    Args:
        value: The part or the number. Without any `Each` in it, all members share it.
        count: The number of members.
    """

    def differs(leaf: Any) -> bool:
        return isinstance(leaf, Each)

    found = list(leaves(value, differs))
    if not found:
        return [value] * count
    return [rebuild(value, differs, (each.values[i] for each in found)) for i in range(count)]


def each_paths(value: Any, path: str = "") -> list[tuple[str, list[float]]]:
    """Where JSON has numbers by member, and these numbers."""
    if isinstance(value, Mapping):
        if is_each(value):
            return [(path, value["each"])]
        return [item for k, v in value.items() for item in each_paths(v, f"{path}.{k}" if path else k)]
    if isinstance(value, list):
        return [item for i, v in enumerate(value) for item in each_paths(v, f"{path}[{i}]")]
    return []
