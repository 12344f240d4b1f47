"""Every dataset by its name, as in `untwine.datasets.three_dots(examples=1000)`.

>>> three_dots(examples=10).shape
(1, 64, 64)
>>> get("three-dots") is three_dots
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from untwine.data.contract import Dataset
from untwine.data.families.registered import *  # noqa: F403 - the list of datasets is kept there alone
from untwine.data.specs import datasets as _registry
from untwine.errors import UntwineError


def names() -> list[str]:
    """The names of all datasets, including the user's own.

    >>> "three_dots" in names()
    True
    """
    return _registry.names()


def get(name: str) -> Callable[..., Dataset]:
    """The dataset function of this name; a misspelt name gets a suggestion."""
    return _registry[name]


if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> Any:
        """A dataset that the user registered with `@uw.dataset`."""
        if name.startswith("__"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return _registry[name]
        except UntwineError as error:
            raise AttributeError(str(error)) from None


def __dir__() -> list[str]:
    return sorted([*names(), "get", "names"])
