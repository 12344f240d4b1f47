"""A training step: what it changes, how it is computed, and the plain way to take it.

A step is a function of tensors alone: the state, the batch, and the numbers of its schedules. `PlainStep` calls
that function operation by operation; `CompiledStep` (in `compiled.py`) traces it once and replays compiled code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from untwine.train.steps.batches import Block, Inputs
from untwine.train.steps.optimisers import make as make_optimiser
from untwine.train.steps.pack import Pack, Turn
from untwine.train.steps.stack import Weights

Schedules = dict[str, tuple[Tensor, ...]]  # weights, rates, and corrections of the optimisers


@dataclass
class State:
    """The weights of all members, and everything else that a step changes."""

    step: int
    parameters: Tensor
    buffers: dict[str, Tensor]  # of the models; no step changes them, so checkpoints leave them out
    optimiser: dict[str, Tensor]
    alive: Tensor  # [members]
    died: Tensor  # the step at which a member's loss or gradient was not finite, else -1
    total: Tensor  # sums of the terms since the last line of the log, [members, terms]
    count: Tensor

    @property
    def weights(self) -> Weights:
        """The weights of all members as they are now."""
        return Weights(self.parameters, self.buffers)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that a step changes, by name."""
        named = {name: getattr(self, name) for name in ("parameters", "alive", "died", "total", "count")}
        return {**named, **{f"optimiser.{k}": v for k, v in self.optimiser.items()}}

    def take(self, tensors: Mapping[str, Tensor]) -> None:
        """Put these tensors in the place of those of the same name."""
        for name, value in tensors.items():
            if name.startswith("optimiser."):
                self.optimiser[name.removeprefix("optimiser.")] = value
            else:
                setattr(self, name, value)

    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy values into the tensors that are there: a captured step knows them by their addresses."""
        mine = self.tensors()
        for name, value in tensors.items():
            mine[name].copy_(value)

    def put(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint."""
        self.step = step
        self.fill(tensors)


class StepFunction:
    """The step of a pack as a pure function, and the state with which it begins."""

    def __init__(self, pack: Pack, clip: float | None = None):
        self.pack, self.clip = pack, clip
        self.optimisers = [make_optimiser(group.optimiser) for group in pack.groups]

    def start(self) -> State:
        """The state before the first step."""
        pack, device, members = self.pack, self.pack.device, len(self.pack)
        parameters, buffers = pack.initial()
        optimiser: dict[str, Tensor] = {}
        for group, one in zip(pack.groups, self.optimisers, strict=True):
            begun = one.start(parameters[:, group.columns])
            optimiser |= {group.name + name: value for name, value in begun.items()}
        return State(
            step=0,
            parameters=parameters,
            buffers=buffers,
            optimiser=optimiser,
            alive=torch.ones(members, dtype=torch.bool, device=device),
            died=torch.full((members,), -1, device=device),
            total=torch.zeros(members, len(pack.terms[0]), dtype=torch.float32, device=device),
            count=torch.zeros(members, device=device),
        )

    def schedules(self, steps: np.ndarray) -> Schedules:
        """What depends on the step alone, for these steps: they are the first dimension of each tensor."""
        weights, rates = self.pack.penalty_weights(steps), self.pack.rates(steps)
        corrections = tuple(self.pack.sent(optimiser.corrections(steps + 1.0)) for optimiser in self.optimisers)
        return {"weights": tuple(weights), "rates": tuple(rates), "corrections": corrections}

    def __call__(
        self,
        state: Mapping[str, Tensor],
        buffers: Mapping[str, Tensor],
        inputs: Inputs,
        schedules: Schedules,
        watch: bool,
        alive: Sequence[bool] | None = None,
        compiled: bool = False,
        turn: Turn = (),
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The terms `[members, terms]` of a step, and the state after it.

        Args:
            state: The tensors of the state before the step (`State.tensors`).
            buffers: The buffers of the models.
            inputs: Batches and noise.
            schedules: The numbers of all schedules at this step.
            watch: Whether terms that are only watched are computed too.
            alive: Which members still train, where that is known; the others may be skipped.
            compiled: Whether this becomes part of a compiled step.
            turn: How often penalties count at this step (see `Pack.turn`).
        """
        weights = schedules["weights"]
        terms, gradients = self.pack.step(state["parameters"], buffers, inputs, weights, watch, alive, compiled, turn)
        complete = all(count > 0 for _, count in turn)
        return terms, self._updated(state, inputs.step, terms, gradients, schedules, complete)

    @torch.no_grad()
    def _updated(
        self,
        old: Mapping[str, Tensor],
        step: int | Tensor,
        terms: Tensor,
        gradients: Tensor,
        schedules: Schedules,
        complete: bool,
    ) -> dict[str, Tensor]:
        """The state after a step, from the one before; the log's means are over steps with all terms (`complete`)."""
        pieces, buffers = [], {}
        groups = zip(self.pack.groups, self.optimisers, schedules["rates"], schedules["corrections"], strict=True)
        for group, optimiser, rate, corrections in groups:
            slopes = gradients[:, group.columns]
            if self.clip is not None:
                norm = slopes.norm(dim=1, keepdim=True)
                slopes = slopes * (self.clip / (norm + 1e-6)).clamp(max=1.0)
            moments = {name: old[f"optimiser.{group.name}{name}"] for name in optimiser.state}
            piece, changed = optimiser.update(old["parameters"][:, group.columns], slopes, moments, rate, corrections)
            pieces.append(piece)
            buffers |= {f"optimiser.{group.name}{name}": value for name, value in changed.items()}
        new = pieces[0] if len(pieces) == 1 else torch.cat(pieces, 1)
        # Adam squares gradients: larger ones would overflow there, and the parameters never move again. With
        # gradients and rates below this bound, and settings that our optimisers accept, new values are finite.
        rates = torch.stack(schedules["rates"])
        finite = terms[:, 0].isfinite() & (gradients.abs().amax(1) < 1e18) & (rates.abs() < 1e18).all(0)
        alive = old["alive"] & finite
        # A dead member keeps its last finite values; `where`, since a product with zero keeps a NaN.
        keep, trained = alive[:, None], terms[:, : old["total"].shape[1]]
        return {
            "parameters": torch.where(keep, new, old["parameters"]),
            "alive": alive,
            "died": torch.where(old["alive"] & ~finite, step, old["died"]),
            "total": torch.where(keep, old["total"] + trained, old["total"]) if complete else old["total"],
            "count": old["count"] + alive if complete else old["count"],
            **{name: torch.where(keep, value, old[name]) for name, value in buffers.items()},
        }


class Step(Protocol):
    """A way to take the steps of a pack: `begin` a block of them, then call it for each in order."""

    path: str  # its name: "plain" or "fast"

    def begin(self, block: Block, schedules: Schedules) -> None:
        """Prepare for the steps of a block."""

    def __call__(self, i: int, watch: bool) -> Tensor:
        """Take the i-th step of the block, which changes the state; return its terms."""
        ...


class PlainStep:
    """Takes steps operation by operation."""

    path = "plain"

    def __init__(self, function: StepFunction, state: State):
        self.function, self.state = function, state

    def begin(self, block: Block, schedules: Schedules) -> None:
        self.block, self.schedules = block, schedules

    def compute(self, i: int, watch: bool) -> tuple[Tensor, dict[str, Tensor]]:
        """The terms of the i-th step, and the state after it."""
        state = self.state
        now = {name: tuple(value[i] for value in values) for name, values in self.schedules.items()}
        alive = state.alive.tolist() if state.alive.device.type == "cpu" else None  # a GPU would have to be waited for
        turn = self.function.pack.turn(self.block.start + i)
        return self.function(state.tensors(), state.buffers, self.block.inputs(i), now, watch, alive, turn=turn)

    def __call__(self, i: int, watch: bool) -> Tensor:
        terms, new = self.compute(i, watch)
        self.state.take(new)
        return terms
