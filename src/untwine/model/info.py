"""What a part may know when it is built."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Info:
    """The size of the latent space, the shape of an example, and the number of training examples."""

    latents: int
    shape: tuple[int, ...]
    data_size: int = 0
