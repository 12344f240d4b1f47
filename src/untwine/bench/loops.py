"""Training as plain torch code has it: a model, its loss, backward, torch's Adam. What our steps are measured beside.

Only torch's own layers and functions are used, one seed at a time. The Jacobian is the one of rhodes2021's code: each
image is decoded once for each latent, moved a little, and once where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untwine.data.contract import Dataset
from untwine.kernels.layers import torch_type
from untwine.methods import beta_vae
from untwine.train.run import Run
from untwine.train.steps.pack import build
from untwine.train.steps.table import scaled

BETA, GAMMA, STEP = 4.0, 0.1, 1e-3

# A penalty of the decoder's means at z.
Penalty = Callable[[nn.Module, Tensor], Tensor]


def jacobian_by_differences(decode: nn.Module, z: Tensor) -> Tensor:
    """The L1 norm of the Jacobian by one-sided differences, mean over the batch, with z held fixed.

    Args:
        decode: The decoder, up to the mean.
        z: Where to take it, `[batch, latent]`.

    >>> decode = nn.Linear(2, 3)
    >>> torch.allclose(jacobian_by_differences(decode, torch.zeros(1, 2)), decode.weight.abs().sum(), rtol=1e-2)
    True
    """
    z = z.detach()
    steps = torch.cat([STEP * torch.eye(z.shape[1]), torch.zeros(1, z.shape[1])])
    means = decode((z + steps[:, None]).flatten(0, 1)).unflatten(0, (len(steps), len(z)))  # all in one batch
    return ((means[:-1] - means[-1]) / STEP).abs().sum() / len(z)


# The penalty of each loop; its name is that of the row.
LOOPS: dict[str, Penalty | None] = {
    "plain loop beta_vae": None,
    "plain loop jl1_vae differences": jacobian_by_differences,
}


def loop(dataset: Dataset, penalty: Penalty | None, batch_size: int, latents: int) -> Iterator[None]:
    """Train one seed, a step at a time.

    Args:
        dataset: What to train on.
        penalty: What is added to the loss of a beta-VAE, times `GAMMA`.
        batch_size: Images in a batch.
        latents: Latents.
    """
    run = Run(method=beta_vae(BETA), dataset=dataset, latents=latents)
    model = build(run.members()[0], run.info())
    for layer in model.modules():
        layer.__class__ = torch_type(layer)  # ours may be computed in another way
    images = torch.from_numpy(dataset.examples())
    decode = nn.Sequential(model.decoder, nn.Sigmoid())
    optimiser = torch.optim.Adam([*model.encoder.parameters(), *model.decoder.parameters()], lr=1e-4)
    while True:
        x = scaled(images[torch.randint(len(images), (batch_size,))])
        mean, log_variance = model.encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
        logits = model.decoder(z)
        loss = (F.binary_cross_entropy_with_logits(logits, x, reduction="sum") + BETA * kl) / batch_size
        if penalty is not None:
            loss = loss + GAMMA * penalty(decode, z)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield
