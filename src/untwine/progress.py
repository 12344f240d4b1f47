"""Progress bars on the terminal. Quiet when nobody looks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], what: str, total: int, progress: bool | None = None) -> Iterator[T]:
    """The items, with a bar that says what is being done if there is a terminal (or `progress=True`)."""
    with counter(what, total, progress) as count:
        for item in items:
            yield item
            count(1)


@contextlib.contextmanager
def counter(what: str, total: int, progress: bool | None = None) -> Iterator[Callable[[int], None]]:
    """A function to be told how much more is done, with a bar if there is a terminal (or `progress=True`)."""
    if not (progress or (progress is None and sys.stderr.isatty())):
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)
