"""Errors for people: what was wrong, where, and what would be right."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection, Iterable
from difflib import get_close_matches

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class UntwineError(Exception):
    """Something the user can put right. The command line prints it without a traceback."""


class WrongCall(UntwineError):
    """A call with a wrong name or value of an argument, before anything was done."""


class Unavailable(UntwineError):
    """Data that is not in the cache and cannot be fetched now; the request itself is right."""


class Diverged(UntwineError):
    """Every model that was asked for diverged: there is nothing to compute with."""


class Interrupted(UntwineError):
    """Training was interrupted by a signal; with a folder nothing is lost."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UntwineError:
    """The error for a misspelt name, with a suggestion.

    Args:
        kind: What the name is: "dataset".
        name: The name that was given.
        known: Names that exist.

    >>> str(unknown("dataset", "dsprite", ["dsprites", "mnist"]))
    "unknown dataset 'dsprite'; did you mean 'dsprites'?"
    """
    known = sorted(known)
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
    return UntwineError(f"unknown {kind} {name!r}; {hint}")


def unregistered(kind: str, name: str, known: Iterable[str]) -> UntwineError:
    """The error for a name that no part, method, dataset or metric has: misspelt, or not imported yet.

    Args:
        kind: What the name is: "method".
        name: The name that was given.
        known: Names that are registered.

    >>> str(unregistered("method", "mine", ["vae"])).partition(". ")[2]
    "If 'mine' is your own, import the module that defines it first: in Python, or with --import MODULE_OR_FILE"
    """
    sentence = str(unknown(kind, name, known))
    end = "" if sentence.endswith("?") else "."
    return UntwineError(
        f"{sentence}{end} If {name!r} is your own, import the module that defines it first: "
        "in Python, or with --import MODULE_OR_FILE"
    )


def refuse_unknown(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise the error for a misspelt name for the first of these names that is not known.

    Args:
        kind: What the names are.
        names: Names that were given.
        known: Names that exist.
    """
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)


def brief(error: BaseException) -> str:
    """The type of an error and the beginning of its message, in one line.

    >>> brief(ValueError("no such thing\\nas this"))
    'ValueError: no such thing'
    """
    try:
        said = str(error)
    except Exception:  # a class of a user, whose own text fails
        said = "(it cannot say why)"
    return f"{type(error).__name__}: {said.strip().partition(chr(10))[0]:.300}"


def printable(text: str) -> str:
    r"""A text in which what a terminal would obey, not show, stands as its code: names come from files and folders.

    >>> printable("a\x1b[31m b\u202e c\nd")
    'a\\x1b[31m b\\u202e c\nd'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def warn(text: str) -> None:
    """Warn at the line outside of this package that led here, however deep in the package that is noticed."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)
