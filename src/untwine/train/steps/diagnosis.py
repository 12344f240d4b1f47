"""Why a member diverged: the step at which it did is taken once more, since its weights are those before it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from untwine.train.steps.trainer import Trainer

_LARGE = 1e18  # of a gradient, which an optimiser squares (see `StepFunction`)


def causes(trainer: Trainer) -> dict[str, str]:
    """For each member that diverged what was not finite first, and what may help; by name.

    Args:
        trainer: A pack whose steps are taken.
    """
    pack, state = trainer.pack, trainer.state
    found = {}
    for i, step in enumerate(state.died.tolist()):
        if step >= 0:
            inputs = next(iter(trainer.batches(step, step + 1)))
            weights = [leaf[0] for leaf in pack.penalty_weights(np.arange(step, step + 1))]
            alone = [other == i for other in range(len(pack))]
            terms, gradients = pack.step(
                state.parameters, state.buffers, inputs, weights, alive=alone, turn=pack.turn(step)
            )
            values = dict(zip(pack.terms[0], terms[i].tolist(), strict=False))
            what = _rate(trainer, i, step) or _term(values) or _gradient(gradients[i], trainer, values) or "the loss"
            found[pack.members[i].name] = f"{what}; {_cure(what, step, trainer)}"
    return found


def _rate(trainer: Trainer, i: int, step: int) -> str:
    """A learning rate with which no step can be taken; empty for others."""
    rate = trainer.pack.rates(np.arange(step, step + 1))[:, 0, i].abs().max().item()
    return "" if rate < _LARGE else f"the learning rate was {rate:g}"


def _term(values: Mapping[str, float]) -> str:
    """The first term that is not finite; empty if all are. The loss, their sum, is asked last."""
    for name in [*(name for name in values if name != "loss"), "loss"]:
        if not math.isfinite(values[name]):
            return f"{name!r} was {values[name]:g}"
    return ""


def _gradient(gradients: Tensor, trainer: Trainer, values: Mapping[str, float]) -> str:
    """The first parameter whose gradient is not finite, or too large to be squared, and the largest term."""
    for name, part in zip(trainer.pack.names, gradients.split(trainer.pack.sizes), strict=True):
        wrong = ~(part.abs() < _LARGE)
        if wrong.any():
            term = max((name for name in values if name != "loss"), key=lambda name: abs(values[name]))
            size = part[torch.nonzero(wrong)[0, 0]].item()
            return f"{term!r} was {values[term]:g}, and the gradient of {name} {size:g}"
    return ""


def _cure(what: str, step: int, trainer: Trainer) -> str:
    objective: Any = trainer.pack.objective
    name = what.split("'")[1] if what.startswith("'") else ""
    if what.startswith("the learning rate"):
        return "train with a smaller one (lr)"
    if step == 0 and name in objective.penalties:
        return f"it was so before anything was learned: look at the penalty {name!r}"
    if step == 0:
        return "it was so before anything was learned: look at the data, the network and the weights of the penalties"
    if name in objective.penalties:
        return f"train with a smaller weight of {name!r}, a smaller learning rate (lr), or clip=1.0"
    return "train with a smaller learning rate (lr), or clip=1.0"
