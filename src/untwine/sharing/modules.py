"""The two halves of a model as plain modules, which take and give examples as a user has them."""

from __future__ import annotations

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untwine.kernels.layers import torch_type
from untwine.model.encoded import DiagonalQ
from untwine.model.info import Info
from untwine.model.vae import VAE


def torch_layers(module: nn.Module) -> nn.Module:
    """A copy of a module whose layers are torch's own, which exporters know; it computes the same."""
    plain = copy.deepcopy(module)
    for layer in plain.modules():
        layer.__class__ = torch_type(layer)
    return plain


class EncoderModule(nn.Module):
    """Examples to the means and log variances of the latents; a deterministic encoder gives the means alone.

    Where a run standardised its images, the module does so itself.
    """

    def __init__(self, model: VAE):
        super().__init__()
        self.standard = Standard(model.info)
        self.encoder, self.posterior = torch_layers(model.encoder), model.posterior_kind
        spread = self.posterior.log_variances(model.info.latents)
        self.has_variance = spread.start < spread.stop

    def forward(self, x: Float[Tensor, "batch ..."]) -> tuple[Tensor, ...]:
        """The posterior's means, and the logarithms of its variances."""
        posterior = self.posterior.build(self.encoder(self.standard(x)))
        if not self.has_variance:
            return (posterior.mean,)
        # The logarithm that the encoder gave has not gone through an exponential, which might underflow.
        diagonal = isinstance(posterior, DiagonalQ)
        return posterior.mean, posterior.log_variance if diagonal else posterior.variance().log()


class DecoderModule(nn.Module):
    """Codes to mean examples, such as images in [0, 1]."""

    def __init__(self, model: VAE):
        super().__init__()
        self.standard = Standard(model.info)
        self.decoder, self.mean = torch_layers(model.decoder), model.likelihood.mean

    def forward(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch ..."]:
        """The mean examples of codes."""
        return self.standard.undone(self.mean(self.decoder(z)))


class Standard(nn.Module):
    """Subtracts the mean of each channel and divides by its deviation, if the run did so; `undone` reverts it."""

    def __init__(self, info: Info):
        super().__init__()
        self.channel_mean: Tensor
        self.deviation: Tensor
        mean, deviation = info.standard or ((0.0,), (1.0,))
        self.used = info.standard is not None
        self.register_buffer("channel_mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("deviation", torch.tensor(deviation)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.channel_mean) / self.deviation if self.used else x

    def undone(self, x: Tensor) -> Tensor:
        """The examples that are standardised to these."""
        return x * self.deviation + self.channel_mean if self.used else x
