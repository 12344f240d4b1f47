"""The memory that training takes at least, estimated before any of it is taken."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from untwine.errors import UntwineError
from untwine.model.building import is_ours, parameters
from untwine.progress import amount
from untwine.room import free_memory
from untwine.train.member import Member
from untwine.train.run import Run

_COPIES = 4  # of the weights: those themselves, their gradients, and two moments of the optimiser


def refuse_larger(run: Run, members: Sequence[Member], device: torch.device) -> None:
    """Refuse a run that cannot fit into the memory of a device.

    Args:
        run: The run.
        members: Those of its members that train at once.
        device: Where they train.
    """
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_memory()
    if free is None:
        return
    info, outputs = run.info(), run.method.posterior.width(run.latents)
    batch = min(run.batch_size, len(run.make_dataset())) if run.sampling == "epochs" else run.batch_size
    example = 4 * math.prod(info.shape)
    models, examples = len(members), f"a batch of {batch:,} examples"
    each = f"{models} models" if models > 1 else "the model"
    parts = {
        f"{amount(example)} for one example": (example, "take smaller examples"),
        f"the weights of {each}": (
            _COPIES * models * 4 * parameters(run.network, info, outputs),
            "take fewer latents, smaller layers, or fewer models at once (pack_size)",
        ),
        f"{examples} for {each}": (batch * (models * example + _between(run)), "take a smaller batch (batch_size)"),
    }
    needed = sum(count for count, _ in parts.values())
    if needed > free:
        what = max(parts, key=lambda part: parts[part][0])
        raise UntwineError(
            f"this run would need at least {amount(needed)} of memory, and {amount(free)} are free; "
            f"most of it for {what}: {parts[what][1]}"
        )


def _between(run: Run) -> int:
    """The bytes of what one example becomes on its way through the layers of our networks, which gradients need."""
    if not is_ours(run.network):
        return 0
    count = 0

    def add(module: nn.Module, given: object, output: object) -> None:
        nonlocal count
        if isinstance(output, Tensor) and not list(module.children()):
            count += output.numel()

    info = run.info()
    with torch.device("meta"), torch.no_grad():
        halves = run.network.build(info, run.method.posterior.width(info.latents))
        for half, shape in zip(halves, ((1, *info.shape), (1, info.latents)), strict=True):
            for module in half.modules():
                module.register_forward_hook(add)
            half(torch.empty(shape))
    return 4 * count
