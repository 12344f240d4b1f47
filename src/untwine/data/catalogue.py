"""Facts about every dataset, without building those that are made from files."""

from __future__ import annotations

import math
from typing import Any

from untwine.data.files.places import find
from untwine.data.files.public import File
from untwine.data.specs import datasets, public_of

# Values of `state`.
YOURS = "yours"
DRAWN = "drawn"
PRESENT = "present"
FETCHABLE = "fetchable"


def describe(name: str) -> dict[str, Any]:
    """The content, licence and availability of a dataset with default arguments, as JSON.

    `state` is `drawn` (no files are needed), `present` (all its files are here; they are verified when they are used),
    `fetchable`, or `yours` (it needs data from the user). `drawable` is true for a dataset of public files that can be
    drawn instead.

    >>> import untwine.datasets
    >>> about = describe("three-dots")
    >>> about["state"], about["examples"], about["factors"]["x1"], about["bytes"]
    ('drawn', 500000, 64, 2048000000)
    """
    function, public = datasets[name], public_of(datasets[name])
    required, defaults = datasets.arguments(name)
    about: dict[str, Any] = {"name": function.__name__, "needs": required, "arguments": defaults}
    if required:
        return about | {"state": YOURS}
    source: Any = function() if public is None else public
    sizes = None if source.factors is None else dict(zip(source.factors.names, source.factors.sizes, strict=True))
    examples = len(source) if public is None else source.examples
    item = 1 if len(source.shape) == 3 else 4  # uint8 images, float32 vectors
    about |= {"examples": examples, "shape": list(source.shape), "factors": sizes}
    about |= {"bytes": examples * math.prod(source.shape) * item, "drawable": "rendered" in defaults}
    if public is None:
        return about | {"state": DRAWN, "licence": None, "download": None, "files": []}
    files = public.files(**defaults)
    lengths = [file.size for file in files]
    return about | {
        "state": PRESENT if all(find(file) for file in files) else FETCHABLE,
        "licence": public.licence,
        "download": None if None in lengths else sum(filter(None, lengths)),
        "files": [{"file": file.path, "here": _location(file), "checksum": file.checksum} for file in files],
    }


def public_files(name: str) -> tuple[File, ...]:
    """All public files that a dataset needs with any arguments; empty if it needs none."""
    public = public_of(datasets[name])
    return () if public is None else public.every_file()


def _location(file: File) -> str | None:
    path = find(file)
    return None if path is None else str(path)
