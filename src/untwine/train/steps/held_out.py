"""The loss on held-out examples, without gradients and outside of any compiled step."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from untwine.errors import UntwineError
from untwine.train.steps.batches import Batches
from untwine.train.steps.pack import Pack
from untwine.train.steps.stack import Weights

BATCHES = 8  # at most, and no more examples than these
EXAMPLES = 1_024


class HeldOut:
    """The loss of a pack on examples that are held out: the same ones, with the same noise, at every line of the log.

    Args:
        pack: The members that train.
        batches: Their batches, whose size and streams are used.
        numbers: The numbers of the held-out examples, in random order.
        steps: The steps of the run; the noise is that of steps behind the last one.
    """

    def __init__(self, pack: Pack, batches: Batches, numbers: Int64[np.ndarray, " n"], steps: int):
        self.pack = pack
        size = min(batches.size, len(numbers), EXAMPLES)
        if size < pack.needs.examples:
            raise UntwineError(
                f"{len(numbers)} examples are held out, but a penalty of this method compares {pack.needs.examples} "
                "or more: hold out a larger share"
            )
        count = min(len(numbers) // size, BATCHES, EXAMPLES // size)
        self.batches = batches.table(torch.from_numpy(numbers[: count * size])).unflatten(0, (count, size))
        self.second = batches.second
        noise = batches.filled(torch.arange(steps, steps + count, device=batches.home))
        self.noise = [{name: values[i][:, :size] for name, values in noise.items()} for i in range(count)]

    def losses(self, weights: Weights, step: int) -> list[float]:
        """The loss of each member, mean over the held-out batches.

        Args:
            weights: The weights of all members.
            step: The step whose weights of the penalties count.
        """
        penalties = tuple(leaf[0] for leaf in self.pack.penalty_weights(np.array([step])))
        total = torch.zeros(len(self.pack), device=self.pack.device)
        for i, noise in enumerate(self.noise):
            second = (self._of_all(i - 1),) if self.second else ()
            total += self.pack.losses(weights, self._of_all(i), penalties, noise, *second)
        return (total / len(self.noise)).tolist()

    def _of_all(self, i: int) -> Tensor:
        """The i-th batch, for every member."""
        return self.batches[i].expand(len(self.pack), *self.batches.shape[1:])
