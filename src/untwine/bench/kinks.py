"""What kinks of ReLUs add to the gradient of a Jacobian's L1 norm: finite differences against exact columns.

    untwine train jl1-vae --dataset three-dots --dataset.examples 20000 --columns 1 --anneal 1500 \
        --lr 0.001 --steps 5000 --seeds 0 --out runs/kinks
    python bench/kinks.py runs/kinks --batches 100

For each parameter of the decoder, relative to the norm of the mean gradient of exact columns: the norm of the mean of
what another way has more (squared without bias, from products of different batches), and its norm in one batch.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from torch import Tensor

import untwine as uw
from untwine.objective.core import Penalty
from untwine.objective.evaluation import at_step, evaluate

WAYS = {
    "exact": uw.penalties.jacobian(1),
    "finite, 1e-3": uw.penalties.jacobian(1, "finite"),
    "finite, 1e-2": uw.penalties.jacobian(1, "finite", eps=1e-2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the folder of a run")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--size", type=int, default=16, help="of a batch")
    given = parser.parse_args()
    ensemble = uw.load(given.run)
    vae = ensemble.member(0).double()
    images = torch.from_numpy(np.asarray(uw.datasets.three_dots(examples=20_000).examples()))
    parameters = {name: value for name, value in vae.named_parameters() if name.startswith("decoder")}

    def gradient(penalty: Penalty, x: Tensor, noise: Tensor) -> list[Tensor]:
        value = evaluate(vae, at_step({"p": penalty}, 0), x, {"posterior": noise})["p"]
        return list(torch.autograd.grad(value, list(parameters.values()), allow_unused=True, materialize_grads=True))

    totals = {way: [torch.zeros_like(p) for p in parameters.values()] for way in WAYS}
    squares = {way: torch.zeros(len(parameters)).double() for way in WAYS}
    generator = torch.Generator().manual_seed(0)
    for _ in range(given.batches):
        chosen = images[torch.randint(len(images), (given.size,), generator=generator)]
        x = chosen.double().reshape(given.size, *ensemble.info.shape) / 255
        noise = torch.randn(given.size, ensemble.info.latents, generator=generator).double()
        exact = gradient(WAYS["exact"], x, noise)
        for way, penalty in WAYS.items():
            more = exact if way == "exact" else [a - b for a, b in zip(gradient(penalty, x, noise), exact, strict=True)]
            for i, one in enumerate(more):
                totals[way][i] += one
                squares[way][i] += one.square().sum()
    count = given.batches
    means = {
        way: (torch.stack([one.square().sum() for one in totals[way]]) - squares[way]).clamp(min=0)
        / count
        / (count - 1)
        for way in WAYS
    }
    print(f"{'':24}" + "".join(f"{way:>24}" for way in WAYS))
    for i, name in enumerate(parameters):
        unit = means["exact"][i].sqrt()
        cells = (f"{means[way][i].sqrt() / unit:.3f} ({(squares[way][i] / count).sqrt() / unit:.2f})" for way in WAYS)
        print(f"{name:24}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
