"""Public modules that show only what is public."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def directory(names: Iterable[str]) -> Callable[[], list[str]]:
    """A module's `__dir__` that lists only its public names: `__dir__ = directory(__all__)`.

    >>> directory(["laplace", "given"])()
    ['given', 'laplace']
    """
    public = sorted(names)
    return lambda: list(public)
