"""Training in float64, where a test compares numbers after several steps.

Adam divides by the size of a gradient, so a last bit of a small one moves a weight by a visible share of a step; a
threshold such as Ada's turns it into a switched latent. How far that leads depends on the processor. Of float64 the
last bit is 5e8 times smaller: what is left after some steps is far below any change of a formula.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

import untwine as uw


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """Train in float64: tensors are made so by default, and `.float()` means float64."""
    single = torch.Tensor.float
    torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.Tensor.float = single  # type: ignore[method-assign]
        torch.set_default_dtype(torch.float32)


def fit(run: uw.Run, double: bool = True) -> uw.Ensemble:
    """The ensemble of a run trained on the CPU, in float64 or in float32."""
    with double_precision() if double else contextlib.nullcontext():
        return uw.fit(run, device="cpu")
