"""Reporters of training: a bar on the terminal, lines where there is none, and files for TensorBoard."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from untwine.errors import UntwineError
from untwine.progress import Pulse, share_done


class Reporter:
    """Is told of every step and every line of the log. This one ignores them; others override its methods."""

    beside_bar = False  # whether a bar is shown as well, where there is a terminal

    def note(self, what: str) -> None:
        """Something takes a while before the first step."""

    def begin(self, pack: dict[str, Any], step: int, steps: int) -> None:
        """A pack begins, or resumes after `step` of `steps` steps."""

    def step(self, step: int) -> None:
        """So many steps are done."""

    def log(self, entry: dict[str, Any]) -> None:
        """A line of the log was written."""


class Bar(Reporter):
    """A bar with steps a second, the time left and the current terms (mean over members)."""

    def __init__(self, progress: Any, terms: Any):
        self.progress, self.terms = progress, terms
        self.task: Any = None

    def note(self, what: str) -> None:
        self.terms.plain = what

    def begin(self, pack: dict[str, Any], step: int, steps: int) -> None:
        count = len(pack["members"])
        name = f"{count} member{'s' if count > 1 else ''}"
        self.terms.plain = ""
        self.task = self.progress.add_task(name, total=steps, completed=step)

    def step(self, step: int) -> None:
        self.progress.update(self.task, completed=step)

    def log(self, entry: dict[str, Any]) -> None:
        self.terms.plain = _mean_terms(entry)


class MinuteLines(Reporter):
    """Where there is no terminal: a line every minute with the step, the time left and the last logged terms.

    Args:
        pulse: Says when a line is due; by default every minute.
    """

    def __init__(self, pulse: Pulse | None = None):
        self.pulse = pulse or Pulse()
        self.terms, self.first, self.steps = "", 0, 0
        self.started = self.pulse.clock()

    def begin(self, pack: dict[str, Any], step: int, steps: int) -> None:
        self.first, self.steps, self.terms = step, steps, ""
        self.started = self.pulse.clock()

    def step(self, step: int) -> None:
        def line(seconds: float) -> str:
            since = self.pulse.clock() - self.started
            share = share_done(step, self.steps, self.first, since)
            return f"step {step:,} of {self.steps:,} ({share})" + (f"  {self.terms}" if self.terms else "")

        self.pulse.say(line)

    def log(self, entry: dict[str, Any]) -> None:
        self.terms = _mean_terms(entry)


def _mean_terms(entry: dict[str, Any]) -> str:
    """The terms of a line of the log, each the mean over the members that are alive."""
    alive = [values for values in entry["members"].values() if "diverged" not in values]
    dead = len(entry["members"]) - len(alive)
    terms = []
    for name in alive[0] if alive else []:
        values = [v[name] for v in alive if v[name] is not None]
        if values:
            terms.append(f"{name} {sum(values) / len(values):.4g}")
    return "  ".join(terms) + (f"  ({dead} diverged)" if dead else "")


class TensorBoard(Reporter):
    """Writes every term of every member as a scalar."""

    def __init__(self, path: Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UntwineError("TensorBoard is not installed: pip install 'untwine[tensorboard]'") from None
        self.path, self.make = path, SummaryWriter
        self.writers: dict[str, Any] = {}

    def log(self, entry: dict[str, Any]) -> None:
        for member, values in entry["members"].items():
            if member not in self.writers:
                self.writers[member] = self.make(str(self.path / member))
            for name, value in values.items():
                if value is not None:
                    self.writers[member].add_scalar(name, value, entry["step"])

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


class Several(Reporter):
    """Several reporters as one."""

    def __init__(self, reporters: list[Reporter]):
        self.reporters = reporters

    def note(self, what: str) -> None:
        for reporter in self.reporters:
            reporter.note(what)

    def begin(self, pack: dict[str, Any], step: int, steps: int) -> None:
        for reporter in self.reporters:
            reporter.begin(pack, step, steps)

    def step(self, step: int) -> None:
        for reporter in self.reporters:
            reporter.step(step)

    def log(self, entry: dict[str, Any]) -> None:
        for reporter in self.reporters:
            reporter.log(entry)


@contextlib.contextmanager
def _bar() -> Iterator[Bar]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as Left
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.1f} steps/s" if task.speed else "-- steps/s")

    progress = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Speed(), Left())
    terms = Text()  # a line of its own: it would squeeze the bar
    with Live(Group(progress, terms), console=Console(stderr=True), refresh_per_second=4):
        yield Bar(progress, terms)


@contextlib.contextmanager
def report(progress: bool | Reporter | None, tensorboard: Path | None) -> Iterator[Reporter]:
    """A reporter for a run.

    Args:
        progress: A reporter, or whether to show a bar; None shows one if there is a terminal, else a line every minute.
        tensorboard: The folder below which to write TensorBoard's files, if any.
    """
    with contextlib.ExitStack() as stack:
        reporters: list[Reporter] = []
        if isinstance(progress, Reporter):
            reporters.append(progress)
            progress = None if progress.beside_bar else False
        if progress or (progress is None and sys.stderr.isatty()):
            reporters.append(stack.enter_context(_bar()))
        elif progress is None:
            reporters.append(MinuteLines())
        if tensorboard is not None:
            board = TensorBoard(tensorboard / "tensorboard")
            stack.callback(board.close)
            reporters.append(board)
        yield Several(reporters)
