"""Where metrics get their arrays from: a pack of models and their data."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from untwine.analysis.gaussian import gaussianised, is_standard_normal
from untwine.data import Dataset
from untwine.metrics.designs import among
from untwine.train.ensemble import Ensemble


class Source:
    """The arguments of metrics, as attributes of the same names, computed on training examples at first use.

    Args:
        ensemble: The models.
        dataset: Their data.
        examples: How many training examples.
        jacobians: At how many of them Jacobians are taken.
        seed: Seed of the choice of examples.
        gaussian: Whether to map codes to a normal by their priors.
    """

    def __init__(
        self, ensemble: Ensemble, dataset: Dataset, examples: int, jacobians: int, seed: int, gaussian: bool = False
    ):
        self.ensemble = ensemble
        self.dataset = dataset
        self.seed = seed
        self.gaussian = gaussian
        self.counts = {"examples": min(examples, len(dataset)), "jacobians": min(jacobians, examples, len(dataset))}

    @property
    def takes_tensors_on(self) -> Any:
        """The device of the models, where images of states may be drawn."""
        return self.ensemble.takes_tensors_on

    def encode(self, x: Any) -> np.ndarray:
        """The codes of images, for all members."""
        codes = self.ensemble.encode(x).numpy()
        if not self.gaussian:
            return codes
        return np.stack([gaussianised(member, prior) for member, prior in zip(codes, self.prior, strict=True)])

    @functools.cached_property
    def images(self) -> np.ndarray:
        """Training examples without repetition: as many as asked for, or all that there are."""
        return self.dataset.batch(np.sort(among(len(self.dataset), self.counts["examples"], self.seed)))

    @functools.cached_property
    def codes(self) -> np.ndarray:
        return self.encode(self.images)

    @functools.cached_property
    def means(self) -> np.ndarray:
        return self.ensemble.encode(self.images).numpy()

    @functools.cached_property
    def variances(self) -> np.ndarray:
        return self.ensemble.variances(self.images).numpy()

    @functools.cached_property
    def kl(self) -> list[np.ndarray] | None:
        """KL(q(z_j | x) || N(0, 1)), mean over examples, of each member's latents; None under any other prior."""
        if not all(is_standard_normal(prior) for prior in self.prior) or not (self.variances > 0).all():
            return None
        return list((0.5 * (self.means**2 + self.variances - np.log(self.variances) - 1)).mean(1))

    @functools.cached_property
    def jacobians(self) -> np.ndarray:
        """Square matrices with the Gram matrices of the Jacobians: `dto` depends on no more, and images are large."""
        import torch

        means = torch.from_numpy(self.means[:, : self.counts["jacobians"]])
        parts = []
        for part in means.split(32, 1):
            tall = self.ensemble.jacobian(part).flatten(3).double().mT  # [members, n, outputs, latent]
            if tall.shape[-2] > tall.shape[-1]:
                tall = torch.linalg.qr(tall, mode="r").R
            parts.append(tall.mT)
        return torch.cat(parts, 1).numpy()

    @functools.cached_property
    def posterior(self) -> list[Any]:
        return self.ensemble.posteriors(self.images)

    @functools.cached_property
    def prior(self) -> list[Any]:
        return self.ensemble.priors()
