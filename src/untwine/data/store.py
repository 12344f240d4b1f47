"""The data folder: public files that are fetched once and verified, and files that are made from them or drawn."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from untwine.data.public import File
from untwine.errors import UntwineError


def folder() -> Path:
    """The data folder: `UNTWINE_DATA`, else that of the platform for a user's caches."""
    import pooch

    return Path(os.environ.get("UNTWINE_DATA") or pooch.os_cache("untwine")).expanduser()


def find(file: File) -> Path | None:
    """Where a file lies, verified or not; None if it is not here."""
    places = [folder() / file.path, *(Path(place) / file.name for place in file.elsewhere)]
    return next((place for place in places if place.is_file()), None)


def fetch(file: File, hint: str = "") -> Path:
    """A verified file, downloaded if it is not here. `hint` ends the message where it cannot be had."""
    found = find(file)
    if found is None:
        raise UntwineError(f"{file.name} is not in {folder()}. {hint}")
    return found


def derived(path: str, make: Callable[[Path], None], what: str, size: int | None = None) -> Path:
    """A file beneath the data folder that is made once: `make` writes it to the path it is given.

    `path` ends in a version where the way of making it may change; `what` says what is done ("drawing dSprites");
    `size` is how many bytes it will take, so that a full disk is noticed before.
    """
    target = folder() / path
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        make(part)
        part.replace(target)
    return target
