"""A dry run: one small step before training, to refuse what cannot train and to point out likely slips."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from untwine.errors import UntwineError, warn
from untwine.objective.aggregate import Divergence
from untwine.objective.core import Penalty, Sum, is_leaf
from untwine.objective.schedules import schedule
from untwine.parts import leaves
from untwine.train.remarks.slips import explained
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
    with torch.no_grad(), _slips():
        pack.template(examples[:2])
    _refuse_draws(before, pack.device, "the network")
    inputs = next(iter(batches(pack, table, min(run.batch_size, 4), "iid")(0, 1)))
    held_out = run.held_out()
    if held_out is not None:
        HeldOut(pack, batches(pack, table, run.batch_size, run.sampling), held_out, run.steps)
    weights = [weight[0] for weight in pack.penalty_weights(np.arange(1))]
    only_first = [True, *[False] * (len(pack) - 1)]
    with _slips():
        pack.step(*pack.initial(), inputs, weights, watch=True, alive=only_first)
    _refuse_draws(before, pack.device, "a penalty or its adversary")
    _warn_of_values(pack, examples)
    _warn_of_schedules(pack, run.steps)
    _warn_of_rare_penalties(pack, run.steps)
    _warn_of_negative_weights(pack, run.steps)
    _warn_of_single_examples(pack, run.batch_size)


@contextlib.contextmanager
def _slips() -> Iterator[None]:
    """A context in which what torch says of a user's part is said in other words."""
    try:
        yield
    except UntwineError:
        raise
    except Exception as error:
        plain = explained(error)
        if plain is None:
            raise
        raise plain from error


def _warn_of_values(pack: Pack, examples: Tensor) -> None:
    """Say so where examples have values that the likelihood is not for."""
    likelihood, low, high = pack.objective.likelihood, examples.min().item(), examples.max().item()
    least, most = likelihood.domain
    if not least <= low <= high <= most:
        warn(
            f"a {type(likelihood).__name__} likelihood is for data in [{least}, {most}], and these have values "
            f"from {low:.3g} to {high:.3g}: squared_error or gaussian would suit them"
        )


def _warn_of_schedules(pack: Pack, steps: int) -> None:
    """Say so where a schedule is longer than the run."""
    for name, penalty in pack.objective.penalties.items():
        end = max(schedule(leaf).ends() for leaf in leaves(penalty, is_leaf))
        if end > steps:
            warn(
                f"the schedule of {name!r} goes on until step {end:,}, but the run has only {steps:,} steps "
                "(see the method's 'anneal')"
            )


def _warn_of_rare_penalties(pack: Pack, steps: int) -> None:
    """Say so where a penalty is computed at few steps of the run, or at none but the first."""
    for name, every in pack.every.items():
        if 100 * every > steps:
            warn(
                f"{name!r} is computed at one step of {every:,}, and so {-(-steps // every):,} times in {steps:,} steps"
            )


def _warn_of_negative_weights(pack: Pack, steps: int) -> None:
    """Say so where a weight is negative, at the beginning or at the end."""
    ends = np.array([0, steps - 1])
    for name, penalties in _weighted(pack).items():
        least = min(float(np.min(schedule(penalty.weight)(ends))) for penalty in penalties)
        if least < 0:
            warn(
                f"the weight of {name!r} is {least:g}: a negative weight rewards what the penalty measures, which may "
                "grow without end"
            )


def _warn_of_single_examples(pack: Pack, batch_size: int) -> None:
    """Say so where a penalty on the aggregate posterior sees one example at a time."""
    for name, penalties in _weighted(pack).items() if batch_size == 1 else ():
        if any(isinstance(penalty.term, Divergence) for penalty in penalties):
            warn(
                f"{name!r} compares the examples of a batch with each other, and a batch has one (batch_size=1): it "
                "means nothing then"
            )


def _weighted(pack: Pack) -> dict[str, list[Penalty]]:
    """The penalties that members are trained on and those that they are sums of, of all members, by name."""
    penalties: dict[str, list[Penalty]] = {}
    for own in pack.objectives:
        for name, penalty in own.penalties.items():
            if not penalty.watched:
                penalties.setdefault(name, []).extend(_summands(penalty))
    return penalties


def _summands(penalty: Penalty) -> list[Penalty]:
    """A penalty, or those that it is the sum of, and itself."""
    inner = penalty.term.penalties if isinstance(penalty.term, Sum) else ()
    return [penalty, *(summand for one in inner for summand in _summands(one))]


def _generators(device: torch.device) -> dict[str, bytes]:
    """The states of the generators of numbers for arrays and tensors that all code of a process shares."""
    states = [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]
    return {
        "torch's": b"".join(state.numpy().tobytes() for state in states),
        "NumPy's": pickle.dumps(np.random.get_state()),  # noqa: NPY002
    }


def _refuse_draws(before: dict[str, bytes], device: torch.device, what: str) -> None:
    """Refuse what drew since from a generator that all share."""
    now = _generators(device)
    for whose, state in before.items():
        if now[whose] != state:
            raise UntwineError(
                f"{what} draws from {whose} global generator: a member would depend on its company, and a resumed run "
                "on where it stopped. A penalty asks for noise: Needs(noise={'eps': ('normal', (3,))}), and takes "
                "passed.noise['eps']"
            )
