"""Mathieu et al. 2019: overlap by beta, structure by a prior and a divergence of the aggregate from it."""

from __future__ import annotations

from typing import Any

from untwine import vocabulary as uw
from untwine.arguments import Number
from untwine.methods.registry import method


@method(
    network={(64, 64): "mathieu_dsprites", (32, 32): "mathieu_fashion", (2,): "mathieu_pinwheel"},
    optimiser="amsgrad",
    lr=5e-4,
    batch_size=500,
    steps=9_600,  # 80 epochs of Fashion-MNIST
    latents=50,
    sampling="epochs",
)
def decomposition_vae(
    alpha: Number = 1000.0,
    beta: Number = 1.0,
    divergence: Any = "mmd(kernel=imq, per_dimension=true)",
    likelihood: Any = "laplace(scale=0.1)",
    prior: Any = "sparse(gamma=0.8, variance=0.05)",
) -> uw.Objective:
    """E[-log p(x|z)] + beta KL(q(z|x) || p(z)) + alpha D(q(z), p(z)) (Mathieu et al. 2019, Eq. 7, as a loss).

    By default it is the sparse model of the paper's Figure 5. Its clusters (Figure 3) are --dataset pinwheel
    --latents 2 --batch-size 400 --lr 1e-3 --prior mixture-of-normals --divergence kl-prior-aggregate
    --likelihood learned-gaussian, where the authors' decoder learns a scale for each point rather than one for all.
    Its heavy tails (Figure 2) are --dataset dsprites --latents 10 --batch-size 64 --steps 230400 --alpha 0
    --likelihood bernoulli --prior student-t. The networks say in what else they differ from the authors' code.

    Args:
        alpha: Weight of the aggregate posterior's divergence from the prior.
        beta: Weight of the KL: the overlap of the encodings.
        divergence: D(q(z), p(z)), as text or as a penalty.
        likelihood: p(x|z), as text or as a part.
        prior: p(z), as text or as a part.
    """
    return uw.Objective(
        likelihood=likelihood,
        posterior=uw.posteriors.diagonal_normal,
        prior=prior,
        penalties={
            "kl": uw.constant(beta) * uw.penalties.kl,
            "divergence": uw.constant(alpha) * divergence,
        },
    )
