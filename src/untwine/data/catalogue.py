"""What there is of each dataset, found out without making those that are made from files."""

from __future__ import annotations

import math
from typing import Any

from untwine.data.files import store
from untwine.data.files.public import File
from untwine.data.specs import datasets, public_of

YOURS, DRAWN, PRESENT, FETCHABLE = "yours", "drawn", "present", "fetchable"


def describe(name: str) -> dict[str, Any]:
    """A dataset with its default arguments: what it holds, its licence, and whether it is here.

    `state` is `drawn` (nothing is needed), `present` (all its files are here; they are verified when they are used),
    `fetchable`, or `yours` (it is made from what you give). `drawable` says that a drawn one exists beside that of
    public files.

    >>> import untwine.datasets
    >>> found = describe("three-dots")
    >>> found["state"], found["examples"], found["factors"]["x1"], found["bytes"]
    ('drawn', 500000, 64, 2048000000)
    """
    function, public = datasets[name], public_of(datasets[name])
    needed, given = datasets.arguments(name)
    about: dict[str, Any] = {"name": function.__name__, "needs": needed, "arguments": given}
    if needed:
        return about | {"state": YOURS}
    made: Any = function() if public is None else public
    sizes = None if made.factors is None else dict(zip(made.factors.names, made.factors.sizes, strict=True))
    examples = len(made) if public is None else made.examples
    item = 1 if len(made.shape) == 3 else 4  # uint8 images, float32 vectors
    about |= {"examples": examples, "shape": list(made.shape), "factors": sizes}
    about |= {"bytes": examples * math.prod(made.shape) * item, "drawable": "rendered" in given}
    if public is None:
        return about | {"state": DRAWN, "licence": None, "download": None, "files": []}
    files = public.files(**given)
    lengths = [file.size for file in files]
    return about | {
        "state": PRESENT if all(store.find(file) for file in files) else FETCHABLE,
        "licence": public.licence,
        "download": None if None in lengths else sum(filter(None, lengths)),
        "files": [{"file": file.path, "here": _place(file), "checksum": file.checksum} for file in files],
    }


def public_files(name: str) -> tuple[File, ...]:
    """All public files of a dataset, with whatever arguments; none where it needs none."""
    public = public_of(datasets[name])
    return () if public is None else public.every()


def _place(file: File) -> str | None:
    found = store.find(file)
    return None if found is None else str(found)
