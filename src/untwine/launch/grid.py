"""What a sweep's file says, as settings of runs: shared ones, lists, and grids of values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from untwine.data import Dataset
from untwine.errors import UntwineError, refuse_unknown
from untwine.model.networks import Network
from untwine.objective.core import Objective
from untwine.train.member import method_json
from untwine.trees import to_json

SECTIONS = ("run", "grid", "runs", "score")
SEEDS = ("seeds", "data_seeds")
PARTS = ("method", "dataset", "network", "optimiser")  # what has arguments of its own
MOST = 100_000  # runs of a sweep


def settings(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The settings of every run, by their paths: `{"method": "beta_vae", "method.beta": 4, "seeds": "0-4"}`.

    Args:
        content: `run` has what all runs share, `grid` lists of values of which every combination is taken, and `runs`
            a list of further settings, each of which may have a `grid` of its own.

    >>> settings({"run": {"steps": 9}, "grid": {"latents": [2, 3]}, "runs": [{"method": "vae"}]})
    [{'steps': 9, 'method': 'vae', 'latents': 2}, {'steps': 9, 'method': 'vae', 'latents': 3}]
    """
    content = _plain(content, "")
    refuse_unknown("section of a sweep:", content, SECTIONS)
    shared, general = (_table(content.get(key, {}), key) for key in ("run", "grid"))
    listed = content.get("runs", [{}])
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise UntwineError("runs of a sweep are a list of tables: write [[runs]] above each")
    found = []
    for i, one in enumerate(listed):
        own = dict(_table(one, f"runs[{i}]"))
        grid = {**general, **_table(own.pop("grid", {}), f"runs[{i}].grid")}
        base = over(flat(shared), own)
        found += [over(base, combination) for combination in combinations(flat(grid))]
        _refuse_too_many(len(found))
    return found


def over(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by path, and others over them. A part that is named in a table takes none of the arguments below it.

    Args:
        base: Settings by their paths.
        more: Settings that take their place.

    >>> base = {"network": "mlp", "network.hidden": [8]}
    >>> over(base, {"network.hidden": [9]})
    {'network': 'mlp', 'network.hidden': [9]}
    >>> over(base, {"network": {"name": "conv", "channels": [4]}})
    {'network': 'conv', 'network.channels': [4]}
    """
    replaced = tuple(f"{key}." for key, value in more.items() if isinstance(value, Mapping) and "name" in value)
    return {path: value for path, value in base.items() if not path.startswith(replaced)} | flat(more)


def combinations(grid: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the values of a grid; the last path changes first.

    >>> combinations({"a": [1, 2], "b": [3, 4]})
    [{'a': 1, 'b': 3}, {'a': 1, 'b': 4}, {'a': 2, 'b': 3}, {'a': 2, 'b': 4}]
    """
    for path, values in grid.items():
        if path in SEEDS:
            raise UntwineError(f"{path} stand under [run] or [[runs]], not in a grid: each combination has all of them")
        if not isinstance(values, list) or not values:
            raise UntwineError(f"grid: {path} has a list of values, not {values!r}")
    _refuse_too_many(math.prod(len(values) for values in grid.values()))
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables by their paths; those of parts, `{"name": "beta_vae", "beta": 4}`, too.

    >>> flat({"method": {"name": "beta-vae", "beta": 4}, "latents": 6, "method.capacity": 1})
    {'method': 'beta-vae', 'method.beta': 4, 'latents': 6, 'method.capacity': 1}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        path = above + str(key).replace("-", "_")
        own = {path: value}
        if isinstance(value, Mapping) and path in PARTS:
            inside = dict(value)
            own = {path: inside.pop("name")} if "name" in inside else {}
            own |= flat(inside, f"{path}.")
        for one in own:
            if one in found:
                raise UntwineError(f"{one} is given twice")
            if one.endswith(".name") and one.removesuffix(".name") in PARTS:
                raise UntwineError(f"{one}: write the name as {one.removesuffix('.name')} = ...")
        found |= own
    return found


def spec(setting: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a run from its settings by path.

    >>> spec({"method": "beta_vae", "method.beta": 4, "latents": 6})
    {'method': {'name': 'beta_vae', 'beta': 4}, 'latents': 6}
    """
    made: dict[str, Any] = {}
    for path, value in setting.items():
        head, dot, argument = path.partition(".")
        if not dot:
            inside = {k: v for k, v in made.get(head, {}).items() if k != "name"} if head in made else {}
            made[head] = {"name": value, **inside} if inside else value
            continue
        if head not in PARTS:
            raise UntwineError(f"{path!r} is no setting of a run: only {', '.join(PARTS)} have arguments")
        if head not in made and head not in setting:
            raise UntwineError(f"{path!r} needs a {head}: name one, as in {head} = ...")
        inside = made.get(head, {})
        made[head] = {**(inside if isinstance(inside, dict) else {"name": inside}), argument: value}
    return made


def differing(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The paths by which runs differ, method and dataset always among them.

    >>> differing([{"method": "vae", "latents": 2, "steps": 9}, {"method": "vae", "latents": 3, "steps": 9}])
    ['method', 'latents']
    """
    paths = list(dict.fromkeys(path for one in found for path in one if path not in SEEDS))
    always = [path for path in ("method", "dataset") if path in paths]
    varied = [path for path in paths if len({repr(one.get(path)) for one in found}) > 1]
    return list(dict.fromkeys([*always, *varied]))


def _plain(value: Any, where: str) -> Any:
    """A value as a file could say it: methods, networks and datasets by name and arguments, numbers without NumPy."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{where}.{key}" if where else str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple | range | np.ndarray):
        return [_plain(item, where) for item in value]
    if isinstance(value, Objective):
        return method_json(value)
    if isinstance(value, Network | Dataset):
        return dict(value.spec)
    try:
        return to_json(value.item() if isinstance(value, np.generic) else value)
    except UntwineError:
        kind = type(value).__name__
        raise UntwineError(f"{where} of a sweep cannot be of type {kind}: it has no form in files") from None


def _refuse_too_many(count: int) -> None:
    if count > MOST:
        raise UntwineError(f"a sweep has at most {MOST:,} runs, and this one {count:,}: take shorter lists, or several")


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UntwineError(f"{where} of a sweep is a table of settings, not {value!r}")
    return value
