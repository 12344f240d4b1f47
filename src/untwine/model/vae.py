"""The VAE: a plain module made of an encoder, a decoder, a likelihood, a posterior and a prior."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untwine.errors import UntwineError
from untwine.model.building import modules
from untwine.model.given import Prior
from untwine.model.info import Info
from untwine.model.jacobian import jacobian
from untwine.model.likelihoods import Likelihood
from untwine.model.networks import Network
from untwine.model.networks.initial import initialise
from untwine.model.passes import applied
from untwine.model.posteriors import Posterior, Q


class VAE(nn.Module):
    """One model. `encode` gives the posterior means, `decode` the mean image, `jacobian` its columns."""

    def __init__(self, info: Info, network: Network, likelihood: Likelihood, posterior: Posterior, prior: Prior):
        super().__init__()
        self.info = info
        self.posterior_kind = posterior
        self.encoder, self.decoder = modules(network, info, posterior.width(info.latents))
        self.likelihood = likelihood.build(info)
        self.prior = prior.build(info)
        self.adversaries = nn.ModuleDict()  # models that play against a penalty in training
        refuse_state(self)

    def posterior(self, x: Float[Tensor, "batch ..."]) -> Q:
        """q(z | x)."""
        return self.posterior_kind.build(applied(self.encoder, x))

    def encode(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch latent"]:
        """The posterior means: the representation."""
        return self.posterior(x).mean

    def decode(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch ..."]:
        """The mean image g(z)."""
        return self.likelihood.mean(applied(self.decoder, z))

    def jacobian(self, z: Float[Tensor, "batch latent"], estimator: str = "exact") -> Float[Tensor, "batch latent ..."]:
        """The Jacobian of `decode`: `[batch, latent, *pixels]`.

        Args:
            z: Where to take it.
            estimator: "exact", "finite" for one-sided differences, or "central" for central ones.
        """
        return jacobian(nn.Sequential(self.decoder, self.likelihood.mean), z, estimator)

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """The reconstruction from the posterior mean."""
        return self.decode(self.encode(x))


def refuse_state(model: nn.Module) -> None:
    """Refuse layers whose output depends on anything but their input and weights."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats:
            raise UntwineError(
                f"{type(module).__name__} keeps running statistics, which a pack of members cannot share; "
                "use GroupNorm instead"
            )
        if isinstance(module, nn.modules.dropout._DropoutNd | nn.RReLU):
            raise UntwineError(
                f"{type(module).__name__} draws from a global generator: a member would depend on its company; "
                "leave it out"
            )


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A context in which torch's generator depends on the seed alone, since a user's layers may draw when built."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def create(
    info: Info, network: Network, likelihood: Likelihood, posterior: Posterior, prior: Prior, seed: int = 0
) -> VAE:
    """A VAE with the initial parameters of a seed.

    Args:
        info: The number of latents and the shape of an example.
        network: What builds its encoder and decoder.
        likelihood: Its likelihood p(x | z).
        posterior: Its family of posteriors q(z | x).
        prior: Its prior p(z).
        seed: The seed of its parameters.

    >>> from untwine.model import likelihoods, networks, posteriors, priors
    >>> info = Info(latents=2, shape=(3,))
    >>> parts = likelihoods.squared_error, posteriors.diagonal_normal, priors.standard_normal
    >>> create(info, networks.mlp(hidden=(8,)), *parts).encode(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """
    with seeded(seed):
        vae = VAE(info, network, likelihood, posterior, prior)
    initialise(vae, seed, network.scheme)
    if network.log_variance is not None:
        head = [layer for layer in vae.encoder.modules() if isinstance(layer, nn.Linear)]
        with torch.no_grad():
            if head and head[-1].bias is not None:
                head[-1].bias[posterior.log_variances(info.latents)] = network.log_variance
    return vae
