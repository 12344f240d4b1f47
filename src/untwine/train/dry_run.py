"""A dry run: one small step before training, to refuse what cannot train and to point out likely slips."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from untwine.errors import UntwineError
from untwine.objective.core import is_leaf
from untwine.objective.schedules import schedule
from untwine.parts import leaves
from untwine.train.run import Run
from untwine.train.steps.held_out import HeldOut
from untwine.train.steps.pack import Pack, batches
from untwine.train.steps.table import Table


def check_run(run: Run, pack: Pack) -> None:
    """Refuse what cannot train before anything is written, and point out what is nearly always a slip.

    Args:
        run: What is to be trained.
        pack: Members of it, whose first one takes a step on a few examples; nothing in the pack changes.
    """
    dataset = run.make_dataset()
    table = Table(dataset, pack.device, resident=False, standard=pack.info.standard)
    examples = table(torch.arange(min(len(dataset), 256)))
    before = _generators(pack.device)
    with torch.no_grad():
        pack.template(examples[:2])
    _refuse_draws(before, pack.device, "the network")
    inputs = next(iter(batches(pack, table, min(run.batch_size, 4), "iid")(0, 1)))
    held_out = run.held_out()
    if held_out is not None:
        HeldOut(pack, batches(pack, table, run.batch_size, run.sampling), held_out, run.steps)
    weights = [weight[0] for weight in pack.penalty_weights(np.arange(1))]
    only_first = [True, *[False] * (len(pack) - 1)]
    pack.step(*pack.initial(), inputs, weights, watch=True, alive=only_first)
    _refuse_draws(before, pack.device, "a penalty or its adversary")
    _warn_of_values(pack, examples)
    _warn_of_schedules(pack, run.steps)
    _warn_of_rare_penalties(pack, run.steps)


def _warn_of_values(pack: Pack, examples: Tensor) -> None:
    """Say so where examples have values that the likelihood is not for."""
    likelihood, low, high = pack.objective.likelihood, examples.min().item(), examples.max().item()
    least, most = likelihood.domain
    if not least <= low <= high <= most:
        warnings.warn(
            f"a {type(likelihood).__name__} likelihood is for data in [{least}, {most}], and these have values "
            f"from {low:.3g} to {high:.3g}: squared_error or gaussian would suit them",
            stacklevel=4,
        )


def _warn_of_schedules(pack: Pack, steps: int) -> None:
    """Say so where a schedule is longer than the run."""
    for name, penalty in pack.objective.penalties.items():
        end = max(schedule(leaf).ends() for leaf in leaves(penalty, is_leaf))
        if end > steps:
            warnings.warn(
                f"the schedule of {name!r} goes on until step {end:,}, but the run has only {steps:,} steps "
                "(see the method's 'anneal')",
                stacklevel=4,
            )


def _warn_of_rare_penalties(pack: Pack, steps: int) -> None:
    """Say so where a penalty is computed at few steps of the run, or at none but the first."""
    for name, every in pack.every.items():
        if 100 * every > steps:
            warnings.warn(
                f"{name!r} is computed at one step of {every:,}, and so {-(-steps // every):,} times in "
                f"{steps:,} steps",
                stacklevel=4,
            )


def _generators(device: torch.device) -> list[Tensor]:
    """The states of torch's global generators."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def _refuse_draws(before: list[Tensor], device: torch.device, what: str) -> None:
    now = _generators(device)
    if not all(torch.equal(*states) for states in zip(before, now, strict=True)):
        torch.set_rng_state(before[0])
        raise UntwineError(f"{what} draws from torch's global generator: a member would depend on its company")
