"""Errors for people: what was wrong, where, and what would be right."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches


class UntwineError(Exception):
    """Something the user can put right. The command line prints it without a traceback."""


class Unavailable(UntwineError):
    """Data that is not in the cache and cannot be fetched now; the request itself is right."""


class Diverged(UntwineError):
    """Every model that was asked for diverged: there is nothing to compute with."""


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
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.300}"
