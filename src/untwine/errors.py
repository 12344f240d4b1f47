"""Errors for people: what was wrong, where, and what would be right."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches


class UntwineError(Exception):
    """Something the user can put right. The command line prints it without a traceback."""


class Unavailable(UntwineError):
    """Data that is not here and cannot be had now; nothing is wrong with what was asked for."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UntwineError:
    """The error for a misspelt name, with a suggestion.

    >>> str(unknown("dataset", "dsprite", ["dsprites", "mnist"]))
    "unknown dataset 'dsprite'; did you mean 'dsprites'?"
    """
    known = sorted(known)
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
    return UntwineError(f"unknown {kind} {name!r}; {hint}")


def refuse_unknown(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise that error for the first of these names that is not known."""
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)


def brief(error: BaseException) -> str:
    """The kind of an error and the beginning of what it says, in one line.

    >>> brief(ValueError("no such thing\\nas this"))
    'ValueError: no such thing'
    """
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.300}"
