"""Our optimisers on stacked parameters against torch's own, member by member."""

import numpy as np
import pytest
import torch

from untwine.errors import UntwineError
from untwine.train.steps.optimisers import make, optimisers

CASES = {
    "adam": lambda p, lr: torch.optim.Adam([p], lr),
    "amsgrad": lambda p, lr: torch.optim.Adam([p], lr, amsgrad=True),
    "adagrad": lambda p, lr: torch.optim.Adagrad([p], lr),
}


def test_no_optimiser_is_missing() -> None:
    assert set(CASES) == set(optimisers.names())


@pytest.mark.parametrize("name", CASES)
def test_against_torch(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, 7, generator=generator, dtype=torch.float64)
    scales = 10.0 ** torch.linspace(-3, 2, 7, dtype=torch.float64)
    rates = torch.tensor([1e-3, 1e-2, 0.1], dtype=torch.float64)
    noise = torch.randn(30, 7, generator=generator, dtype=torch.float64)

    ours, optimiser = start.clone(), optimisers[name]()
    state, corrections = optimiser.start(ours), torch.from_numpy(optimiser.corrections(np.arange(1.0, 31.0)))
    for t in range(30):
        ours, state = optimiser.update(ours, scales * ours + noise[t], state, rates, corrections[t])

    for i, lr in enumerate(rates.tolist()):
        theirs = start[i].clone().requires_grad_()
        reference = CASES[name](theirs, lr)
        for t in range(30):
            theirs.grad = (scales * theirs + noise[t]).detach()
            reference.step()
        torch.testing.assert_close(ours[i], theirs.detach(), rtol=1e-10, atol=1e-12)
    assert not torch.allclose(ours, start)


@pytest.mark.parametrize("name", ["adam", "amsgrad", "adagrad"])
@pytest.mark.parametrize("eps", [0.0, 1e-46, -1e-8, float("nan")])
def test_eps_is_positive(name: str, eps: float) -> None:
    with pytest.raises(UntwineError, match="must be positive"):
        make({"name": name, "eps": eps})


@pytest.mark.parametrize("betas", [{"beta1": 1.0}, {"beta2": 1.0}, {"beta2": -0.1}])
def test_means_forget(betas: dict[str, float]) -> None:
    with pytest.raises(UntwineError, match="from 0 to less than 1"):
        make({"name": "adam", **betas})
