"""Batches and noise as functions of the step, filled for many steps at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from untwine import streams
from untwine.data import Dataset, FactorSpace
from untwine.data.standard import Standard
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.objective.terms import Needs, Pairing
from untwine.train.member import Member

_BLOCK_BYTES = 1 << 25  # noise of one block of steps
_BLOCK_STEPS = {"cuda": 256}  # filling takes a hundred launches, however many steps it is for
_KINDS = {"uniform": streams.uniform, "normal": streams.normal}


@dataclass(frozen=True)
class Inputs:
    """What one step of a pack consumes."""

    step: int | Tensor
    x: Tensor  # [members, batch, *shape]; with a pairing, examples and then their partners
    noise: Mapping[str, Tensor]
    second: Tensor | None = None  # another, independent batch, for those who need one


class Table:
    """Training examples on the device when they fit, else fetched by number: one call for each step.

    `uses` is how many examples will be asked for: a table larger than that is not worth making.
    """

    def __init__(
        self,
        dataset: Dataset,
        device: torch.device,
        resident: bool | None = None,
        uses: int | None = None,
        standard: Standard | None = None,
    ):
        self.dataset, self.device = dataset, device
        self.standard = constants(standard, device)
        if resident is None:
            resident = (uses is None or len(dataset) <= uses) and dataset.nbytes <= _room(device)
        self.rows = _on_device(dataset, device) if resident else None
        self._draw = getattr(dataset, "draw", None) if device.type == "cuda" else None

    def observe(self, factors: Tensor) -> Tensor:
        """States `[..., factors]` as float32 examples."""
        flat = factors.flatten(0, -2)
        if self._draw is not None:
            found = self._draw(flat.to(self.device))
        else:
            found = torch.from_numpy(self.dataset.observe(flat.cpu().numpy())).to(self.device)
        return scaled(found, self.standard).unflatten(0, factors.shape[:-1])

    def factors(self, numbers: Tensor) -> Tensor:
        """The factors `[..., factors]` of examples."""
        found = self.dataset.factors_of(numbers.flatten().cpu().numpy())
        return torch.from_numpy(found).to(numbers.device).unflatten(0, numbers.shape)

    def __call__(self, numbers: Tensor) -> Tensor:
        """Examples of these numbers `[..., *shape]` as float32; images in [0, 1]."""
        if self.rows is not None:
            found = self.rows[numbers.flatten().to(self.device)]
        else:
            found = torch.from_numpy(self.dataset.batch(numbers.flatten().cpu().numpy())).to(self.device)
        return scaled(found, self.standard).unflatten(0, numbers.shape)


def _on_device(dataset: Dataset, device: torch.device) -> Tensor:
    """All training examples on the device; a dataset that can draw on a GPU does so there."""
    draw = getattr(dataset, "draw", None)
    if draw is not None and device.type == "cuda":
        return draw(torch.from_numpy(dataset.factors_of(np.arange(len(dataset)))).to(device))
    return torch.from_numpy(np.ascontiguousarray(dataset.examples())).to(device)


def scaled(x: Tensor, standard: Tensor | None = None) -> Tensor:
    """What a network sees: uint8 images as float32 in [0, 1], other arrays as float32; standardised if so asked."""
    x = x.float().div_(255.0) if x.dtype == torch.uint8 else x.float()
    return x if standard is None else (x - standard[0]) / standard[1]


def constants(standard: Standard | None, device: torch.device) -> Tensor | None:
    """Means and standard deviations as a tensor `[2, channels, 1, 1]`."""
    return None if standard is None else torch.tensor(standard, dtype=torch.float32, device=device)[..., None, None]


def _room(device: torch.device) -> int:
    """Bytes that a dataset may take on a device: half of what is free."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // 2
    try:
        import os

        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return 4 << 30


class Batches:
    """The inputs of every step from a given one on."""

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
        # Streams need float64, which Apple's devices lack: there they run on the CPU.
        self.home = torch.device("cpu") if table.device.type == "mps" else table.device
        self.seeds = torch.tensor([member.data_seed for member in members], device=self.home)
        self.noise = {"posterior": ("normal", (info.latents,)), **needs.noise}
        self.examples = batch_size if pairing is None else 2 * batch_size  # that a pass has
        self.sizes = torch.ones(0)
        if pairing is not None:
            self.sizes = torch.tensor(factors_to_pair(table.dataset).sizes, device=self.home)
        whole, rest = divmod(info.data_size, batch_size)
        self.epoch = max(1, whole + (rest >= needs.examples))  # steps in an epoch; of a rest that is too short, none
        wide = sum(math.prod(shape) for _, shape in self.noise.values())
        steps = _BLOCK_STEPS.get(table.device.type, 64)
        self.block = max(1, min(steps, _BLOCK_BYTES // (8 * len(members) * self.examples * max(wide, 1))))
        self._orders: dict[str, tuple[int, Tensor]] = {}

    @property
    def gathered(self) -> bool:
        """Whether a batch is rows of a table on the device, known by their numbers."""
        return self.table.rows is not None and self.pairing is None

    def numbers(self, steps: Tensor, purpose: str = "") -> list[Tensor]:
        """The examples of each step, `[members, batch]` each; a `purpose` has batches of its own."""
        if self.sampling == "iid":
            return list(streams.integers(self.seeds, f"batch{purpose}", steps, self.size, self.info.data_size))
        found = []
        for step in steps.tolist():
            epoch, place = divmod(step, self.epoch)
            if self._orders.get(purpose, (-1,))[0] != epoch:
                order = streams.permutation(self.seeds, f"epoch{purpose}", epoch, self.info.data_size)
                self._orders[purpose] = epoch, order
            found.append(self._orders[purpose][1][:, place * self.size : (place + 1) * self.size])
        return found

    def filled(self, steps: Tensor) -> dict[str, Tensor]:
        """The noise of these steps."""
        noise = {}
        for name, (kind, shape) in self.noise.items():
            purpose = f"penalty/{name}" if "/" in name else name
            flat = _KINDS[kind](self.seeds, purpose, steps, self.examples * math.prod(shape))
            noise[name] = flat.unflatten(-1, (self.examples, *shape)).to(self.table.device)
        return noise

    def _sources(self, steps: Tensor) -> list[tuple[Tensor, ...]]:
        """For each step what its batch (and the second one) are made from: numbers, and uniforms for partners."""
        columns: list[Sequence[Tensor]] = []
        for purpose in ("", "/second") if self.second else ("",):
            columns.append(self.numbers(steps, purpose))
            if self.pairing is not None:
                width = self.pairing.width(len(self.sizes))
                uniforms = streams.uniform(self.seeds, f"pairing{purpose}", steps, self.size * width)
                columns.append(list(uniforms.unflatten(-1, (self.size, width))))
        return list(zip(*columns, strict=True))

    def _examples(self, *sources: Tensor) -> tuple[Tensor, Tensor | None]:
        """The examples of one step, and of its second batch."""
        if self.pairing is None:
            batches = [self.table(numbers) for numbers in sources]
        else:
            batches = [self._pairs(*both) for both in zip(sources[::2], sources[1::2], strict=True)]
        return batches[0], batches[1] if self.second else None

    def _pairs(self, numbers: Tensor, uniforms: Tensor) -> Tensor:
        """Examples, and then their partners."""
        assert self.pairing is not None
        partners = self.pairing.draw(self.table.factors(numbers), uniforms[:, : numbers.shape[1]], self.sizes)
        return torch.cat((self.table(numbers), self.table.observe(partners)), 1)

    def blocks(self, first: int, last: int) -> Iterator[Block]:
        """The steps [first, last) in blocks; what is not on the device is made one step ahead."""
        with ThreadPoolExecutor(1) as pool:
            for start in range(first, last, self.block):
                steps = torch.arange(start, min(start + self.block, last), device=self.home)
                fetch = None if self.gathered else pool
                yield Block(start, self._sources(steps), self.filled(steps), self._examples, fetch)

    def __call__(self, first: int, last: int) -> Iterator[Inputs]:
        """Inputs of the steps [first, last)."""
        for block in self.blocks(first, last):
            for i in range(len(block)):
                yield block.inputs(i)


class Block:
    """Several steps: their noise, and what their batches are made from; batches are made when asked for, in order."""

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
        """The i-th batch, and its second one."""
        if self._next is None:
            return self._make(*self.sources[i])
        found, self._next = self._next.result(), None
        if i + 1 < len(self):
            assert self._pool is not None
            self._next = self._pool.submit(self._make, *self.sources[i + 1])
        return found

    def inputs(self, i: int) -> Inputs:
        x, second = self.examples(i)
        return Inputs(self.start + i, x, {k: v[i][:, : x.shape[1]] for k, v in self.noise.items()}, second)


def factors_to_pair(dataset: Dataset) -> FactorSpace:
    """The factors of a dataset, which a pairing cannot do without."""
    if dataset.factors is None:
        raise UntwineError(
            f"dataset {dataset.spec.get('name')!r} has no factors, and this method trains on pairs of examples that "
            "differ in some of them: use a dataset with factors, such as three_dots or xy_squares"
        )
    if not dataset.complete:
        raise UntwineError(
            f"{dataset!r} does not have exactly one image of every state, and this method trains on pairs of states "
            "that differ in some factors: use a dataset that shows all of them, such as three_dots or xy_squares"
        )
    return dataset.factors
