"""A pack: the members of a run that train as one computation, seeds as the leading dimension.

All parameters of a member are one row of `parameters [members, count]`; layers see views of it. A step is
one function of one member, mapped over members: by `vmap`, or one by one where that is faster (on a CPU
vmap turns convolutions into grouped ones, which are slow; members then run side by side in threads).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, vmap

from untwine.errors import UntwineError
from untwine.model import networks
from untwine.model.check import check
from untwine.model.info import Info
from untwine.model.initial import initialise
from untwine.model.passes import is_known
from untwine.model.vae import VAE, create, refuse_state, seeded
from untwine.objective.core import Objective, Penalty, is_leaf
from untwine.objective.evaluation import evaluate
from untwine.objective.schedules import Schedule, schedule
from untwine.parts import leaves, rebuild, structure, to_json
from untwine.train.batches import Batches, Table
from untwine.train.run import Member, learning_rate, objective


def build(member: Member, info: Info) -> VAE:
    """A member's model with its initial parameters."""
    parts = objective(member.spec)
    network = networks.build(member.spec["network"])
    return create(info, network, parts.likelihood, parts.posterior, parts.prior, member.seed)


class Stack:
    """Models of equal structure with their parameters stacked: how any function of one maps over all."""

    def __init__(self, models: Sequence[VAE], device: torch.device, batching: str = "auto"):
        self.template = models[0].to(device)
        named = list(models[0].named_parameters())
        self.names = [name for name, _ in named]
        self.shapes = [parameter.shape for _, parameter in named]
        self.sizes = [parameter.numel() for _, parameter in named]
        self.frozen = {name for name, parameter in named if not parameter.requires_grad}
        rows = [torch.cat([p.detach().flatten().float().cpu() for p in model.parameters()]) for model in models]
        self.parameters = torch.stack(rows).to(device)
        self.buffers = {
            name: torch.stack([dict(model.named_buffers())[name].to(device) for model in models])
            for name, _ in models[0].named_buffers()
        }
        self.batching = _batching(self.template, device) if batching == "auto" else batching
        if self.batching not in ("loop", "vmap"):
            raise UntwineError(f"batching is 'auto', 'loop' or 'vmap', not {batching!r}")
        self._start_workers(device)

    def __len__(self) -> int:
        return len(self.parameters)

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """Rows of flat parameters (or one row) as named tensors."""
        pieces = rows.split(self.sizes, -1)
        lead = rows.shape[:-1]
        return {n: p.reshape((*lead, *s)) for n, p, s in zip(self.names, pieces, self.shapes, strict=True)}

    def map(self, function: Callable[..., Any], *arguments: Any, shared: bool = False) -> Tensor:
        """`function(vae, *arguments)` for each member, without gradients; results are stacked.

        So are arguments, a share for each member, unless they are `shared`: then all members see them whole.
        """
        parameters = self.views(self.parameters)
        if self.batching == "vmap":
            places = (0, 0, *((None if shared else 0,) * len(arguments)))
            with torch.no_grad():
                mapped = vmap(lambda p, b, *a: self.call(self.template, p, b, function, *a), in_dims=places)
                return mapped(parameters, self.buffers, *arguments)

        def one(template: VAE, i: int) -> Tensor:
            own = arguments if shared else _at(arguments, i)
            with torch.no_grad():  # here, since every thread has a mode of its own
                return self.call(template, _at(parameters, i), _at(self.buffers, i), function, *own)

        return torch.stack(self.each(one))

    def each(self, function: Callable[[VAE, int], Any]) -> list[Any]:
        """`function(template, i)` for each member i; on a CPU they run side by side, a thread for each.

        So no thread waits for another inside of a layer, which on a busy machine is ruinous, and the
        results of a member do not depend on the number of threads while each has one of its own.
        """
        if self._workers is None:
            return [function(self.template, i) for i in range(len(self))]

        def one(i: int) -> Any:
            template = self._templates.get()  # parameters are put in place: no two threads may share one
            try:
                return function(template, i)
            finally:
                self._templates.put(template)

        return list(self._workers.map(one, range(len(self))))

    def _start_workers(self, device: torch.device) -> None:
        threads = torch.get_num_threads()
        count = min(len(self), threads)
        self._workers = None
        # Layers without a tangent rule need forward-mode differentiation, whose levels all threads share.
        if self.batching == "loop" and device.type == "cpu" and count > 1 and is_known(self.template.decoder):
            inner = max(1, threads // count)
            self._workers = ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(inner,))
            self._templates: SimpleQueue[VAE] = SimpleQueue()
            for _ in range(count):
                self._templates.put(copy.deepcopy(self.template))

    @staticmethod
    def call(
        template: VAE, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], function: Any, *args: Any
    ) -> Any:
        """`function(vae, *args)` with these parameters in the template's place."""
        state = {f"vae.{k}": v for k, v in (*parameters.items(), *buffers.items())}
        return functional_call(_Call(template, function), state, args)

    def state(self, i: int) -> dict[str, Tensor]:
        """The plain state dict of one member: parameters (tied ones under each of their names) and buffers."""
        own = {**self.views(self.parameters[i]), **_at(self.buffers, i)}
        names = {id(value): name for name, value in (*self.template.named_parameters(), *self.template.named_buffers())}
        keys = self.template.state_dict(keep_vars=True)
        return {
            key: own[names[id(value)]].detach().cpu().clone().contiguous()
            for key, value in keys.items()
            if not key.startswith("adversaries.")  # they are of use in training alone
        }


class _Call(nn.Module):
    """A function of a model as a module, which is what `functional_call` takes."""

    def __init__(self, vae: VAE, function: Callable[..., Any]):
        super().__init__()
        self.vae = vae
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(self.vae, *args)


def _batching(model: nn.Module, device: torch.device) -> str:
    convolutional = any(isinstance(m, nn.Conv2d | nn.ConvTranspose2d) for m in model.modules())
    return "loop" if convolutional and device.type == "cpu" else "vmap"


def _at(value: Any, i: int) -> Any:
    """The i-th member's share of nested tensors."""
    if isinstance(value, Mapping):
        return {key: _at(item, i) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_at(item, i) for item in value)
    return value[i]


@dataclass(frozen=True)
class Group:
    """Columns of the flat parameters with an optimiser (a spec) and rates, one for each member, of their own."""

    name: str  # what the names of the optimiser's buffers begin with
    columns: slice
    optimiser: dict[str, Any]
    rates: Sequence[Schedule]


class Pack(Stack):
    """A stack with an objective: terms and gradients of all members, and their weights at any step."""

    def __init__(self, members: Sequence[Member], info: Info, device: torch.device, batching: str = "auto"):
        self.members, self.info, self.device = list(members), info, device
        self.objectives = [objective(member.spec) for member in members]
        if len({str(structure(to_json(o))) for o in self.objectives}) > 1:
            raise UntwineError("these members differ in more than numbers: they cannot train as one pack")
        self.objective: Objective = self.objectives[0]
        self.needs = needs = self.objective.needs(info)
        super().__init__([self._with_adversaries(member) for member in members], device, batching)
        self.groups = self._groups()
        self.precision = torch.bfloat16 if members[0].spec["precision"] == "bfloat16" else torch.float32
        self.terms, self.rivals = self._term_names()
        if needs.jacobian and not is_known(self.template.decoder):
            check(self.template.decoder, info.latents)

    def _with_adversaries(self, member: Member) -> VAE:
        vae = build(member, self.info)
        with seeded(member.seed):
            for name, adversary in self.needs.adversaries.items():
                vae.adversaries[name] = adversary.build(self.info)
        refuse_state(vae.adversaries)
        initialise(vae.adversaries, member.seed)
        return vae

    def _groups(self) -> list[Group]:
        """The model's parameters, then those of each adversary: who updates which columns."""
        players = self.needs.adversaries
        counts = [sum(p.numel() for p in self.template.adversaries[name].parameters()) for name in players]
        start = self.parameters.shape[1] - sum(counts)
        rates = [learning_rate(member.spec) for member in self.members]
        groups = [Group("", slice(0, start), self.members[0].spec["optimiser"], rates)]
        for (name, adversary), count in zip(players.items(), counts, strict=True):
            rates = [schedule(one.needs(self.info).adversaries[name].rate) for one in self.objectives]
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

    def weights(self, steps: np.ndarray) -> list[Tensor]:
        """Every leaf of the penalties at these steps: tensors `[steps, members]`."""
        columns = [[schedule(leaf)(steps) for leaf in leaves(o.penalties, is_leaf)] for o in self.objectives]
        return [self._column(leaf) for leaf in zip(*columns, strict=True)]

    def rates(self, steps: np.ndarray) -> Float[Tensor, "groups steps members"]:
        return torch.stack([self._column([rate(steps) for rate in group.rates]) for group in self.groups])

    def _column(self, values: Sequence[np.ndarray]) -> Tensor:
        return self.sent(np.stack(values, -1))

    def sent(self, values: np.ndarray) -> Tensor:
        """Numbers on the device, as float32, without waiting for it."""
        found = torch.from_numpy(values).float()
        if self.device.type == "cuda":
            return found.pin_memory().to(self.device, non_blocking=True)
        return found.to(self.device)

    def _leaves(self, views: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: value.detach().requires_grad_(name not in self.frozen) for name, value in views.items()}

    def _terms(
        self,
        vae: VAE,
        x: Tensor,
        weights: tuple[Tensor, ...],
        noise: Mapping[str, Tensor],
        watch: bool,
        second: Tensor | None = None,
    ) -> Tensor:
        penalties: Mapping[str, Penalty] = rebuild(self.objective.penalties, is_leaf, iter(weights))
        with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
            terms = evaluate(vae, penalties, x, noise, self.info.data_size, watch, self.objective.pairing, second)
        names = self.terms[0] + (self.terms[1] if watch else [])
        return torch.stack([terms[name].float() for name in names])

    def _descended(self, terms: Tensor) -> Tensor:
        """What the gradients are of: the loss, and what each adversary minimises."""
        loss = terms[..., 0].sum()
        return loss + terms[..., self.rivals].sum() if self.needs.adversaries else loss

    def step(
        self,
        x: Float[Tensor, "members batch ..."],
        weights: tuple[Tensor, ...],
        noise: Mapping[str, Tensor],
        watch: bool = False,
        alive: Sequence[bool] | None = None,
        second: Float[Tensor, "members other ..."] | None = None,
    ) -> tuple[Float[Tensor, "members terms"], Float[Tensor, "members parameters"]]:
        """Terms and gradients of every member on its own batch. Members known to be dead may be skipped."""
        more = () if second is None else (second,)

        def terms(vae: VAE, x: Tensor, weights: tuple[Tensor, ...], noise: Mapping[str, Tensor], *more: Any) -> Tensor:
            return self._terms(vae, x, weights, noise, watch, *more)

        if self.batching == "vmap":
            leaf = self._leaves(self.views(self.parameters))
            mapped = vmap(lambda p, b, *a: self.call(self.template, p, b, terms, *a))
            out = mapped(leaf, self.buffers, x, weights, noise, *more)
            grads = _gradients(self._descended(out), leaf)
            return out.detach(), torch.cat([g.reshape(len(self), -1) for g in grads], 1)

        def one(template: VAE, i: int) -> tuple[Tensor, Tensor]:
            if alive is not None and not alive[i]:
                count = len(self.terms[0]) + watch * len(self.terms[1])
                return torch.full((count,), torch.nan, device=self.device), torch.zeros_like(self.parameters[i])
            leaf = self._leaves({k: _laid_out(v) for k, v in self.views(self.parameters[i]).items()})
            inputs = x[i], _at(weights, i), _at(noise, i), *_at(more, i)
            out = self.call(template, leaf, _at(self.buffers, i), terms, *inputs)
            return out.detach(), torch.cat([g.flatten() for g in _gradients(self._descended(out), leaf)])

        outs, rows = zip(*self.each(one), strict=True)
        return torch.stack(outs), torch.stack(rows)


def batches(pack: Pack, table: Table, size: int, sampling: str) -> Batches:
    """The inputs that a pack's objective asks for."""
    return Batches(table, pack.members, pack.info, pack.needs, size, sampling, pack.objective.pairing)


def _laid_out(weight: Tensor) -> Tensor:
    """Convolutions run channels-last: a tenth to a fifth faster on a CPU, more so for tangents."""
    return weight.contiguous(memory_format=torch.channels_last) if weight.ndim == 4 else weight


def _gradients(loss: Tensor, leaf: Mapping[str, Tensor]) -> list[Tensor]:
    """Gradients of all parameters in their order; zero for those that are frozen or have no part in the loss."""
    trained = [value for value in leaf.values() if value.requires_grad]
    found = iter(torch.autograd.grad(loss, trained, allow_unused=True, materialize_grads=True))
    return [next(found) if value.requires_grad else torch.zeros_like(value) for value in leaf.values()]
