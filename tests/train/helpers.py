"""Small runs that the tests of training share."""

from __future__ import annotations

from typing import Any

import torch

import untwine as uw
from untwine.train.remarks.progress import Reporter


def tiny(method: Any = None, **changes: Any) -> uw.Run:
    """A run that takes well under a second: vectors, a small tanh network.

    It is smooth: a start that is one ulp away leads to weights that are 2e-7 + 2e-6 |w| away at most.
    """
    settings: dict[str, Any] = {
        "method": method or uw.methods.jl1_vae(beta=0.01, gamma=0.01, anneal=10, likelihood="squared_error"),
        "dataset": uw.datasets.synthetic_nonlinear(samples=300, seed=3),
        "network": uw.networks.mlp(hidden=(12,), activation="tanh"),
        "latents": 3,
        "seeds": [0],
        "steps": 20,
        "batch_size": 16,
        "lr": 1e-3,
        "log_every": 5,
    }
    return uw.Run(**(settings | changes))


class StopAt(Reporter):
    """Fails at a step, as a power cut would."""

    def __init__(self, at: int):
        self.at = at

    def step(self, step: int) -> None:
        if step == self.at:
            raise RuntimeError("the power went")


def weights(ensemble: uw.Ensemble, buffers: bool = False) -> dict[str, torch.Tensor]:
    """All weights of all members, by member and name; if so asked, buffers that a file leaves to the spec too."""
    found = {}
    for i, member in enumerate(ensemble.members):
        model = ensemble.member(i)
        own = model.state_dict() | (dict(model.named_buffers()) if buffers else {})
        found |= {f"{member.name}/{key}": value for key, value in own.items()}
    return found


def same(a: uw.Ensemble, b: uw.Ensemble, buffers: bool = False) -> bool:
    """Bitwise equality of all weights, and of all buffers if so asked."""
    first, second = weights(a, buffers), weights(b, buffers)
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def losses(ensemble: uw.Ensemble, member: str, term: str = "loss") -> list[float]:
    return [entry["members"][member][term] for entry in ensemble.history if member in entry["members"]]
