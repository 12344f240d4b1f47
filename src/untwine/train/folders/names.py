"""The names of members: their seeds, and the numbers in which they differ."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from untwine.differences import in_words, own_numbers
from untwine.train.member import Member

_MOST = 4  # numbers in a name
_LONGEST = 150  # bytes of a name, which is that of a file too
_APART = '/\\:*?"<>|'  # what separates folders, or what some systems refuse in the names of files


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
        name = _plain(_name(member, numbers))
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


def is_plain(name: str) -> bool:
    """Whether a name can be that of a file in any folder: it leads nowhere else, and a terminal prints it as it is.

    >>> [is_plain(name) for name in ("beta=4, seed 0", "../seed-0", "C:seed-0", ".hidden", "red\\x1b[31m", "")]
    [True, False, False, False, False, False]
    """
    fits = 0 < len(name.encode(errors="replace")) <= _LONGEST + 50
    return fits and name.isprintable() and ".." not in name and name[0] != "." and not set(name) & set(_APART)


def _plain(name: str) -> str:
    """A name with which `is_plain` agrees: other characters become `_`, and a long one ends in a hash."""
    plain = "".join("_" if c in _APART or not c.isprintable() else c for c in name).replace("..", "_").lstrip(".")
    if len(plain.encode()) <= _LONGEST:
        return plain
    return plain.encode()[: _LONGEST - 10].decode(errors="ignore") + "~" + hashlib.sha256(name.encode()).hexdigest()[:8]


def _name(member: Member, own: Mapping[str, float]) -> str:
    apart = member.data_seed != member.seed
    if not own:
        return f"seed-{member.seed}" + (f"-data-{member.data_seed}" if apart else "")
    numbers = in_words(dict(list(own.items())[:_MOST]))
    return f"{numbers}, seed {member.seed}" + (f", data seed {member.data_seed}" if apart else "")
