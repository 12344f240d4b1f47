"""One pack on its way through the steps of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from torch import Tensor

from untwine.errors import UntwineError, brief, warn
from untwine.train import paths
from untwine.train.run import Run
from untwine.train.steps.compiled import CompiledStep
from untwine.train.steps.held_out import HeldOut
from untwine.train.steps.pack import Pack, batches
from untwine.train.steps.step import PlainStep, State, Step, StepFunction
from untwine.train.steps.table import Table


class Trainer:
    """A pack with its state, its batches, and the way in which it takes its steps.

    Args:
        pack: The members that train.
        run: How they train.
        table: The training examples.
    """

    def __init__(self, pack: Pack, run: Run, table: Table):
        self.pack, self.run = pack, run
        self.batches = batches(pack, table, run.batch_size, run.sampling)
        held_out = run.held_out()
        self.held_out = None if held_out is None else HeldOut(pack, self.batches, held_out, run.steps)
        self.function = StepFunction(pack, run.clip)
        self.state: State = self.function.start()
        self._plain = PlainStep(self.function, self.state)
        self.step: Step = self._plain

    @property
    def path(self) -> str:
        """The path that the steps take: "plain" or "fast"."""
        return self.step.path

    def compile(self, backend: str | None = None) -> None:
        """Take the fast path from here on; the state stays as it is. What cannot be compiled raises."""
        self.step = CompiledStep(self._plain, self.batches, self.run.steps, backend)

    def take_path(self, path: str, began: str | None = None, note: Callable[[str], None] = lambda text: None) -> None:
        """Compile the step if it is to take the fast path; should that fail, it stays on the plain one.

        Args:
            path: "auto", "fast" or "plain".
            began: The path on which an interrupted pack began.
            note: Is told what takes a while.
        """
        if paths.choose(path, self.pack.device, self.pack.batching, self.run.steps, began) == "plain":
            return
        note("compiling the training step for the GPU, which takes about half a minute")
        try:
            self.compile()
        except Exception as error:
            why = f"the fast path failed while it was compiled ({brief(error)})"
            if path == "fast":
                raise UntwineError(f"{why}; path='plain' would do") from error
            warn(f"{why}; training takes the plain one")

    def steps(self) -> Iterator[dict[str, Any] | None]:
        """All the steps that are left, one by one; every `log_every` steps with a line for the log."""
        state, run, watched = self.state, self.run, bool(self.pack.terms[1])
        for block in self.batches.blocks(state.step, run.steps):
            self.step.begin(block, self.function.schedules(np.arange(block.start, block.start + len(block))))
            for i in range(len(block)):
                step = block.start + i
                due = (step + 1) % run.log_every == 0 or step + 1 == run.steps
                terms = self.step(i, due and watched)
                state.step = step + 1
                yield self._entry(terms) if due else None

    def _entry(self, terms: Tensor) -> dict[str, Any]:
        """A line of the log: means since the last line, watched terms and held-out losses now; then start anew."""
        state, (trained, watched) = self.state, self.pack.terms
        means = (state.total / state.count.clamp(min=1)[:, None]).tolist()
        deaths, counts = state.died.tolist(), state.count.tolist()
        now = terms[:, len(trained) :].tolist()
        held_out = None if self.held_out is None else self.held_out.losses(state.weights, state.step - 1)
        members = {}
        for i, member in enumerate(self.pack.members):
            died = deaths[i]
            values = dict(zip(trained, means[i], strict=True)) if counts[i] > 0 else dict.fromkeys(trained)
            seen = zip(watched, now[i], strict=True)
            seen = [*seen, *([] if held_out is None else [("holdout_loss", held_out[i])])]
            values |= {k: v if died < 0 and np.isfinite(v) else None for k, v in seen}
            members[member.name] = values | ({"diverged": died} if died >= 0 else {})
        state.total.zero_()
        state.count.zero_()
        return {"step": state.step, "members": members}
