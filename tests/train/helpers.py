"""Small runs that the tests of training share."""

from __future__ import annotations

from typing import Any

import torch

import untwine as uw


def tiny(method: Any = None, **changes: Any) -> uw.Run:
    """A run that takes well under a second: vectors, a small tanh network."""
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


def weights(ensemble: uw.Ensemble) -> dict[str, torch.Tensor]:
    """All weights of all members, by member and name."""
    return {
        f"{member.name}/{key}": value
        for i, member in enumerate(ensemble.members)
        for key, value in ensemble.member(i).state_dict().items()
    }


def same(a: uw.Ensemble, b: uw.Ensemble) -> bool:
    """Bitwise equality of all weights."""
    first, second = weights(a), weights(b)
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def losses(ensemble: uw.Ensemble, member: str, term: str = "loss") -> list[float]:
    return [entry["members"][member][term] for entry in ensemble.history if member in entry["members"]]
