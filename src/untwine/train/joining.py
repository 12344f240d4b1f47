"""Members as runs: those that differ in numbers alone train as one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from untwine.errors import UntwineError
from untwine.parts import is_each
from untwine.train.member import SILENT, Member
from untwine.train.run import Run


def gathered(spec: Any, members: Sequence[Any]) -> Any:
    """A spec with one number for each member wherever the specs of members differ.

    Args:
        spec: The spec of a run, as JSON.
        members: The spec of each member, of the same structure.

    >>> gathered({"beta": 1.0, "steps": 9}, [{"beta": 1.0, "steps": 9}, {"beta": 4.0, "steps": 9}])
    {'beta': {'each': [1.0, 4.0]}, 'steps': 9}
    """
    if isinstance(spec, dict) and not is_each(spec):
        return {key: gathered(value, [member[key] for member in members]) for key, value in spec.items()}
    if isinstance(spec, list):
        return [gathered(value, [member[i] for member in members]) for i, value in enumerate(spec)]
    return {"each": list(members)} if is_each(spec) or len(set(members)) > 1 else spec


def joined(members: Sequence[Member]) -> list[Run]:
    """As few runs as there can be that together have these members, each of them once.

    Members of one run differ in their seeds and in numbers of their method or learning rate.

    Args:
        members: Members of any runs.

    >>> runs = [Run("beta_vae", "synthetic_linear", steps=9), Run({"name": "vae"}, "synthetic_linear", steps=9)]
    >>> [run.seeds for run in joined([*runs[0].replace(seeds=[0, 1]).members(), *runs[1].members()])]
    [(0, 1), (0,)]
    """
    return [run_of(group) if run is None else run for group, run in _together(members)]


def groups(members: Sequence[Member]) -> list[list[Member]]:
    """The members of each run that `joined` would return.

    Args:
        members: Members of any runs.
    """
    return [group for group, _ in _together(members)]


def _together(members: Sequence[Member]) -> Iterator[tuple[list[Member], Run | None]]:
    """Members that can train together, and the run of them if it was made to find that out."""
    alike: dict[str, list[Member]] = {}
    for member in {member.id: member for member in members}.values():
        alike.setdefault(structure(member.spec), []).append(member)
    for group in alike.values():
        equal: dict[str, list[Member]] = {}
        for member in group:
            equal.setdefault(json.dumps(member.spec, sort_keys=True), []).append(member)
        run = _as_one([same[0] for same in equal.values()])  # seeds can always differ by member
        if run is None:
            yield from ((same, None) for same in equal.values())
        else:
            yield group, run if len(equal) == len(group) else None


def run_of(members: Sequence[Member]) -> Run:
    """The run of members that can train together.

    Args:
        members: Some or all of one of `groups`.
    """
    run = _as_one(members)
    if run is None:
        raise UntwineError(f"the spec of {members[0].name} does not make the member that it was taken from")
    return run


def _as_one(members: Sequence[Member]) -> Run | None:
    """The run of these members; None where a number in which they differ cannot differ by member."""
    spec = members[0].spec
    trained = {key: value for key, value in spec.items() if key not in SILENT}
    values = {**spec, **gathered(trained, [member.spec for member in members])}
    seeds = {"seeds": [member.seed for member in members], "data_seeds": [member.data_seed for member in members]}
    try:
        run = Run.from_json({**values, **seeds})
    except UntwineError:
        return None
    return run if [member.id for member in run.members()] == [member.id for member in members] else None


def structure(spec: Mapping[str, Any]) -> str:
    """A text that is equal for specs that differ only in numbers of the method and the learning rate."""
    open_fields = {key: _without_floats(spec[key]) for key in ("method", "lr")}
    return json.dumps({**spec, **open_fields}, sort_keys=True)


def _without_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_floats(item) for item in value]
    return None if isinstance(value, float) else value
