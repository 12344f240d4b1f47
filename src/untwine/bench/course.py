"""A variant's pack on its way through training: scored at some steps, stopped where the time ends, and resumed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from untwine.bench.devices import wait
from untwine.bench.rows import Row
from untwine.bench.variants import Variant
from untwine.metrics.statistics import summary
from untwine.train import checkpoint
from untwine.train.ensemble import Ensemble
from untwine.train.pack import Pack
from untwine.train.run import Run
from untwine.train.table import Table
from untwine.train.trainer import Trainer

TRIED = 500  # steps after which it is known how long the others take
SAVED = 60.0  # seconds between checkpoints

# An ensemble to the scores of its members, by name.
Score = Callable[[Ensemble], dict[str, list[float]]]


class Course:
    """Trains a pack, and gives a row for each name of its variant at each step that is asked for.

    Before `deadline` (of `time.monotonic`) nothing is cut short: what would end later is not begun, or, where there is
    a folder for checkpoints, trains until then and goes on from there the next time.
    """

    def __init__(
        self,
        plan: Variant,
        spec: Run,
        table: Table,
        device: torch.device,
        path: str,
        deadline: float,
        keep: Path | None,
    ):
        self.plan, self.spec, self.device, self.deadline, self.keep = plan, spec, device, deadline, keep
        begun = time.monotonic()
        self.trainer = Trainer(Pack(spec.members(), spec.info(), device), spec, table)
        self.about = {"run": spec.id, "members": [member.id for member in spec.members()]}
        found = None if keep is None else checkpoint.newest(keep, self.about)
        if found is not None:
            self.trainer.state.put(*found)
        self.trainer.take_path(path)
        wait(self.device)
        self.compiled = time.monotonic() - begun
        self.terms: dict[str, dict[str, Any]] = {}
        self.scoring = 0.0  # seconds

    def rows(self, wanted: Sequence[int], score: Score) -> Iterator[Row]:
        """The rows of these steps, or of as many as there is time for."""
        trainer, first = self.trainer, self.trainer.state.step
        wanted = sorted(step for step in wanted if step >= first)
        if wanted and wanted[0] == first:
            yield from self._scored(score, 0.0)
        wanted = [step for step in wanted if step > first]
        start, before = time.monotonic(), self.scoring
        saved = start
        for entry in trainer.steps() if wanted else ():
            step, now = trainer.state.step, time.monotonic()
            self.terms = entry["members"] if entry is not None else self.terms
            if step in wanted or step - first == TRIED:
                each = self._each(start + self.scoring - before, step - first)
                if step in wanted:
                    yield from self._scored(score, each)
                ends = time.monotonic() - step * each
                if self.keep is None:
                    wanted = [one for one in wanted if one <= step or ends + one * each + self.scoring < self.deadline]
            if self.keep is not None and (now - saved > SAVED or now > self.deadline):
                wait(self.device)  # the queue of the device may be long
                saved = self._save()
            if not wanted or step >= wanted[-1] or now > self.deadline:
                break
        if self.keep is not None:
            self._save()

    def _each(self, start: float, steps: int) -> float:
        """Seconds for each step since then."""
        wait(self.device)
        return (time.monotonic() - start) / steps

    def _scored(self, score: Score, each: float) -> Iterator[Row]:
        """A row for each name, of the members that live."""
        pack, begin = self.trainer.pack, time.monotonic()
        alive = [i for i, died in enumerate(self.trainer.state.died.tolist()) if died < 0]
        models = [pack.model(self.trainer.state.weights, i) for i in alive]
        members = [pack.members[i] for i in alive]
        values = score(Ensemble(members, models, self.device)) if alive else {}
        seconds = time.monotonic() - begin
        self.scoring += seconds
        facts = {"path_taken": self.trainer.path, "ms_per_step": 1e3 * each, "compile_seconds": self.compiled}
        for name, places in self.plan.members(len(pack.members)):
            kept = [alive.index(i) for i in places if i in alive]
            terms = [self.terms.get(pack.members[i].name, {}) for i in places if i in alive]
            row = {"variant": name, "step": self.trainer.state.step, **summed(values, kept), **_means(terms)}
            yield row | {"diverged": len(places) - len(kept), **facts, "scoring_seconds": seconds}

    def _save(self) -> float:
        assert self.keep is not None
        checkpoint.save(self.keep, self.trainer.state.step, self.trainer.state.tensors(), self.about)
        return time.monotonic()


def summed(values: dict[str, list[float]], kept: Sequence[int]) -> Row:
    """Of each score the mean over some members, Student's interval, and the values themselves.

    >>> summed({"mig": [0.1, 0.5, 0.3]}, [0, 2])["mig"], summed({"mig": [0.1]}, [0])["mig interval"]
    (0.2, None)
    """
    row: Row = {}
    for name, everybody in values.items():
        own = [everybody[i] for i in kept]
        known = summary(own) if own else None
        interval = known.interval if known else None
        row |= {name: known and known.mean, f"{name} interval": interval and list(interval), f"{name} values": own}
    return row


def _means(terms: Sequence[dict[str, Any]]) -> Row:
    """The last line of the log, on average."""
    found = {}
    for name in terms[0] if terms else ():
        numbers = [one[name] for one in terms if one.get(name) is not None and math.isfinite(one[name])]
        found[name] = sum(numbers) / len(numbers) if numbers else None
    return found
