"""Children of this process, which die so that it lives: each is forked, does its work as a command would, and ends."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

PATIENCE = 120.0  # seconds after which a child counts as hanging
CRASHED = 70  # the exit code of a traceback


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    Args:
        code: Its exit code; minus the number of the signal that killed it.
        said: What it wrote to the terminal.
        hung: Whether it had to be stopped.
        seconds: How long it took.
        kills: How many processes were killed by `killed_after`.
    """

    code: int
    said: str
    hung: bool = False
    seconds: float = 0.0
    kills: int = 0

    @property
    def lines(self) -> list[str]:
        """What it said as errors, without warnings."""
        lines = self.said.splitlines()
        return [line for line in lines if line.strip() and not line.startswith("untwine: warning: ")]


class Child:
    """A forked process that does some work as the command line does: errors become a line and an exit code.

    Args:
        work: What it does.
        first: Is called in the child before that: it prepares a fault.
        alone: Whether it leads a process group of its own, so that all of it can be killed.
    """

    def __init__(self, work: Callable[[], object], first: Callable[[], object] = lambda: None, alone: bool = False):
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - it outlives this call
        self.begun = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid:
            return
        code = CRASHED
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if alone:
                os.setpgid(0, 0)
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            first()
            code = as_command(work)
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)

    def signal(self, number: int) -> None:
        """Send a signal to the child."""
        os.kill(self.pid, number)

    def workers(self) -> list[int]:
        """The children of the child."""
        try:
            return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
        except OSError:
            return []

    def runs_for(self, seconds: float) -> bool:
        """Wait for so many seconds, or until the child ends; whether it still runs."""
        descriptor = os.pidfd_open(self.pid)
        try:
            return not select.select([descriptor], [], [], max(0.0, seconds))[0]
        finally:
            os.close(descriptor)

    def ended(self, patience: float = PATIENCE) -> Ended:
        """Wait until the child ends."""
        hung = self.runs_for(patience)
        if hung:
            self.signal(signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.output.seek(0)
        said = self.output.read().decode(errors="replace")
        self.output.close()
        return Ended(os.waitstatus_to_exitcode(status), said, hung, time.monotonic() - self.begun)


def as_command(work: Callable[[], object]) -> int:
    """Do some work under the error handling of the command line; return the exit code."""
    from untwine import cli

    def run(words: list[str], alone: bool) -> int:
        work()
        return 0

    cli._run = run
    try:
        return cli.main(["torture"])
    except Exception:
        traceback.print_exc()
        return CRASHED


def done(work: Callable[[], object], first: Callable[[], object] = lambda: None) -> Ended:
    """Let a child do some work, and wait for its end."""
    return Child(work, first).ended()


def killed_after(work: Callable[[], object], seconds: float, rng: random.Random, whole: bool = False) -> Ended:
    """Let a child do some work, and kill it after some seconds.

    Args:
        work: What it does.
        seconds: When SIGKILL comes.
        rng: Chooses who dies where there are workers too: the child, one of its workers, or all of them.
        whole: Whether there may be workers.
    """
    child, kills = Child(work, alone=whole), 0
    if child.runs_for(seconds):
        kills, workers = 1, child.workers() if whole else []
        victim = rng.choice(["child", "worker", "all"] if workers else ["child"])
        if victim == "worker":
            _kill(rng.choice(workers))
        elif victim == "all":
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.signal(signal.SIGKILL)
    return replace(child.ended(), kills=kills)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
