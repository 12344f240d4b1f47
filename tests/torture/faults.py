"""Faults, each as a function from a target and a try's number to a verdict."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import random
import resource
import signal
import stat
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.torture.children import Child, done, killed_after
from tests.torture.moments import Moments, full_from, killed_at, stopped_at
from tests.torture.targets import Target, Workshop, differences, outcome
from tests.torture.verdicts import Verdict, fault_of, lost

CAPABILITY_VERSION = 0x20080522
WRITE_ANYWHERE = 1 << 1  # CAP_DAC_OVERRIDE


class Tries:
    """Tries of one target, with what it does when nobody disturbs it.

    Args:
        target: The target.
        workshop: Where its folders are.
    """

    def __init__(self, target: Target, workshop: Workshop):
        self.target, self.workshop = target, workshop
        with workshop.tidied():
            folder = workshop.fresh(target)
            ended = done(self.work(folder))
            if ended.code:
                raise RuntimeError(f"{target.name} does not work without a fault: {ended.said}")
            self.expected, self.seconds = outcome(folder), ended.seconds

    def work(self, folder: Path) -> Callable[[], object]:
        """The work in a folder."""
        return functools.partial(self.target.work, folder)

    def fresh(self) -> Path:
        """A new folder to work in."""
        return self.workshop.fresh(self.target)

    @functools.cached_property
    def operations(self) -> int:
        """How many operations on files the work takes, in the process that does most of them."""
        folder = self.fresh()
        tally = self.workshop.root / f"tally-{self.workshop.number}"
        tally.mkdir()

        def count() -> None:
            def happens(kind: str, needs_room: bool, number: int) -> None:
                (tally / f"{os.getpid()}").write_text(str(number))

            Moments(folder, happens).install()

        done(self.work(folder), count)
        return max(int(file.read_text()) for file in tally.iterdir())

    def at_end(self, folder: Path, before: Verdict | None = None) -> Verdict:
        """The verdict after the work was done once more, now without a fault.

        Args:
            folder: Where.
            before: What was found so far; without it the verdict is "same" if all is as it should be.
        """
        ended = done(self.work(folder))
        if ended.code or ended.hung or "Traceback" in ended.said:
            return lost(f"done again: exit code {ended.code}, {ended.said[-1500:]}")
        wrong = differences(outcome(folder), self.expected)
        return lost(f"done again, these files differ: {wrong}") if wrong else before or Verdict("same")


# --- kill -9 ------------------------------------------------------------------------------------------------


def kill_at_each_write(tries: Tries, number: int, rng: random.Random) -> Verdict:
    """SIGKILL at the n-th operation on files; a write is half done by then."""
    folder, marker = tries.fresh(), tries.workshop.root / f"killed-{tries.workshop.number}"
    at = 1 + number % tries.operations
    spare = tries.target.workers and rng.random() < 0.5  # then it is one of the workers
    happens = lambda: killed_at(at, marker, os.getpid() if spare else None)
    child = done(tries.work(folder), lambda: Moments(folder, happens()).install())
    kills = 1 if marker.exists() else 0
    if child.hung or "Traceback" in child.said or child.code not in (0, 1, -signal.SIGKILL):
        return lost(f"killed at operation {at}: exit code {child.code}, {child.said[-1500:]}").killing(kills)
    return tries.at_end(folder).killing(kills)


def kill_at_random(tries: Tries, number: int, rng: random.Random) -> Verdict:
    """SIGKILL after a random time, and often again while the work goes on."""
    folder, kills = tries.fresh(), 0
    while True:
        ended = killed_after(tries.work(folder), rng.uniform(0, 1.1 * tries.seconds), rng, tries.target.workers)
        kills += ended.kills
        if ended.hung or "Traceback" in ended.said:
            return lost(f"after {kills} kills: {ended.said[-1500:]}").killing(kills)
        if not ended.kills or kills == 4 or rng.random() < 0.4:
            return tries.at_end(folder).killing(kills)


# --- the disk -----------------------------------------------------------------------------------------------


def disk_full(tries: Tries, number: int, rng: random.Random) -> Verdict:
    """ENOSPC from the n-th operation on, or once."""
    folder, at, once = tries.fresh(), 1 + number % tries.operations, rng.random() < 0.5
    ended = done(tries.work(folder), lambda: Moments(folder, full_from(at, once)).install())
    if ended.code == 0 and not ended.hung and "Traceback" not in ended.said:
        # What failed was tried again, or is of no importance, such as a note that spares reading a file again.
        wrong = [name for name in differences(outcome(folder), tries.expected) if not name.endswith(".stamp.json")]
        return lost(f"disk full at operation {at} without a word: {wrong}") if wrong else tries.at_end(folder)
    if wrong := fault_of(ended, [str(folder)], tries.target.advice):
        return lost(f"disk full at operation {at}: {wrong}")
    return tries.at_end(folder, Verdict("named", ended.lines[0]))


def read_only(tries: Tries, number: int, rng: random.Random) -> Verdict:
    """A folder in which nothing may be written: before the work, after it, and amid it."""
    folder = tries.fresh()
    if number % 3:
        stopped = 10**9 if number % 3 == 1 else rng.randrange(1, tries.operations)
        done(tries.work(folder), lambda: Moments(folder, killed_at(stopped)).install())
    kept = outcome(folder)
    _writable(folder, False)
    ended = done(tries.work(folder), _as_any_user)
    _writable(folder, True)
    if wrong := differences(outcome(folder), kept):
        return lost(f"written though read-only: {wrong}")
    if ended.code == 0 and not ended.hung:
        return tries.at_end(folder, Verdict("harmless", "there was nothing to write"))
    if number % 3 == 1 and tries.target.shows:
        return lost(f"what was done is not shown: {ended.said}")
    if wrong := fault_of(ended, [str(folder)], tries.target.advice):
        return lost(wrong)
    return tries.at_end(folder, Verdict("named", ended.lines[0]))


def _writable(folder: Path, may: bool) -> None:
    """Give or take the right to write, for all that is in a folder."""
    for path in [folder, *folder.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | stat.S_IWUSR if may else (mode & ~0o222) | 0o444 | (0o111 if path.is_dir() else 0))


def _as_any_user() -> None:
    """Give up root's right to write anywhere, and nothing else: a library may be where only root can read."""
    if os.getuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        header = struct.pack("Ii", CAPABILITY_VERSION, 0)
        data = ctypes.create_string_buffer(24)  # two times effective, permitted, inheritable
        if libc.capget(header, data):
            raise OSError(ctypes.get_errno(), "capget")
        masks = struct.unpack("6I", data.raw)
        kept = [mask & ~WRITE_ANYWHERE if place < 3 else mask for place, mask in enumerate(masks)]
        if libc.capset(header, struct.pack("6I", *kept)):
            raise OSError(ctypes.get_errno(), "capset")


def may_drop_rights() -> str:
    """Why read-only folders cannot be tried here; empty if they can."""
    if os.getuid():
        return ""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)

        def write() -> None:
            with contextlib.suppress(PermissionError):
                (Path(folder) / "a.txt").write_text("written")
                raise RuntimeError("written though read-only")

        tried = done(write, _as_any_user)
    return "" if tried.code == 0 else "root cannot give up its rights here, and may write anywhere"


# --- others -------------------------------------------------------------------------------------------------


def two_processes(tries: Tries, number: int, rng: random.Random) -> Verdict:
    """A second process begins the same work while the first is amid it."""
    folder = tries.fresh()
    at = rng.randrange(1, tries.operations)
    first = Child(tries.work(folder), lambda: Moments(folder, stopped_at(at)).install())
    begun = time.monotonic()
    while _state(first.pid) not in "TZ" and time.monotonic() < begun + 30:
        time.sleep(0.001)
    second = Child(tries.work(folder))
    second.runs_for(2 * tries.seconds)  # some work waits for the other, all else says so at once
    first.signal(signal.SIGCONT)
    ends = [first.ended(), second.ended()]
    named = [ended for ended in ends if ended.code]
    for ended, other in ((ends[0], second.pid), (ends[1], first.pid)):
        # One that stands still between taking the lock and saying so has no number yet.
        if ended.code and (wrong := fault_of(ended, [f"in use by process {other};", "in use by another process;"])):
            return lost(wrong)
    return tries.at_end(folder, Verdict("named", named[0].lines[0]) if named else None)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def clock(tries: Tries, number: int, rng: random.Random) -> Verdict:
    """The clocks jump back and forth by up to an hour."""
    folder = tries.fresh()

    def unsteady() -> None:
        for name in ("time", "monotonic", "perf_counter"):
            setattr(time, name, functools.partial(_told, getattr(time, name), [0.0]))

    def _told(real: Callable[[], float], offset: list[float]) -> float:
        if rng.random() < 0.1:
            offset[0] += rng.uniform(-3600, 3600)
        return real() + offset[0]

    ended = done(tries.work(folder), unsteady)
    if ended.code or ended.hung:
        return lost(f"exit code {ended.code}: {ended.said[-1500:]}")
    wrong = differences(outcome(folder), tries.expected)
    return lost(f"these files differ: {wrong}") if wrong else Verdict("same")


def out_of_memory(tries: Tries, number: int, rng: random.Random) -> Verdict:
    """No memory is left at a random step, on a GPU or here: the same errors are raised."""
    folder, at = tries.fresh(), rng.randrange(1, 24)
    kind: Any = rng.choice([torch.OutOfMemoryError, MemoryError, RuntimeError])
    text = {
        torch.OutOfMemoryError: "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 1 GiB",
        MemoryError: "",
        RuntimeError: "[enforce fail at alloc_cpu.cpp:120] err == 0. DefaultCPUAllocator: can't allocate memory",
    }[kind]

    def scarce() -> None:
        from untwine.train.steps.step import PlainStep

        real, count = PlainStep.__call__, [0]

        def step(self: PlainStep, *given: Any) -> Any:
            count[0] += 1
            if count[0] == at:
                raise kind(text)
            return real(self, *given)

        PlainStep.__call__ = step  # type: ignore[method-assign]

    ended = done(tries.work(folder), scarce)
    if wrong := fault_of(ended, ["memory is used up"]):
        return lost(wrong)
    return tries.at_end(folder, Verdict("named", ended.lines[0]))


def memory_limit(tries: Tries, number: int, rng: random.Random) -> Verdict:
    """The system gives no more memory than some megabytes, whatever asks for it; libraries are loaded before."""
    folder, room = tries.fresh(), int(rng.uniform(0, 48e6))

    def limited() -> None:
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + room,) * 2)

    ended = done(tries.work(folder), limited)
    if ended.code == 0 and not ended.hung:
        return tries.at_end(folder)
    if wrong := fault_of(ended, ["memory is used up"]):
        return lost(f"{room} bytes were left: {wrong}")
    return tries.at_end(folder, Verdict("named", ended.lines[0]))


FAULTS: dict[str, Callable[[Tries, int, random.Random], Verdict]] = {
    "kill at each write": kill_at_each_write,
    "kill at random": kill_at_random,
    "disk full": disk_full,
    "read-only": read_only,
    "two processes": two_processes,
    "clock": clock,
    "out of memory": out_of_memory,
    "memory limit": memory_limit,
}
