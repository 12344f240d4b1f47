"""The runner: makes the tries of the plan, and has them judged."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import json
import os
import random
import shlex
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy.random
import scipy.special
import torch

from tests.torture import rows
from tests.torture.children import PATIENCE, Child
from tests.torture.faults import FAULTS, Tries, may_drop_rights
from tests.torture.flips import STATES, Damage
from tests.torture.plan import EACH, FLIPS, PLAN, SPREAD
from tests.torture.targets import TARGETS, Workshop
from tests.torture.verdicts import Verdict, lost


def main(words: Sequence[str]) -> int:
    """Run what is asked for; 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description="Torture: is anything lost?")
    parser.add_argument("--short", action="store_true", help="a few tries of each kind")
    parser.add_argument("--only", default="", metavar="FAULT/TARGET", help="those whose names begin so")
    parser.add_argument("--seed", type=int, default=0, help="other seeds make other tries")
    parser.add_argument("--tries", type=int, help="how many tries of each kind there are")
    parser.add_argument("--try", type=int, dest="number", help="the one try of this number")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="the i-th of n parts of the tries")
    parser.add_argument("--out", type=Path, help="where to write the numbers")
    parser.add_argument("--add", action="store_true", help="add to the numbers that are there")
    asked = parser.parse_args(words)
    torch.set_num_threads(1)
    print(rows.heading(), flush=True)
    done, begun = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="untwine-torture-") as place, _server():
        assert numpy.random and scipy.special  # loaded here, not by each child: scipy's BLAS hangs if it has no memory
        gc.collect()
        gc.freeze()  # children copy less of what they share
        runner = Runner(Path(place), asked)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):  # what was found until then counts
            for (fault, target), (full, short) in PLAN.items():
                if f"{fault}/{target}".startswith(asked.only) and (short or not asked.short):
                    done.append(rows.Row(fault, target))
                    runner.fill(done[-1], short if asked.short else full)
    found = [row.to_json() for row in done if row.tries]
    if asked.out is not None:
        rows.store(asked.out, found, shlex.join(["python", "-m", "tests.torture", *words]), asked.add)
    print(rows.summary(found, time.monotonic() - begun))
    return 1 if any(row.lost for row in done) else 0


class Runner:
    """Makes tries.

    Args:
        place: Where their folders lie.
        asked: What the command line asks for.
    """

    def __init__(self, place: Path, asked: argparse.Namespace):
        self.place, self.asked = place, asked
        self._known: dict[tuple[bool, str], Any] = {}

    def fill(self, row: rows.Row, count: int | str) -> None:
        """Make the tries of a row.

        Args:
            row: The fault and the target, or the state of files.
            count: How many tries there are.
        """
        fault, target, begun = row.fault, row.target, time.monotonic()
        if fault == "read-only" and (why := may_drop_rights()):
            print(f"{fault}/{target} is left out: {why}")
            return
        tries = self._tries(fault, target)

        def judge(number: int) -> Verdict:
            rng = random.Random(f"{self.asked.seed}/{fault}/{target}/{number}")
            return tries.judged(number, rng) if fault == FLIPS else FAULTS[fault](tries, number, rng)

        numbers = self._numbers(fault, count, tries)
        judged = _in_children if fault == FLIPS else _here
        try:
            for number, verdict in judged(judge, numbers, tries.workshop):
                row.note(number, verdict, self.asked.seed)
        finally:
            row.seconds = time.monotonic() - begun
            print(row.line(), flush=True)

    def _tries(self, fault: str, target: str) -> Any:
        """What tries a target, or a state of files, made once for all faults."""
        key = fault == FLIPS, target
        if key not in self._known:
            workshop = Workshop(Path(tempfile.mkdtemp(dir=self.place)))
            self._known[key] = Damage(STATES[target], workshop) if fault == FLIPS else Tries(TARGETS[target], workshop)
        return self._known[key]

    def _numbers(self, fault: str, count: int | str, tries: Any) -> list[int]:
        """The numbers of the tries; those of some faults are spread over all operations on files."""
        if self.asked.number is not None:
            return [self.asked.number]
        operations = tries.operations if fault in SPREAD else 0
        wanted: int = self.asked.tries or (operations if count == EACH else count)
        spread = sorted({int((i + 0.5) * operations / wanted) for i in range(wanted)})
        part, parts = map(int, self.asked.part.split("/"))
        return (spread if operations else list(range(wanted)))[part - 1 :: parts]


def _here(judge: Callable[[int], Verdict], numbers: Sequence[int], workshop: Workshop) -> Iterator[tuple[int, Verdict]]:
    """The verdicts of tries that have children of their own; the folders of each are removed."""
    for number in numbers:
        with workshop.tidied():
            try:
                yield number, judge(number)
            except Exception:
                yield number, lost(traceback.format_exc())


def _in_children(
    judge: Callable[[int], Verdict], numbers: Sequence[int], workshop: Workshop
) -> Iterator[tuple[int, Verdict]]:
    """The verdicts of tries that are judged in one child; if it dies or hangs, the try is lost and another goes on."""
    left, file = list(numbers), workshop.root / "verdicts"
    while left:
        file.unlink(missing_ok=True)

        def work(here: Sequence[int] = tuple(left)) -> None:
            with file.open("a") as written:
                for number in here:
                    try:
                        verdict = judge(number)
                    except Exception:
                        verdict = lost(traceback.format_exc())
                    written.write(json.dumps(dataclasses.asdict(verdict)) + "\n")
                    written.flush()

        child, known = Child(work), 0
        while True:
            runs = child.runs_for(PATIENCE)
            lines = file.read_text().splitlines() if file.exists() else []
            if not runs or len(lines) == known:
                break
            known = len(lines)
        ended = child.ended(0.0)
        for line in lines:
            yield left.pop(0), Verdict(**json.loads(line))
        if left:
            yield left.pop(0), lost(f"the process hung or died: {ended.said[-1500:]}")


@contextlib.contextmanager
def _server() -> Iterator[None]:
    """A web server on this machine that offers the file that is downloaded."""
    from tests.data.files.file_helpers import Server

    reading, writing = os.pipe()

    def serve() -> None:
        server = Server()
        server.pause = 0.001
        os.write(writing, server.root.encode())
        signal.pause()

    child = Child(serve)
    os.close(writing)
    os.environ |= {"UNTWINE_TORTURE_SERVER": os.read(reading, 100).decode(), "NO_PROXY": "127.0.0.1"}
    os.close(reading)
    try:
        yield
    finally:
        child.signal(signal.SIGKILL)
        child.ended()
