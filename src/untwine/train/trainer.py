"""One pack on its way through the steps: what a step changes, and how.

A step is a function of tensors alone (the state, the batch, and the numbers of its schedules). The plain
path calls it step by step; the fast path (`compiled.py`) traces it once and replays what was compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from untwine.train.batches import Block, Table
from untwine.train.compiled import CompiledStep
from untwine.train.optimisers import make as make_optimiser
from untwine.train.pack import Pack, batches
from untwine.train.run import Member, Run


@dataclass
class State:
    """Everything that a step changes."""

    step: int
    parameters: Tensor
    optimiser: dict[str, Tensor]
    alive: Tensor  # [members]
    died: Tensor  # the step at which a member's loss or gradient was not finite, else -1
    total: Tensor  # sums of the terms since the last line of the log, [members, terms]
    count: Tensor

    def tensors(self) -> dict[str, Tensor]:
        named = {name: getattr(self, name) for name in ("parameters", "alive", "died", "total", "count")}
        return {**named, **{f"optimiser.{k}": v for k, v in self.optimiser.items()}}

    def take(self, tensors: Mapping[str, Tensor]) -> None:
        """These tensors in the place of those of the same name."""
        for name, value in tensors.items():
            if name.startswith("optimiser."):
                self.optimiser[name.removeprefix("optimiser.")] = value
            else:
                setattr(self, name, value)

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy values into the tensors that are there: a captured step knows them by their addresses."""
        own = self.tensors()
        for name, value in tensors.items():
            own[name].copy_(value)

    def put(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self.step = step
        self.fill(tensors)


class Trainer:
    """One pack with its optimisers and its state. `compile` makes the steps that follow fast."""

    def __init__(self, members: list[Member], run: Run, table: Table, device: torch.device, batching: str):
        self.pack = pack = Pack(members, run.info(), device, batching)
        self.run = run
        self.optimisers = [make_optimiser(group.optimiser) for group in pack.groups]
        self.batches = batches(pack, table, run.batch_size, run.sampling)
        self.fast: CompiledStep | None = None
        parameters, count = pack.parameters, len(members)
        buffers: dict[str, Tensor] = {}
        for group, optimiser in zip(pack.groups, self.optimisers, strict=True):
            started = optimiser.start(parameters[:, group.columns])
            buffers |= {group.name + name: value for name, value in started.items()}
        self.state = State(
            step=0,
            parameters=parameters,
            optimiser=buffers,
            alive=torch.ones(count, dtype=torch.bool, device=device),
            died=torch.full((count,), -1, device=device),
            total=torch.zeros(count, len(self.pack.terms[0]), dtype=torch.float32, device=device),
            count=torch.zeros(count, device=device),
        )

    @property
    def path(self) -> str:
        return "plain" if self.fast is None else "fast"

    def compile(self, backend: str | None = None) -> None:
        """Take the fast path from here on; the state stays as it is. What cannot be compiled raises."""
        self.fast = CompiledStep(self, backend)

    def steps(self) -> Iterator[dict[str, Any] | None]:
        """All the steps that are left, one by one; every `log_every` steps with a line for the log."""
        state, run, watched = self.state, self.run, bool(self.pack.terms[1])
        self.pack.parameters = state.parameters
        for block in self.batches.blocks(state.step, run.steps):
            schedules = self.schedules(np.arange(block.start, block.start + len(block)))
            if self.fast is not None:
                self.fast.begin(block, schedules)
            for i in range(len(block)):
                step = block.start + i
                due = (step + 1) % run.log_every == 0 or step + 1 == run.steps
                if self.fast is not None and self.fast.fits(block, i):
                    terms = self.fast(block, i, due and watched)
                else:
                    terms = self._plain(block, i, _at(schedules, i), due)
                state.step = step + 1
                yield self._entry(terms) if due else None

    def _plain(self, block: Block, i: int, now: Schedules, due: bool) -> Tensor:
        """One step, operation by operation; its terms."""
        state, pack, inputs = self.state, self.pack, block.inputs(i)
        known = state.alive.tolist() if pack.device.type == "cpu" else None
        terms, gradients = pack.step(inputs.x, now["weights"], inputs.noise, due, known, inputs.second)
        new = self.updated(state.tensors(), inputs.step, terms, gradients, now)
        if self.fast is None:
            state.take(new)
            pack.parameters = state.parameters
        else:  # a batch that was not compiled for
            state.fill(new)
            self.fast.skip()
        return terms

    def schedules(self, steps: np.ndarray) -> Schedules:
        """What depends on the step alone, for these steps: they are the first dimension of each tensor."""
        weights, rates = self.pack.weights(steps), self.pack.rates(steps)
        corrections = tuple(self.pack.sent(optimiser.corrections(steps + 1.0)) for optimiser in self.optimisers)
        return {"weights": tuple(weights), "rates": tuple(rates), "corrections": corrections}

    @torch.no_grad()
    def updated(
        self, old: Mapping[str, Tensor], step: int | Tensor, terms: Tensor, gradients: Tensor, now: Schedules
    ) -> dict[str, Tensor]:
        """The state after a step, from the one before."""
        pieces, buffers = [], {}
        groups = zip(self.pack.groups, self.optimisers, now["rates"], now["corrections"], strict=True)
        for group, optimiser, rate, corrections in groups:
            slopes = gradients[:, group.columns]
            if self.run.clip is not None:
                norm = slopes.norm(dim=1, keepdim=True)
                slopes = slopes * (self.run.clip / (norm + 1e-6)).clamp(max=1.0)
            own = {name: old[f"optimiser.{group.name}{name}"] for name in optimiser.state}
            piece, changed = optimiser.update(old["parameters"][:, group.columns], slopes, own, rate, corrections)
            pieces.append(piece)
            buffers |= {f"optimiser.{group.name}{name}": value for name, value in changed.items()}
        new = pieces[0] if len(pieces) == 1 else torch.cat(pieces, 1)
        # Adam squares gradients: larger ones would overflow there, and the parameters never move again. With
        # gradients and rates below this bound, and what our optimisers accept, what is new is finite: no further pass.
        rates = torch.stack(now["rates"])
        finite = terms[:, 0].isfinite() & (gradients.abs().amax(1) < 1e18) & (rates.abs() < 1e18).all(0)
        alive = old["alive"] & finite
        # A dead member keeps its last finite values; `where`, since a product with zero keeps a NaN.
        keep, trained = alive[:, None], terms[:, : old["total"].shape[1]]
        return {
            "parameters": torch.where(keep, new, old["parameters"]),
            "alive": alive,
            "died": torch.where(old["alive"] & ~finite, step, old["died"]),
            "total": torch.where(keep, old["total"] + trained, old["total"]),
            "count": old["count"] + alive,
            **{name: torch.where(keep, value, old[name]) for name, value in buffers.items()},
        }

    def _entry(self, terms: Tensor) -> dict[str, Any]:
        """A line of the log: means since the last line, watched terms as they are now; then start anew."""
        state, (trained, watched) = self.state, self.pack.terms
        means = (state.total / state.count.clamp(min=1)[:, None]).tolist()
        deaths, counts = state.died.tolist(), state.count.tolist()
        now = terms[:, len(trained) :].tolist()
        members = {}
        for i, member in enumerate(self.pack.members):
            died = deaths[i]
            values = dict(zip(trained, means[i], strict=True)) if counts[i] > 0 else dict.fromkeys(trained)
            seen = zip(watched, now[i], strict=True)
            values |= {k: v if died < 0 and np.isfinite(v) else None for k, v in seen}
            members[member.name] = values | ({"diverged": died} if died >= 0 else {})
        state.total.zero_()
        state.count.zero_()
        return {"step": state.step, "members": members}


Schedules = dict[str, tuple[Tensor, ...]]  # weights, rates, and corrections of the optimisers


def _at(schedules: Schedules, i: int) -> Schedules:
    return {name: tuple(value[i] for value in values) for name, values in schedules.items()}
