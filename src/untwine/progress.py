"""Progress bars on the terminal; silent where there is no terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def track(items: Iterable[T], what: str, total: int, progress: bool | None = None) -> Iterator[T]:
    """Yield the items while a bar shows how many are done.

    Args:
        items: What to iterate over.
        what: What the bar says.
        total: The number of items.
        progress: Whether to show a bar; None shows one if there is a terminal.
    """
    with counter(what, total, progress) as count:
        for item in items:
            yield item
            count(1)


@contextlib.contextmanager
def counter(
    what: str, total: int | None, progress: bool | None = None, in_bytes: bool = False, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """A function that advances a bar by the amount it is given.

    Args:
        what: What the bar says.
        total: The amount at which the bar is full; None where it is unknown.
        progress: Whether to show a bar; None shows one if there is a terminal.
        in_bytes: Whether amounts are numbers of bytes.
        done: The amount with which the bar begins.
    """
    if not (progress or (progress is None and sys.stderr.isatty())):
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as Speed

    counted: tuple[Any, ...] = (DownloadColumn(), Speed()) if in_bytes else (MofNCompleteColumn(),)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), *counted, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda more: bar.advance(task, more)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a line while the block runs, if there is a terminal. It needs no rich, so it is there at once."""
    if not sys.stderr.isatty():
        yield
        return
    line = f"{what} ..."
    print(line, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r" + " " * len(line), end="\r", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(42.0), duration(200.0), duration(9000.0), duration(400_000.0)
    ('42 s', '3 min', '2.5 h', '4.6 days')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def amount(count: int) -> str:
    """A number of bytes in a readable unit.

    >>> [amount(count) for count in (0, 999, 26_454, 267_573_662, 12_400_000_000)]
    ['0 bytes', '999 bytes', '26.5 kB', '267.6 MB', '12.4 GB']
    """
    if count < 1000:
        return f"{count} bytes"
    number, unit = count / 1000, 0
    while number >= 999.95 and unit < 3:
        number, unit = number / 1000, unit + 1
    return f"{number:.1f} {('kB', 'MB', 'GB', 'TB')[unit]}"
