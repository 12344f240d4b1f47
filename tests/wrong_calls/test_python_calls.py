# ruff: noqa: E501
"""Each wrong call in Python says what was wrong and what would be right, and writes nothing."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from python_calls import ROWS, Row
from torch import nn
from wrong_world import contents

import untwine as uw
from untwine.errors import UntwineError

_NUMBERS = itertools.count()


def run(**changes: Any) -> uw.Run:
    settings: dict[str, Any] = {"method": uw.methods.vae(likelihood="squared_error"), "network": "rolinek_linear"}
    settings |= {"dataset": {"name": "synthetic_linear", "samples": 200}, "steps": 2, "seeds": [0, 1]}
    return uw.Run(**(settings | changes))


def pen(value: Callable[[uw.Pass], Any]) -> uw.Run:
    """A run with a penalty of a user's own."""
    term = uw.part(type(f"WrongCall{next(_NUMBERS)}", (uw.Term,), {"value": lambda self, passed: value(passed)}))()
    objective = uw.methods.vae(likelihood="squared_error").replace(penalties={"pen": 1.0 * uw.Penalty(term)})
    return run(method=objective)


def net(builder: Any) -> uw.Run:
    """A run with a network of a user's own."""

    def made() -> Any:
        """A network."""
        return builder

    made.__name__ = made.__qualname__ = f"wrong_call_{next(_NUMBERS)}"
    return run(network=uw.network(made)())


def halves(encoder: nn.Module, decoder: nn.Module) -> uw.Run:
    return net(lambda info, outputs: (encoder, decoder))


@pytest.fixture(autouse=True)
def as_installed() -> Iterator[None]:
    """Users run the package without the checks of shapes that tests add: what they see is what these rows see."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def names(original: Path) -> dict[str, Any]:
    """What the rows may use."""
    return {
        "uw": uw, "np": np, "torch": torch, "nn": nn, "math": math, "run": run, "pen": pen, "net": net, "halves": halves,
        "fit": lambda run: uw.fit(run, "new", progress=False),
        "E": uw.load(original / "runs" / "vectors"), "P": uw.load(original / "runs" / "pictures"),
    }  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.call)
def test_a_wrong_call(row: Row, names: dict[str, Any], world: Path) -> None:
    before = contents(world)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((UntwineError, AttributeError)) as caught:
            eval(row.call, names)
    assert row.message in str(caught.value)
    assert row.error in {kind.__name__ for kind in type(caught.value).__mro__}
    assert str(caught.value).count("\n") <= 1
    after = contents(world)
    if row.error == "Diverged":  # only training shows it
        after = {path: content for path, content in after.items() if path.partition("/")[0] != "new"}
        import shutil

        shutil.rmtree(world / "new")
    assert after == before


def test_no_row_is_there_twice() -> None:
    assert len({row.call for row in ROWS}) == len(ROWS)
