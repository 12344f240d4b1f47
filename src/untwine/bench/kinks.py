"""What kinks of ReLUs add to the gradient of a Jacobian's L1 norm: finite differences against exact columns."""

from __future__ import annotations

import torch
from torch import Tensor

from untwine.bench.devices import describe
from untwine.bench.rows import Row, write_rows
from untwine.errors import UntwineError
from untwine.model.vae import VAE
from untwine.objective import penalties
from untwine.objective.core import Penalty
from untwine.objective.evaluation import at_step, evaluate
from untwine.train.loading import load
from untwine.train.steps.table import constants, scaled

CPU = torch.device("cpu")


def run(folder: str, batches: int = 100, size: int = 16, seed: int = 0, out: str | None = None) -> list[Row]:
    """How far gradients by finite differences are from those of exact columns, for each parameter of a decoder.

    Of the first member of a run, in float64, a row for each parameter and way. Numbers are relative to the norm of the
    mean gradient of exact columns: `mean` is the norm of the mean difference from that gradient (squared without bias,
    from products of different batches), `one_batch` the root mean square of the difference in one batch. Of the exact
    columns themselves, both are of the gradient.

    Such a run: untwine train jl1-vae --dataset three-dots --dataset.examples 20000 --estimator exact --anneal 1500
    --lr 0.001 --steps 5000 --out runs/kinks

    Args:
        folder: The folder of a run, on any dataset.
        batches: How many batches the means are over.
        size: Examples in a batch.
        seed: Seed of the batches and of the noise.
        out: A JSON file to write the rows to, with what they were measured on.
    """
    if batches < 2 or size < 1:
        raise UntwineError("means without bias need two batches or more, of one example or more")
    ensemble = load(folder, "cpu")
    dataset = ensemble.dataset()
    vae = ensemble.member(0).double()
    standard = constants(ensemble.info.standard, CPU)
    ways = {
        "exact": penalties.jacobian(1),
        "finite, 1e-3": penalties.jacobian(1, "finite"),
        "finite, 1e-2": penalties.jacobian(1, "finite", eps=1e-2),
    }
    parameters = {name: value for name, value in vae.named_parameters() if name.startswith("decoder")}
    totals = {way: [torch.zeros_like(value) for value in parameters.values()] for way in ways}
    squares = {way: torch.zeros(len(parameters)).double() for way in ways}
    generator = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        numbers = torch.randint(len(dataset), (size,), generator=generator)
        x = scaled(torch.from_numpy(dataset.batch(numbers.numpy())), standard).double()
        noise = torch.randn(size, ensemble.info.latents, generator=generator).double()
        exact = _gradient(vae, ways["exact"], x, noise, list(parameters.values()))
        for way, penalty in ways.items():
            difference = exact
            if way != "exact":
                gradient = _gradient(vae, penalty, x, noise, list(parameters.values()))
                difference = [a - b for a, b in zip(gradient, exact, strict=True)]
            for i, tensor in enumerate(difference):
                totals[way][i] += tensor
                squares[way][i] += tensor.square().sum()
    rows = []
    for i, name in enumerate(parameters):
        unit = _norm_of_mean(totals["exact"][i], squares["exact"][i], batches)
        for way in ways:
            norms = {
                "mean": _norm_of_mean(totals[way][i], squares[way][i], batches),
                "one_batch": float((squares[way][i] / batches).sqrt()),
            }
            relative = {key: norm / unit if unit > 0 else None for key, norm in norms.items()}
            rows.append({"parameter": name, "way": way, **relative})
    if out is not None:
        write_rows(out, rows, {**describe(CPU), "dataset": dict(dataset.spec), "batches": batches, "size": size})
    return rows


def _gradient(vae: VAE, penalty: Penalty, x: Tensor, noise: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """The gradient of a penalty on a batch."""
    value = evaluate(vae, at_step({"penalty": penalty}, 0), x, {"posterior": noise})["penalty"]
    return list(torch.autograd.grad(value, parameters, allow_unused=True, materialize_grads=True))


def _norm_of_mean(total: Tensor, squares: Tensor, batches: int) -> float:
    """The norm of a mean over batches, from products of different batches alone: noise does not add to it."""
    return float(((total.square().sum() - squares).clamp(min=0) / (batches * (batches - 1))).sqrt())
