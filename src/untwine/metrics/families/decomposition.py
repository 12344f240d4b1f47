"""The overlap of encodings and how they fill the prior, with the aggregate posterior of all data (mathieu2019).

The aggregate posterior is q(z) = (1/n) sum_j q(z|x_j) over all n examples, at samples z of the posteriors. Penalties
have only a batch to estimate it from: `estimator_bias` shows what that costs them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from untwine.checks import whole
from untwine.metrics.families.aggregate import (
    check_posterior,
    dtype,
    log_aggregate,
    log_marginals,
    log_prob,
    mapped,
    rows,
    sampled,
)
from untwine.metrics.score import Outcome, metric

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributions import Distribution

    from untwine.model.posteriors import Q

POINTS = 10_000


def _one_latent(details: Mapping[str, Any], posterior: Any, prior: Any) -> str | None:
    return "there is only one latent" if posterior.mean.shape[-1] == 1 else None


@metric(
    parts=("kl", "kl_aggregate_prior", "total_correlation", "dimension_wise_kl"),
    forced={"total_correlation": _one_latent},
)
def decomposition(posterior: Any, prior: Any, draws: int = 1, points: int | None = None, seed: int = 0) -> Outcome:
    """Overlap as mutual information, I(x; z) = E KL(q(z|x) || p) - KL(q(z) || p), in nats, from all of the data.

    mathieu2019, sections 3 and 7. `posterior` is a `Q` of all examples, `prior` a torch distribution over the latents
    (lists of them for a pack: `ensemble.posteriors(x)`, `ensemble.priors()`). Posteriors that are all the same have
    I = 0, those that nowhere overlap log n. KL = I + total correlation + dimension-wise KL where the prior is a
    product over latents: all are means over the same samples, so that holds to rounding. `standard_errors` in the
    details count the spread between examples too, and so are upper bounds; `closed_kl` is the KL without samples,
    where it has a closed form.

    Args:
        posterior: The posteriors of all examples.
        prior: A torch distribution over the latents.
        draws: How many samples of each posterior.
        points: How many examples, chosen at random, are sampled; None samples all, but at most 10,000. The aggregate
            posterior is over all examples in any case.
        seed: Seed of the samples, and of the choice of examples.

    >>> import torch
    >>> from untwine.model.posteriors import DiagonalQ
    >>> prior = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 1)
    >>> apart = DiagonalQ(torch.tensor([[9.0, 0.0], [-9.0, 0.0]]), torch.zeros(2, 2))
    >>> bool(abs(float(decomposition(apart, prior)) - math.log(2)) < 1e-9)
    True
    """
    import torch

    from untwine import streams

    check_posterior(posterior, prior)
    n, latents = posterior.mean.shape
    size = min(n, POINTS) if points is None else points
    whole("draws", draws, 1)
    whole("points", size, 2, n, " (the examples)")
    seeds = torch.tensor([seed], device=posterior.mean.device)
    with torch.no_grad():
        q = mapped(posterior, lambda tensor: tensor.double())
        own = q if size == n else rows(q, streams.permutation(seeds, "decomposition/examples", 0, n)[0, :size])
        # For each example log q(z|x), log q(z), sum_k log q(z_k) and log p(z), and log q(z_k) - log p(z_k).
        logs, by_latent = own.mean.new_zeros(4, size), own.mean.new_zeros(size, latents)
        known = False
        for sample in range(draws):
            z = sampled(own, seeds, "decomposition", sample)
            joint, marginals = log_aggregate(q, z)
            logs += torch.stack((own.log_prob(z), joint, marginals.sum(1), log_prob(prior, z))) / draws
            of_prior = log_marginals(prior, z.to(dtype(prior)))
            if known := of_prior is not None:
                by_latent += (marginals - of_prior) / draws
        closed = mapped(q, lambda tensor: tensor.to(dtype(prior))).closed_kl(prior)
    conditional, aggregate, product, of_prior = logs
    terms = {
        "mutual_information": _mean(conditional - aggregate),
        "kl": _mean(conditional - of_prior),
        "kl_aggregate_prior": _mean(aggregate - of_prior),
        "total_correlation": _mean(aggregate - product),
        "dimension_wise_kl": _mean(by_latent.sum(1)) if known else (None, None),
    }
    return terms["mutual_information"][0], {
        **{name: value for name, (value, _) in terms.items() if name != "mutual_information"},
        "dimension_wise_kl_by_latent": by_latent.mean(0).cpu().numpy() if known else None,
        "standard_errors": {name: error for name, (_, error) in terms.items()},
        "closed_kl": None if closed is None else float(closed.double().mean()),
        "undefined": {} if known else {"dimension_wise_kl": f"the marginals of {prior!r} are not known"},
        "settings": {"points": size, "examples": n},
    }


def estimator_bias(
    posterior: Q,
    prior: Distribution,
    batch_sizes: Sequence[int] = (16, 64, 256, 1024),
    repeats: int = 20,
    seed: int = 0,
) -> dict[str, Any]:
    """By how much the penalties' estimates from batches err, for each batch size (mathieu2019, section 5).

    The penalties are those of `objective.aggregate`. In each batch an estimate is compared with the same quantity at
    the same samples, but with the aggregate posterior of all data: `bias` has the mean differences, and their
    standard errors, by penalty; `truth` the quantities themselves.

    Args:
        posterior: The posteriors of all examples.
        prior: A torch distribution over the latents.
        batch_sizes: Sizes of batches.
        repeats: Batches of each size.
        seed: Seed of the batches and of the samples.

    >>> import torch
    >>> from untwine.model.posteriors import DiagonalQ
    >>> prior = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(1), torch.ones(1)), 1)
    >>> apart = DiagonalQ(9.0 * torch.arange(8.0)[:, None], torch.zeros(8, 1))
    >>> bias = estimator_bias(apart, prior, batch_sizes=(2, 8), repeats=3)["bias"]
    >>> [round(error, 3) for error in bias["kl_aggregate_prior(mixture)"]["mean"]]  # log(8 / 2), and none
    [1.386, 0.0]
    """
    import torch

    from untwine.objective.aggregate import kl_aggregate_prior, kl_prior_aggregate, total_correlation

    check_posterior(posterior, prior)
    n, latents = posterior.mean.shape
    whole("repeats", repeats, 2)
    for size in batch_sizes:
        whole("a batch size", size, 2, n, " (the examples)")
    penalties = {
        "total_correlation(weighted)": total_correlation("weighted"),
        "total_correlation(stratified)": total_correlation("stratified"),
        "kl_aggregate_prior(mixture)": kl_aggregate_prior("mixture"),
        "kl_aggregate_prior(stratified)": kl_aggregate_prior("stratified"),
        "kl_prior_aggregate": kl_prior_aggregate,
    }
    bias: dict[str, dict[str, list[float]]] = {name: {"mean": [], "error": []} for name in penalties}
    truths: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        for size in batch_sizes:
            differences: dict[str, list[float]] = {name: [] for name in penalties}
            for step in range(repeats):
                passed, exact = _batch(posterior, prior, size, seed, step)
                for name, penalty in penalties.items():
                    truth = exact[name.partition("(")[0]]
                    differences[name].append(float(penalty.term.value(passed)) - float(truth.mean()))
                for name, values in exact.items():
                    truths.setdefault(name, []).append(values)
            for name, values in differences.items():
                mean, error = _mean(torch.tensor(values, dtype=torch.float64))
                bias[name]["mean"].append(mean)
                bias[name]["error"].append(error)
    return {
        "batch_sizes": list(batch_sizes),
        "bias": bias,
        "truth": {name: dict(zip(("mean", "error"), _mean(torch.cat(v)), strict=True)) for name, v in truths.items()},
        "settings": {"examples": n, "latents": latents, "repeats": repeats, "seed": seed},
    }


def _batch(posterior: Q, prior: Distribution, size: int, seed: int, step: int) -> tuple[Any, dict[str, Tensor]]:
    """A random batch as a pass, and at its samples the integrands that the penalties estimate, from all of the data."""
    import torch

    from untwine import streams
    from untwine.model.draws import draw, width
    from untwine.objective.terms import Pass

    q = mapped(posterior, lambda tensor: tensor.double())
    n, purpose = len(q.mean), f"estimator_bias/{size}"
    seeds = torch.tensor([seed], device=posterior.mean.device)
    steps = torch.tensor([step], device=seeds.device)
    chosen = streams.permutation(seeds, f"{purpose}/examples", step, n)[0, :size]
    own = rows(q, chosen)
    z = sampled(own, seeds, purpose, step)
    uniforms = streams.uniform(seeds, f"{purpose}/prior", steps, size * width(prior))[0, 0]
    from_prior = draw(prior, uniforms.view(size, -1).to(dtype(prior))).double()
    # A pass with what these penalties look at, and nothing else: neither examples nor a model. They all ask for the
    # same densities, which are computed once.
    densities = SimpleNamespace(log_matrix=cache(own.log_matrix), log_marginals=cache(own.log_marginals))
    of_prior = SimpleNamespace(log_prob=lambda z: log_prob(prior, z))
    passed = object.__new__(Pass)
    vars(passed).update(q=densities, prior=of_prior, z=z, data_size=n, prior_sample=from_prior)
    joint, marginals = log_aggregate(q, z)
    at_prior, _ = log_aggregate(q, from_prior, marginals=False)
    return passed, {
        "total_correlation": joint - marginals.sum(1),
        "kl_aggregate_prior": joint - log_prob(prior, z),
        "kl_prior_aggregate": log_prob(prior, from_prior) - at_prior,
    }


def _mean(values: Tensor) -> tuple[float, float]:
    """The mean and its standard error."""
    return float(values.mean()), float(values.std()) / math.sqrt(len(values))
