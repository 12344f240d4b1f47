"""Errors in the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from untwine.errors import Unavailable, UntwineError


class UsageError(UntwineError):
    """A wrong command line: exit code 2."""


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Turn errors about a request into usage errors, except for data that cannot be fetched."""
    try:
        yield
    except (UsageError, Unavailable):
        raise
    except UntwineError as error:
        raise UsageError(str(error)) from None
