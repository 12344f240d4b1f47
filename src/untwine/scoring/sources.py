"""What metrics take, by the names of their arguments, of a pack of models and their data."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from untwine.analysis.gaussian import gaussianised, is_standard_normal
from untwine.data import Dataset
from untwine.errors import UntwineError
from untwine.metrics.designs import among
from untwine.train.ensemble import Ensemble


class Source:
    """Arrays and objects of an ensemble on a dataset's training examples, made when they are asked for.

    `examples` and `jacobians` are how many examples; `gaussian` maps codes to a normal by their priors.
    """

    def __init__(
        self, ensemble: Ensemble, dataset: Dataset, examples: int, jacobians: int, seed: int, gaussian: bool = False
    ):
        for name, count in (("examples", examples), ("jacobians", jacobians)):
            if count < 2:
                raise UntwineError(f"{name} must be 2 or more, not {count}")
        self.ensemble, self.dataset, self.seed, self.gaussian = ensemble, dataset, seed, gaussian
        self.counts = {"examples": min(examples, len(dataset)), "jacobians": min(jacobians, examples, len(dataset))}

    @property
    def takes_tensors_on(self) -> Any:
        """Where the models are: images of states may be drawn there."""
        return self.ensemble.takes_tensors_on

    def encode(self, x: Any) -> np.ndarray:
        codes = self.ensemble.encode(x).numpy()
        if not self.gaussian:
            return codes
        return np.stack([gaussianised(own, prior) for own, prior in zip(codes, self.prior, strict=True)])

    @functools.cached_property
    def images(self) -> np.ndarray:
        """Training examples, without repetition: all of them where there are no more than asked for."""
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
        """Square matrices with the Gram matrices of the Jacobians: `dto` sees nothing else, and images are large."""
        import torch

        means = torch.from_numpy(self.means[:, : self.counts["jacobians"]])
        parts = []
        for some in means.split(32, 1):
            tall = self.ensemble.jacobian(some).flatten(3).double().mT  # [members, n, outputs, latent]
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
