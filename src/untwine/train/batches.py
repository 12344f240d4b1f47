"""Batches and noise as functions of the step, filled for many steps at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from untwine import streams
from untwine.data import Dataset
from untwine.model.info import Info
from untwine.train.run import Member

_BLOCK_BYTES = 1 << 25  # noise of one block of steps
_KINDS = {"uniform": streams.uniform, "normal": streams.normal}


@dataclass(frozen=True)
class Inputs:
    """What one step of a pack consumes."""

    step: int
    x: Tensor  # [members, batch, *shape]
    noise: Mapping[str, Tensor]


class Table:
    """Training examples on the device when they fit, else fetched by number: one call for each step."""

    def __init__(self, dataset: Dataset, device: torch.device, resident: bool | None = None):
        self.dataset, self.device = dataset, device
        if resident is None:
            resident = dataset.nbytes <= _room(device)
        self.rows = _on_device(dataset, device) if resident else None

    def __call__(self, numbers: Tensor) -> Tensor:
        """Examples of these numbers `[..., *shape]` as float32; images in [0, 1]."""
        if self.rows is not None:
            found = self.rows[numbers.flatten().to(self.device)]
        else:
            found = torch.from_numpy(self.dataset.batch(numbers.flatten().cpu().numpy())).to(self.device)
        return scaled(found).unflatten(0, numbers.shape)


def _on_device(dataset: Dataset, device: torch.device) -> Tensor:
    """All training examples on the device; a dataset that can draw on a GPU does so there."""
    draw = getattr(dataset, "draw", None)
    if draw is not None and device.type == "cuda":
        return draw(torch.from_numpy(dataset.factors_of(np.arange(len(dataset)))).to(device))
    return torch.from_numpy(np.ascontiguousarray(dataset.examples())).to(device)


def scaled(x: Tensor) -> Tensor:
    """uint8 images as float32 in [0, 1]; other arrays as float32."""
    return x.float().div_(255.0) if x.dtype == torch.uint8 else x.float()


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
        noise: Mapping[str, tuple[str, tuple[int, ...]]],
        batch_size: int,
        sampling: str,
    ):
        self.table, self.info, self.size, self.sampling = table, info, batch_size, sampling
        # Streams need float64, which Apple's devices lack: there they run on the CPU.
        self.home = torch.device("cpu") if table.device.type == "mps" else table.device
        self.seeds = torch.tensor([member.data_seed for member in members], device=self.home)
        self.noise = {"posterior": ("normal", (info.latents,)), **noise}
        self.epoch = -(-info.data_size // batch_size)  # steps in an epoch
        wide = sum(math.prod(shape) for _, shape in self.noise.values())
        self.block = max(1, min(64, _BLOCK_BYTES // (8 * len(members) * batch_size * max(wide, 1))))
        self._order: tuple[int, Tensor] | None = None

    def numbers(self, steps: Tensor) -> list[Tensor]:
        """The examples of each step, `[members, batch]` each."""
        if self.sampling == "iid":
            return list(streams.integers(self.seeds, "batch", steps, self.size, self.info.data_size))
        found = []
        for step in steps.tolist():
            epoch, place = divmod(step, self.epoch)
            if self._order is None or self._order[0] != epoch:
                self._order = epoch, streams.permutation(self.seeds, "epoch", epoch, self.info.data_size)
            found.append(self._order[1][:, place * self.size : (place + 1) * self.size])
        return found

    def filled(self, first: int, last: int) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Numbers and noise of the steps [first, last)."""
        steps = torch.arange(first, last, device=self.home)
        noise = {}
        for name, (kind, shape) in self.noise.items():
            purpose = "posterior" if name == "posterior" else f"penalty/{name}"
            flat = _KINDS[kind](self.seeds, purpose, steps, self.size * math.prod(shape))
            noise[name] = flat.unflatten(-1, (self.size, *shape)).to(self.table.device)
        return self.numbers(steps), noise

    def __call__(self, first: int, last: int) -> Iterator[Inputs]:
        """Inputs of the steps [first, last); data that is not on the device is fetched one step ahead."""
        with ThreadPoolExecutor(1) as pool:
            for start in range(first, last, self.block):
                stop = min(start + self.block, last)
                numbers, noise = self.filled(start, stop)
                ahead = self.table.rows is None
                waiting = pool.submit(self.table, numbers[0]) if ahead else None
                for i in range(stop - start):
                    x = waiting.result() if waiting else self.table(numbers[i])
                    if ahead and i + 1 < stop - start:
                        waiting = pool.submit(self.table, numbers[i + 1])
                    yield Inputs(start + i, x, {k: v[i][:, : x.shape[1]] for k, v in noise.items()})
