"""Progress bars on the terminal; where there is none, a line every minute."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from untwine.errors import printable

T = TypeVar("T")
LINE_SECONDS = 60.0  # between two lines where there is no terminal; what is over before says nothing


class Pulse:
    """Prints how far something is, at most once a minute: for logs of jobs, where there is no terminal.

    Args:
        seconds: The time between two lines.
        clock: Tells the time in seconds.
    """

    def __init__(self, seconds: float = LINE_SECONDS, clock: Callable[[], float] | None = None):
        self.clock = clock or time.monotonic
        self.seconds, self.began = seconds, self.clock()
        self.last = self.began

    def say(self, line: Callable[[float], str]) -> bool:
        """Print a line if one is due, and say whether it was.

        Args:
            line: Makes the line, from the seconds since the beginning.
        """
        now = self.clock()
        if now - self.last < self.seconds:
            return False
        self.last = now
        with contextlib.suppress(OSError, ValueError):  # a closed stream must not end what is going on
            print(f"untwine: {printable(line(now - self.began))}", file=sys.stderr, flush=True)
        return True


def share_done(done: float, total: float | None, begun: float, seconds: float) -> str:
    """How much is done, and how long the rest takes at the speed so far.

    Args:
        done: The amount that is done.
        total: The amount of all; None where it is unknown.
        begun: The amount at the beginning.
        seconds: The time since then.

    >>> share_done(250, 1000, 0, 60), share_done(5, None, 0, 60)
    ('25%, 3 min left', '')
    """
    if not total:
        return ""
    left = f", {duration((total - done) * seconds / (done - begun))} left" if done > begun else ""
    return f"{100 * done / total:.0f}%{left}"


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
        progress: Whether to show a bar; None shows one if there is a terminal, and else prints a line every minute.
        in_bytes: Whether amounts are numbers of bytes.
        done: The amount with which the bar begins.
    """
    if progress is None and not sys.stderr.isatty():
        yield _lines(what, total, in_bytes, done)
        return
    if progress is False:
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


def _lines(what: str, total: int | None, in_bytes: bool, begun: int) -> Callable[[int], None]:
    """A function that counts what it is given, and prints a line every minute (see `counter`)."""
    pulse, done = Pulse(), begun

    def count(more: int) -> None:
        nonlocal done
        done += more
        text = amount if in_bytes else "{:,}".format

        def line(seconds: float) -> str:
            share = share_done(done, total, begun, seconds)
            return f"{what}: {text(done)}" + (f" of {text(total)} ({share})" if total else "")

        pulse.say(line)

    return count


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

    >>> [amount(count) for count in (0, 999, 26_454, 267_573_662, 12_400_000_000, 10**30)]
    ['0 bytes', '999 bytes', '26.5 kB', '267.6 MB', '12.4 GB', 'over 1,000 EB']
    """
    if count < 1000:
        return f"{count} bytes"
    number, unit = count / 1000, 0
    while number >= 999.95 and unit < 5:
        number, unit = number / 1000, unit + 1
    if number >= 1000:
        return "over 1,000 EB"
    return f"{number:.1f} {('kB', 'MB', 'GB', 'TB', 'PB', 'EB')[unit]}"
