"""The literature: which publication a citation in a docstring stands for.

`references.json` has the entries of `docs/bibliography.md`, so that the command line can show them.
"""

from __future__ import annotations

import functools
import json
import re
from importlib import resources
from typing import NamedTuple


class Reference(NamedTuple):
    """A publication.

    Args:
        cited: How docstrings cite it.
        paper: Its title and where it appeared.
        identifier: Its number in an archive, or its address; empty where it has none.
    """

    cited: tuple[str, ...]
    paper: str
    identifier: str

    def __str__(self) -> str:
        return f"{self.cited[-1]}: {self.paper} {self.identifier}".rstrip()


@functools.cache
def references() -> tuple[Reference, ...]:
    """Every publication of the bibliography."""
    stored = json.loads(resources.files("untwine").joinpath("references.json").read_text(encoding="utf-8"))
    return tuple(Reference(tuple(entry["cited"]), entry["paper"], entry["identifier"]) for entry in stored)


def references_in(text: str) -> list[Reference]:
    """The publications that a text cites, in the order of the bibliography.

    >>> [reference.identifier for reference in references_in("Chen et al. 2018, Eq. 4; rhodes2021")]
    ['arXiv:2106.02923', 'arXiv:1802.04942']
    """
    words = " ".join(text.split())
    return [known for known in references() if any(re.search(rf"\b{re.escape(name)}\b", words) for name in known.cited)]
