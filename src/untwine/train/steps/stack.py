"""A stack: models of equal structure, and how a function of one of them maps over all.

All parameters of a member are one row of `parameters [members, count]`; layers see views of it. A function of one
member is mapped over all by `vmap`, or one by one where that is faster: on a CPU vmap turns convolutions into grouped
ones, which are slow, so members run side by side in threads.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from untwine.errors import UntwineError
from untwine.model.passes import is_known
from untwine.model.vae import VAE


class Weights(NamedTuple):
    """The numbers of several models of equal structure; the first dimension of every tensor is the member."""

    parameters: Tensor  # [members, count]
    buffers: dict[str, Tensor]

    def copied(self, device: torch.device) -> Weights:
        """A copy on a device."""
        buffers = {name: value.to(device, copy=True) for name, value in self.buffers.items()}
        return Weights(self.parameters.to(device, copy=True), buffers)


def stacked(models: Sequence[VAE]) -> Weights:
    """The weights of models of equal structure, on the CPU."""
    rows = [torch.cat([p.detach().flatten().float().cpu() for p in model.parameters()]) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    names = list(buffers[0])
    return Weights(torch.stack(rows), {name: torch.stack([own[name].cpu() for own in buffers]) for name in names})


class Stack:
    """Models of equal structure. It knows their structure, not their weights, which every method is given."""

    def __init__(self, models: Sequence[VAE], device: torch.device, batching: str = "auto"):
        self.device = device
        self.count = len(models)
        # functional_call may leave a vmapped tensor in a template whose layers are tied: copies are made of this one.
        self._untouched = copy.deepcopy(models[0]).cpu()
        self.template = models[0].to(device)
        named = list(models[0].named_parameters())
        self.names = [name for name, _ in named]
        self.shapes = [parameter.shape for _, parameter in named]
        self.sizes = [parameter.numel() for _, parameter in named]
        self.frozen = {name for name, parameter in named if not parameter.requires_grad}
        self.batching = _batching(self.template, device) if batching == "auto" else batching
        if self.batching not in ("loop", "vmap"):
            raise UntwineError(f"batching is 'auto', 'loop' or 'vmap', not {batching!r}")
        self._start_workers()

    def __len__(self) -> int:
        return self.count

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """Rows of flat parameters (or one row) as named tensors."""
        pieces = rows.split(self.sizes, -1)
        lead = rows.shape[:-1]
        return {n: p.reshape((*lead, *s)) for n, p, s in zip(self.names, pieces, self.shapes, strict=True)}

    def map(self, function: Callable[..., Any], weights: Weights, *arguments: Any, shared: bool = False) -> Tensor:
        """`function(vae, *arguments)` for each member, without gradients; the results are stacked.

        Args:
            function: A function of a model and of the arguments.
            weights: The weights of all members.
            arguments: Tensors whose first dimension is the member.
            shared: Whether every member takes the arguments as they are instead.
        """
        parameters, buffers = self.views(weights.parameters), weights.buffers
        if self.batching == "vmap":
            places = (0, 0, *((None if shared else 0,) * len(arguments)))
            with torch.no_grad():
                mapped = vmap(lambda p, b, *a: self.call(self.template, p, b, function, *a), in_dims=places)
                return mapped(parameters, buffers, *arguments)

        def of_member(template: VAE, i: int) -> Tensor:
            shares = arguments if shared else member_share(arguments, i)
            with torch.no_grad():  # inside the function, since every thread has a mode of its own
                return self.call(template, member_share(parameters, i), member_share(buffers, i), function, *shares)

        return torch.stack(self.each(of_member))

    def each(self, function: Callable[[VAE, int], Any]) -> list[Any]:
        """`function(template, i)` for each member i; on a CPU they run side by side, a thread for each.

        So no thread waits for another inside of a layer, which on a busy machine is ruinous, and the
        results of a member do not depend on the number of threads while each has one of its own.
        """
        if self._workers is None:
            return [function(self.template, i) for i in range(len(self))]

        def with_template(i: int) -> Any:
            template = self._templates.get()  # parameters are put in place: no two threads may share one
            try:
                return function(template, i)
            finally:
                self._templates.put(template)

        return list(self._workers.map(with_template, range(len(self))))

    def _start_workers(self) -> None:
        threads = torch.get_num_threads()
        count = min(len(self), threads)
        self._workers = None
        # Layers without a tangent rule need forward-mode differentiation, whose levels all threads share.
        if self.batching == "loop" and self.device.type == "cpu" and count > 1 and is_known(self.template.decoder):
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

    def state(self, weights: Weights, i: int) -> dict[str, Tensor]:
        """The plain state dict of one member: parameters (tied ones under each of their names) and buffers."""
        values = {**self.views(weights.parameters[i]), **member_share(weights.buffers, i)}
        names = {id(value): name for name, value in (*self.template.named_parameters(), *self.template.named_buffers())}
        keys = self.template.state_dict(keep_vars=True)
        return {
            key: values[names[id(value)]].detach().cpu().clone().contiguous()
            for key, value in keys.items()
            if not key.startswith("adversaries.")  # they are of use in training alone
        }

    def model(self, weights: Weights, i: int) -> VAE:
        """One member as a plain module on the CPU, with a copy of its weights."""
        model = copy.deepcopy(self._untouched)
        model.adversaries = nn.ModuleDict()
        model.load_state_dict(self.state(weights, i))
        for name, buffer in model.named_buffers():  # numbers that a spec has, and a state dict does not
            buffer.copy_(weights.buffers[name][i])
        return model.eval()


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


def member_share(value: Any, i: int) -> Any:
    """The i-th member's share of nested tensors."""
    if isinstance(value, Mapping):
        return {key: member_share(item, i) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(member_share(item, i) for item in value)
    return value[i]
