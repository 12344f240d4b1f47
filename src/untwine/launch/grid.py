"""What a sweep's file says, as settings of runs: shared ones, lists, and grids of values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from untwine.errors import UntwineError, refuse_unknown

SECTIONS = ("run", "grid", "runs", "score")
SEEDS = ("seeds", "data_seeds")
PARTS = ("method", "dataset", "network", "optimiser")  # what has arguments of its own


def settings(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The settings of every run, by their paths: `{"method": "beta_vae", "method.beta": 4, "seeds": "0-4"}`.

    Args:
        content: `run` has what all runs share, `grid` lists of values of which every combination is taken, and `runs`
            a list of further settings, each of which may have a `grid` of its own.

    >>> settings({"run": {"steps": 9}, "grid": {"latents": [2, 3]}, "runs": [{"method": "vae"}]})
    [{'steps': 9, 'method': 'vae', 'latents': 2}, {'steps': 9, 'method': 'vae', 'latents': 3}]
    """
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
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables by their paths; those of parts, `{"name": "beta_vae", "beta": 4}`, too.

    >>> flat({"method": {"name": "beta-vae", "beta": 4}, "latents": 6, "method.capacity": 1})
    {'method': 'beta-vae', 'method.beta': 4, 'latents': 6, 'method.capacity': 1}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        path = above + str(key).replace("-", "_")
        if isinstance(value, Mapping) and (not above or path in PARTS):
            inside = dict(value)
            if "name" in inside:
                found[path] = inside.pop("name")
            found |= flat(inside, f"{path}.")
        else:
            found[path] = value
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


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UntwineError(f"{where} of a sweep is a table of settings, not {value!r}")
    return value
