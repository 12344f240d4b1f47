"""Slips in a user's parts, which torch tells in its own words: whose they are, and what would be right."""

from __future__ import annotations

import itertools
import traceback
from pathlib import Path
from types import FrameType, TracebackType

from untwine.errors import UntwineError, brief

_HERE = "untwine."
_FOLDER = Path(__file__).parents[2]
_PACKAGES = {"site-packages", "dist-packages"}
# What torch says, and what it means for who wrote the part.
_MEANINGS = (
    (
        ("calling .item()", "cannot be called on meta", "item() cannot be"),
        "it turns a tensor into a number (.item(), float(), int()), which has no gradient and is not the same for all "
        "members: compute with tensors throughout",
    ),
    (
        ("random operation",),
        "it draws from torch's global generator: ask for noise, Needs(noise={'eps': ('normal', (3,))}), and take "
        "passed.noise['eps']",
    ),
    (
        ("data-dependent control flow",),
        "it decides by the value of a tensor (if, while, and): use torch.where, or torch.clamp",
    ),
    (
        ("data pointer", "can't convert", "Can't call numpy"),
        "it turns a tensor into an array of NumPy, which has no gradient: use torch's own functions",
    ),
)


def explained(error: Exception, own: str = "") -> UntwineError | None:
    """An error of a user's part for people; None for one that is not a user's doing.

    Args:
        error: What was raised while a run was tried.
        own: What was being tried, where that is a user's own part.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    part = _penalty(frames) or own
    if not part:
        return None
    said = str(error)
    meaning = next((text for signs, text in _MEANINGS if any(sign in said for sign in signs)), None)
    return UntwineError(f"{part} cannot be trained with{place(error.__traceback__)}: {meaning or brief(error)}")


def _penalty(frames: list[FrameType]) -> str:
    """The penalty of a user in which an error was raised; empty if it was elsewhere, or in one of ours."""
    for outer, inner in itertools.pairwise(frames):
        term = inner.f_locals.get("self")
        if outer.f_code.co_name == "evaluate" and "penalty" in outer.f_locals and hasattr(term, "value"):
            name = outer.f_locals.get("name")
            return "" if type(term).__module__.startswith(_HERE) else f"the penalty {name!r}"
    return ""


def place(trace: TracebackType | None) -> str:
    """The last line of code that belongs neither to untwine nor to an installed package."""
    places = [(Path(entry.filename), entry.lineno) for entry in traceback.extract_tb(trace)]
    own = [(file, line) for file, line in places if not _PACKAGES & set(file.parts) and _FOLDER not in file.parents]
    return f" ({own[-1][0].name}, line {own[-1][1]})" if own else ""
