"""Batches and noise as functions of the step, computed for many steps at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from untwine import streams
from untwine.model.info import Info
from untwine.objective.terms import Needs, Pairing
from untwine.train.member import Member
from untwine.train.steps.table import Table, factors_to_pair

_BLOCK_BYTES = 1 << 25  # noise of one block of steps
_BLOCK_STEPS = {"cuda": 256}  # a block takes a hundred launches, however many steps it has
_KINDS = {"uniform": streams.uniform, "normal": streams.normal}


@dataclass(frozen=True)
class Inputs:
    """The inputs of one step of a pack."""

    step: int | Tensor
    x: Tensor  # [members, batch, *shape]; with a pairing, examples and then their partners
    noise: Mapping[str, Tensor]
    second: Tensor | None = None  # another, independent batch, for penalties that need one


class Batches:
    """The inputs of every step of a pack.

    Args:
        table: The training examples.
        members: The members of the pack, whose data seeds decide everything.
        info: What is known of the model and of the data.
        needs: What the penalties need.
        batch_size: Examples in a step.
        sampling: "iid" draws with replacement, "epochs" reshuffles.
        pairing: How examples get partners, if they do.
    """

    def __init__(
        self,
        table: Table,
        members: Sequence[Member],
        info: Info,
        needs: Needs,
        batch_size: int,
        sampling: str,
        pairing: Pairing | None = None,
    ):
        self.table, self.info, self.size, self.sampling = table, info, batch_size, sampling
        self.pairing, self.second = pairing, needs.second
        # Streams need float64, which Apple's devices lack: for those they run on the CPU.
        self.home = torch.device("cpu") if table.device.type == "mps" else table.device
        self.seeds = torch.tensor([member.data_seed for member in members], device=self.home)
        self.noise = {"posterior": ("normal", (info.latents,)), **needs.noise}
        self.examples = batch_size if pairing is None else 2 * batch_size  # in a pass
        self.training = None if table.training is None else torch.from_numpy(table.training).to(self.home)
        self.sizes = torch.ones(0)
        if pairing is not None:
            self.sizes = torch.tensor(factors_to_pair(table.dataset).sizes, device=self.home)
        full, rest = divmod(info.data_size, batch_size)
        self.epoch = max(1, full + (rest >= needs.examples))  # steps in an epoch; a rest that is too short is skipped
        wide = sum(math.prod(shape) for _, shape in self.noise.values())
        steps = _BLOCK_STEPS.get(table.device.type, 64)
        self.block = max(1, min(steps, _BLOCK_BYTES // (8 * len(members) * self.examples * max(wide, 1))))
        self._orders: dict[str, tuple[int, Tensor]] = {}

    @property
    def gathered(self) -> bool:
        """Whether a batch consists of rows of a table on the device, known by their numbers."""
        return self.table.rows is not None and self.pairing is None

    def numbers(self, steps: Tensor, purpose: str = "") -> list[Tensor]:
        """The numbers of the examples of each step, `[members, batch]`; every `purpose` has batches of its own."""
        places = self._places(steps, purpose)
        return places if self.training is None else [self.training[batch] for batch in places]

    def _places(self, steps: Tensor, purpose: str) -> list[Tensor]:
        """The places of the examples of each step among those to train on."""
        if self.sampling == "iid":
            return list(streams.integers(self.seeds, f"batch{purpose}", steps, self.size, self.info.data_size))
        batches = []
        for step in steps.tolist():
            epoch, place = divmod(step, self.epoch)
            if self._orders.get(purpose, (-1,))[0] != epoch:
                order = streams.permutation(self.seeds, f"epoch{purpose}", epoch, self.info.data_size)
                self._orders[purpose] = epoch, order
            batches.append(self._orders[purpose][1][:, place * self.size : (place + 1) * self.size])
        return batches

    def filled(self, steps: Tensor) -> dict[str, Tensor]:
        """The noise of these steps: tensors `[steps, members, examples, ...]`."""
        noise = {}
        for name, (kind, shape) in self.noise.items():
            purpose = f"penalty/{name}" if "/" in name else name
            flat = _KINDS[kind](self.seeds, purpose, steps, self.examples * math.prod(shape))
            noise[name] = flat.unflatten(-1, (self.examples, *shape)).to(self.table.device)
        return noise

    def _sources(self, steps: Tensor) -> list[tuple[Tensor, ...]]:
        """What the batch of each step, and its second batch, are made from: numbers, and uniforms for partners."""
        columns: list[Sequence[Tensor]] = []
        for purpose in ("", "/second") if self.second else ("",):
            columns.append(self.numbers(steps, purpose))
            if self.pairing is not None:
                width = self.pairing.width(len(self.sizes))
                uniforms = streams.uniform(self.seeds, f"pairing{purpose}", steps, self.size * width)
                columns.append(list(uniforms.unflatten(-1, (self.size, width))))
        return list(zip(*columns, strict=True))

    def _examples(self, *sources: Tensor) -> tuple[Tensor, Tensor | None]:
        """The batch of one step, and its second batch."""
        if self.pairing is None:
            batches = [self.table(numbers) for numbers in sources]
        else:
            batches = [self._pairs(*both) for both in zip(sources[::2], sources[1::2], strict=True)]
        return batches[0], batches[1] if self.second else None

    def _pairs(self, numbers: Tensor, uniforms: Tensor) -> Tensor:
        """Examples followed by their partners."""
        assert self.pairing is not None
        partners = self.pairing.draw(self.table.factors(numbers), uniforms[:, : numbers.shape[1]], self.sizes)
        return torch.cat((self.table(numbers), self.table.observe(partners)), 1)

    def blocks(self, first: int, last: int) -> Iterator[Block]:
        """The steps [first, last) in blocks; batches that take a while are made one step ahead."""
        with ThreadPoolExecutor(1) as pool:
            ahead = pool if self.table.streamed or self.pairing is not None else None
            for start in range(first, last, self.block):
                steps = torch.arange(start, min(start + self.block, last), device=self.home)
                yield Block(start, self._sources(steps), self.filled(steps), self._examples, ahead)

    def __call__(self, first: int, last: int) -> Iterator[Inputs]:
        """The inputs of the steps [first, last)."""
        for block in self.blocks(first, last):
            for i in range(len(block)):
                yield block.inputs(i)


class Block:
    """Several steps: their noise, and their batches, which are made on demand and in order.

    Args:
        start: The first step.
        sources: What the batches of each step are made from.
        noise: The noise of all these steps.
        examples: Makes the batches of a step from its sources.
        pool: Where batches are made one step ahead; None makes them on demand.
    """

    def __init__(
        self,
        start: int,
        sources: list[tuple[Tensor, ...]],
        noise: dict[str, Tensor],
        examples: Callable[..., tuple[Tensor, Tensor | None]],
        pool: ThreadPoolExecutor | None,
    ):
        self.start, self.sources, self.noise = start, sources, noise
        self._make, self._pool = examples, pool
        self._next = pool.submit(examples, *sources[0]) if pool else None

    def __len__(self) -> int:
        return len(self.sources)

    def size(self, i: int) -> int:
        """How many examples the i-th batch has, without partners."""
        return self.sources[i][0].shape[1]

    def examples(self, i: int) -> tuple[Tensor, Tensor | None]:
        """The i-th batch, and its second batch."""
        if self._next is None:
            return self._make(*self.sources[i])
        batches, self._next = self._next.result(), None
        if i + 1 < len(self):
            assert self._pool is not None
            self._next = self._pool.submit(self._make, *self.sources[i + 1])
        return batches

    def inputs(self, i: int) -> Inputs:
        """The inputs of the i-th step."""
        x, second = self.examples(i)
        return Inputs(self.start + i, x, {k: v[i][:, : x.shape[1]] for k, v in self.noise.items()}, second)
