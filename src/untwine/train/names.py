"""The names of members: their seeds, and the numbers in which they differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from untwine.differences import in_words, own_numbers
from untwine.train.member import Member

_MOST = 4  # numbers in a name


def named(members: Sequence[Member], others: Mapping[str, dict[str, Any]] | None = None) -> list[Member]:
    """The members under names that no other has: `seed-0`, or `beta=4, seed 0` where their numbers differ.

    Args:
        members: Members that train in one run.
        others: The specs of members of the same run that keep their names, by name.
    """
    taken = dict(others or {})
    own = own_numbers([*taken.values(), *(member.spec for member in members)])[len(taken) :]
    renamed = []
    for member, numbers in zip(members, own, strict=True):
        name = _name(member, numbers)
        if name in taken:  # members may differ in more numbers than a name can say
            name = f"{name}, {member.id[:8]}"
        taken[name] = member.spec
        renamed.append(dataclasses.replace(member, name=name))
    return renamed


def file_stem(name: str) -> str:
    """A member's name as that of a file, without spaces.

    >>> file_stem("seed-0"), file_stem("beta=4, seed 0")
    ('seed-0', 'beta=4,seed-0')
    """
    return name.replace(", ", ",").replace(" ", "-")


def _name(member: Member, own: Mapping[str, float]) -> str:
    apart = member.data_seed != member.seed
    if not own:
        return f"seed-{member.seed}" + (f"-data-{member.data_seed}" if apart else "")
    numbers = in_words(dict(list(own.items())[:_MOST]))
    return f"{numbers}, seed {member.seed}" + (f", data seed {member.data_seed}" if apart else "")
