"""A pack: the members of a run that train as one computation, seeds as the leading dimension.

A pack knows the structure of its members and what they minimise; their weights belong to the `State` of a trainer.
So `Pack.step` is a pure function: it takes weights and a batch, and returns terms and gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import vmap

from untwine.errors import UntwineError
from untwine.model.building import refuse_outputs
from untwine.model.check import check_jacobian
from untwine.model.info import Info
from untwine.model.networks.initial import initialise
from untwine.model.passes import is_known
from untwine.model.vae import VAE, create, refuse_state, seeded
from untwine.objective.core import Objective, Penalty, gather, is_leaf
from untwine.objective.evaluation import evaluate
from untwine.objective.schedules import Schedule, schedule
from untwine.parts import leaves, rebuild, structure, to_json
from untwine.train.member import Member
from untwine.train.steps.batches import Batches, Inputs
from untwine.train.steps.stack import Stack, Weights, member_share, stacked
from untwine.train.steps.table import Table

Turn: TypeAlias = tuple[tuple[str, int], ...]  # penalties, and how often each counts at a step


def build(member: Member, info: Info) -> VAE:
    """A member's model with its initial parameters."""
    parts = member.objective
    return create(info, member.network, parts.likelihood, parts.posterior, parts.prior, member.seed)


@dataclass(frozen=True)
class Group:
    """Columns of the flat parameters that one optimiser updates."""

    name: str  # what the names of the optimiser's buffers begin with
    columns: slice
    optimiser: dict[str, Any]
    rates: Sequence[Schedule]  # one for each member


class Pack(Stack):
    """A stack with an objective: terms and gradients of all members, and their weights at any step."""

    def __init__(self, members: Sequence[Member], info: Info, device: torch.device, batching: str = "auto"):
        self.members, self.info = list(members), info
        self.objectives = [member.objective for member in members]
        if len({str(structure(to_json(o))) for o in self.objectives}) > 1:
            raise UntwineError("these members differ in more than numbers: they cannot train as one pack")
        self.objective: Objective = self.objectives[0]
        self.needs = self.objective.needs(info)
        penalties = {name: penalty for name, penalty in self.objective.penalties.items() if not penalty.watched}
        every = {name: penalty.term.needs(info).every for name, penalty in penalties.items()}
        self.every = {name: steps for name, steps in every.items() if steps > 1}
        rivals = sorted(self.every.keys() & {name.partition("/")[0] for name in self.needs.adversaries})
        if rivals:
            raise UntwineError(f"penalty {rivals[0]!r} has an adversary: it must be computed at every step")
        models = [self._with_adversaries(member) for member in members]
        first, width = models[0], self.objective.posterior.width(info.latents)
        refuse_outputs(members[0].network, info, width, (first.encoder, first.decoder))
        super().__init__(models, device, batching)
        self._initial = stacked(models)
        self.groups = self._groups()
        self.precision = torch.bfloat16 if members[0].precision == "bfloat16" else torch.float32
        self.terms, self.rivals = self._term_names()
        if self.needs.jacobian and not is_known(self.template.decoder):
            check_jacobian(self.template.decoder, info.latents)

    def _with_adversaries(self, member: Member) -> VAE:
        vae = build(member, self.info)
        with seeded(member.seed):
            for name, adversary in self.needs.adversaries.items():
                vae.adversaries[name] = adversary.build(self.info)
        refuse_state(vae.adversaries)
        initialise(vae.adversaries, member.seed, member.network.scheme)
        return vae

    def initial(self) -> Weights:
        """The weights with which training begins, on the device."""
        return self._initial.copied(self.device)

    def _groups(self) -> list[Group]:
        """The model's parameters, then those of each adversary: who updates which columns."""
        players = self.needs.adversaries
        counts = [sum(p.numel() for p in self.template.adversaries[name].parameters()) for name in players]
        start = sum(self.sizes) - sum(counts)
        rates: list[Schedule] = [member.lr for member in self.members]
        groups = [Group("", slice(0, start), self.members[0].optimiser, rates)]
        for (name, adversary), count in zip(players.items(), counts, strict=True):
            rates = [schedule(own.needs(self.info).adversaries[name].rate) for own in self.objectives]
            groups.append(Group(f"{name}/", slice(start, start + count), dict(adversary.optimiser), rates))
            start += count
        return groups

    def _term_names(self) -> tuple[tuple[list[str], list[str]], slice]:
        """The terms that are trained on, those that are watched, and where among the first the adversaries' are."""
        penalties = self.objective.penalties
        trained = ["loss", "reconstruction", *(name for name, penalty in penalties.items() if not penalty.watched)]
        watched = [name for name, penalty in penalties.items() if penalty.watched]
        rivals = list(dict.fromkeys(f"{name.partition('/')[0]}_adversary" for name in self.needs.adversaries))
        return ([*trained, *rivals], watched), slice(len(trained), len(trained) + len(rivals))

    def turn(self, step: int) -> Turn:
        """The penalties that are not computed at every step, and how often each counts at this one."""
        return tuple((name, 0 if step % steps else steps) for name, steps in self.every.items())

    def turns(self, steps: int) -> set[Turn]:
        """All that `turn` returns in a run of so many steps."""
        return {self.turn(step) for step in range(min(steps, math.lcm(*self.every.values())))}

    # --- what depends on the step alone ------------------------------------------------------------

    def penalty_weights(self, steps: np.ndarray) -> list[Tensor]:
        """Every leaf of the penalties at these steps: tensors `[steps, members]`."""
        columns = [[schedule(leaf)(steps) for leaf in leaves(o.penalties, is_leaf)] for o in self.objectives]
        return [self._column(leaf) for leaf in zip(*columns, strict=True)]

    def rates(self, steps: np.ndarray) -> Float[Tensor, "groups steps members"]:
        """The learning rate of every group at these steps."""
        return torch.stack([self._column([rate(steps) for rate in group.rates]) for group in self.groups])

    def _column(self, values: Sequence[np.ndarray]) -> Tensor:
        return self.sent(np.stack(values, -1))

    def sent(self, values: np.ndarray) -> Tensor:
        """Numbers on the device, as float32, without waiting for it."""
        tensor = torch.from_numpy(values).float()
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)

    # --- a step ------------------------------------------------------------------------------------

    def step(
        self,
        parameters: Float[Tensor, "members parameters"],
        buffers: Mapping[str, Tensor],
        inputs: Inputs,
        weights: Sequence[Tensor],
        watch: bool = False,
        alive: Sequence[bool] | None = None,
        compiled: bool = False,
        turn: Turn = (),
    ) -> tuple[Float[Tensor, "members terms"], Float[Tensor, "members parameters"]]:
        """The terms and gradients of every member on its own batch.

        Args:
            parameters: The parameters of every member, a row each.
            buffers: The buffers of every member, stacked.
            inputs: Batches and noise.
            weights: The leaves of the penalties at this step, a number for each member (see `penalty_weights`).
            watch: Whether the terms that are only watched are computed too.
            alive: Which members still train; those that do not may be skipped. None means all.
            compiled: Whether this becomes part of a compiled step, which computes equal passes once.
            turn: How often penalties count at this step, where that is not once (see `Pack.turn`).
        """
        second = () if inputs.second is None else (inputs.second,)

        def terms(vae: VAE, x: Tensor, weights: Sequence[Tensor], noise: Mapping[str, Tensor], *second: Any) -> Tensor:
            return self._terms(vae, x, weights, noise, watch, compiled, turn, *second)

        if self.batching == "vmap":
            leaf = self._leaves(self.views(parameters))
            mapped = vmap(lambda p, b, *a: self.call(self.template, p, b, terms, *a))
            out = mapped(leaf, buffers, inputs.x, tuple(weights), inputs.noise, *second)
            grads = _gradients(self._descended(out, turn), leaf)
            return self._seen(out, turn), torch.cat([g.reshape(len(self), -1) for g in grads], 1)

        def of_member(template: VAE, i: int) -> tuple[Tensor, Tensor]:
            if alive is not None and not alive[i]:
                count = len(self.terms[0]) + watch * len(self.terms[1])
                return torch.full((count,), torch.nan, device=self.device), torch.zeros_like(parameters[i])
            leaf = self._leaves({k: _laid_out(v) for k, v in self.views(parameters[i]).items()})
            arguments = member_share((inputs.x, weights, inputs.noise, *second), i)
            out = self.call(template, leaf, member_share(buffers, i), terms, *arguments)
            return self._seen(out, turn), torch.cat([g.flatten() for g in _gradients(self._descended(out, turn), leaf)])

        outs, rows = zip(*self.each(of_member), strict=True)
        return torch.stack(outs), torch.stack(rows)

    def losses(
        self,
        weights: Weights,
        x: Float[Tensor, "members batch ..."],
        penalties: Sequence[Tensor],
        noise: Mapping[str, Tensor],
        *second: Tensor,
    ) -> Float[Tensor, " members"]:
        """The loss of every member on a batch, without gradients.

        Args:
            weights: The weights of all members.
            x: A batch for each member.
            penalties: The leaves of the penalties, a number for each member (see `penalty_weights`).
            noise: The noise of each member.
            second: Another batch for each member, where the penalties need one.
        """

        def loss(vae: VAE, x: Tensor, leaf: Sequence[Tensor], noise: Mapping[str, Tensor], *second: Tensor) -> Tensor:
            return self._terms(vae, x, leaf, noise, False, False, (), *second)[0]

        return self.map(loss, weights, x, tuple(penalties), noise, *second)

    def _leaves(self, views: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: value.detach().requires_grad_(name not in self.frozen) for name, value in views.items()}

    def _terms(
        self,
        vae: VAE,
        x: Tensor,
        weights: Sequence[Tensor],
        noise: Mapping[str, Tensor],
        watch: bool,
        compiled: bool,
        turn: Turn,
        second: Tensor | None = None,
    ) -> Tensor:
        penalties: Mapping[str, Penalty] = rebuild(self.objective.penalties, is_leaf, iter(weights))
        size, pairing, needs = self.info.data_size, self.objective.pairing, self.needs
        counts = dict(turn) or None
        if counts is not None and 0 in counts.values():
            needs = gather({name: own for name, own in penalties.items() if counts.get(name) != 0}, self.info)
        with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
            terms = evaluate(vae, penalties, x, noise, size, watch, pairing, second, needs, compiled, counts)
        names = self.terms[0] + (self.terms[1] if watch else []) + (["loss/descended"] if turn else [])
        return torch.stack([terms[name].float() for name in names])

    def _seen(self, terms: Tensor, turn: Turn) -> Tensor:
        """The terms that have names, without what only gradients are taken of."""
        return terms.detach()[..., :-1] if turn else terms.detach()

    def _descended(self, terms: Tensor, turn: Turn) -> Tensor:
        """What the gradients are of: the loss at this step, and what each adversary minimises."""
        loss = terms[..., -1 if turn else 0].sum()
        return loss + terms[..., self.rivals].sum() if self.needs.adversaries else loss


def batches(pack: Pack, table: Table, size: int, sampling: str) -> Batches:
    """The inputs that a pack's objective asks for."""
    return Batches(table, pack.members, pack.info, pack.needs, size, sampling, pack.objective.pairing)


def _laid_out(weight: Tensor) -> Tensor:
    """Convolutions run channels-last: a tenth to a fifth faster on a CPU, more so for tangents."""
    if weight.ndim != 4:
        return weight
    laid_out = weight.contiguous(memory_format=torch.channels_last)
    _, channels, height, width = weight.shape
    if channels > 1:
        return laid_out
    # With one channel both layouts are the same in memory; the strides tell torch which one it is.
    return laid_out.as_strided(weight.shape, (height * width, 1, width, 1))


def _gradients(loss: Tensor, leaf: Mapping[str, Tensor]) -> list[Tensor]:
    """Gradients of all parameters in their order; zero for those that are frozen or have no part in the loss."""
    trained = [value for value in leaf.values() if value.requires_grad]
    gradients = iter(torch.autograd.grad(loss, trained, allow_unused=True, materialize_grads=True))
    return [next(gradients) if value.requires_grad else torch.zeros_like(value) for value in leaf.values()]
