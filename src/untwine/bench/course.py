"""Training a variant's pack: scored at given steps, stopped at a deadline, and resumed from checkpoints."""

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
from untwine.train.ensemble import Ensemble
from untwine.train.folders import checkpoint
from untwine.train.run import Run
from untwine.train.steps.pack import Pack
from untwine.train.steps.table import Table
from untwine.train.steps.trainer import Trainer

TRIED = 500  # steps after which the speed of training is known
SAVED = 60.0  # seconds between checkpoints

# From an ensemble to the scores of its members, by name.
Score = Callable[[Ensemble], dict[str, list[float]]]


class Course:
    """Trains a pack, and yields a row for each name of its variant at each step that is asked for.

    A step that would end after the deadline is not begun. Where there is a folder for checkpoints, training goes on
    until the deadline, and resumes from there the next time.

    Args:
        variant: The variant, which may have several names in one pack.
        run: Its run.
        table: The training examples.
        device: Where to train.
        path: auto, plain or fast.
        deadline: When to stop, as a time of `time.monotonic`.
        keep: The folder for checkpoints, or None.
    """

    def __init__(
        self,
        variant: Variant,
        run: Run,
        table: Table,
        device: torch.device,
        path: str,
        deadline: float,
        keep: Path | None,
    ):
        self.variant = variant
        self.run = run
        self.device = device
        self.deadline = deadline
        self.keep = keep
        begun = time.monotonic()
        self.trainer = Trainer(Pack(run.members(), run.info(), device), run, table)
        self.about = {"run": run.id, "members": [member.id for member in run.members()]}
        stored = None if keep is None else checkpoint.newest(keep, self.about)
        if stored is not None:
            self.trainer.state.put(stored.step, stored.tensors)
        self.trainer.take_path(path)
        wait(self.device)
        self.compiled = time.monotonic() - begun
        self.terms: dict[str, dict[str, Any]] = {}
        self.scoring = 0.0  # seconds spent on scores

    def rows(self, wanted: Sequence[int], score: Score) -> Iterator[Row]:
        """The rows of the steps wanted, or of as many as there is time for.

        Args:
            wanted: Steps.
            score: A function from an ensemble to the scores of its members.
        """
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
                each = self._seconds_per_step(start + self.scoring - before, step - first)
                if step in wanted:
                    yield from self._scored(score, each)
                begun = time.monotonic() - step * each  # as if all steps had been trained in one go
                if self.keep is None:
                    wanted = [
                        later
                        for later in wanted
                        if later <= step or begun + later * each + self.scoring < self.deadline
                    ]
            if self.keep is not None and (now - saved > SAVED or now > self.deadline):
                wait(self.device)  # the queue of the device may be long
                saved = self._save()
            if not wanted or step >= wanted[-1] or now > self.deadline:
                break
        if self.keep is not None:
            self._save()

    def _seconds_per_step(self, start: float, steps: int) -> float:
        wait(self.device)
        return (time.monotonic() - start) / steps

    def _scored(self, score: Score, each: float) -> Iterator[Row]:
        """A row for each name of the variant, over its members that have not diverged."""
        pack, begin = self.trainer.pack, time.monotonic()
        alive = [i for i, died in enumerate(self.trainer.state.died.tolist()) if died < 0]
        models = [pack.model(self.trainer.state.weights, i) for i in alive]
        members = [pack.members[i] for i in alive]
        values = score(Ensemble(members, models, self.device)) if alive else {}
        seconds = time.monotonic() - begin
        self.scoring += seconds
        facts = {"path_taken": self.trainer.path, "ms_per_step": 1e3 * each, "compile_seconds": self.compiled}
        for name, places in self.variant.members(len(pack.members)):
            kept = [alive.index(i) for i in places if i in alive]
            terms = [self.terms.get(pack.members[i].name, {}) for i in places if i in alive]
            row = {"variant": name, "step": self.trainer.state.step, **summarise(values, kept), **_means(terms)}
            yield row | {"diverged": len(places) - len(kept), **facts, "scoring_seconds": seconds}

    def _save(self) -> float:
        assert self.keep is not None
        checkpoint.save(self.keep, self.trainer.state.step, self.trainer.state.tensors(), self.about)
        return time.monotonic()


def summarise(scores: dict[str, list[float]], members: Sequence[int]) -> Row:
    """The mean of each score over members, Student's interval, and the values themselves.

    Args:
        scores: The scores of all members, by name.
        members: The places of the members to summarise.

    >>> summarise({"mig": [0.1, 0.5, 0.3]}, [0, 2])["mig"], summarise({"mig": [0.1]}, [0])["mig interval"]
    (0.2, None)
    """
    row: Row = {}
    for name, by_member in scores.items():
        values = [by_member[i] for i in members]
        known = summary(values) if values else None
        interval = known.interval if known else None
        row |= {name: known and known.mean, f"{name} interval": interval and list(interval), f"{name} values": values}
    return row


def _means(terms: Sequence[dict[str, Any]]) -> Row:
    """The means of logged terms over members, without numbers that are not finite."""
    means = {}
    for name in terms[0] if terms else ():
        numbers = [term for logged in terms if (term := logged.get(name)) is not None and math.isfinite(term)]
        means[name] = sum(numbers) / len(numbers) if numbers else None
    return means
