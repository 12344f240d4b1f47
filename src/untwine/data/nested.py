"""Datasets that are made from another one: how that one is written in a spec."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from untwine import naming
from untwine.data.contract import Dataset
from untwine.data.specs import build, datasets, full_spec
from untwine.errors import UntwineError

# A text such as "xy-squares(spacing=4)", a spec, or a dataset.
Inner: TypeAlias = str | Mapping[str, Any] | Dataset


def settle_inner(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the full spec of `dataset` in place of a text or a partial spec; no dataset is made."""
    inner = arguments["dataset"]
    if isinstance(inner, str):
        inner = naming.read("dataset", inner, {name: _speller(name) for name in datasets})
    elif isinstance(inner, Mapping):
        if not isinstance(inner.get("name"), str):
            raise UntwineError(
                f"the spec of a dataset within another needs a name, as in {{'name': 'xy_squares'}}; got {inner}"
            )
        inner = full_spec(inner)
    return {**arguments, "dataset": inner}


def built(inner: Inner) -> Dataset:
    """The dataset of a settled argument: itself, or the one that its spec describes."""
    return inner if isinstance(inner, Dataset) else build(inner)  # type: ignore[arg-type]


def _speller(name: str) -> Callable[..., dict[str, Any]]:
    """A function with the signature of a dataset that returns the full spec instead of the dataset."""

    @functools.wraps(datasets[name])
    def spell(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return full_spec({"name": name, **inspect.signature(datasets[name]).bind(*args, **kwargs).arguments})

    return spell
