"""The arrays behind pictures of trained models: codes, traversals, reconstructions, columns, information."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int64

from untwine.analysis import jacobian_columns, latent_ranges, traverse, usefulness
from untwine.data import Dataset
from untwine.metrics.designs import among
from untwine.metrics.families.information import mutual_information
from untwine.model.posteriors import Q
from untwine.train.ensemble import Ensemble
from untwine.train.member import Member

EXAMPLES = 5_000  # on which latents are measured
MOST_BYTES = 2**28  # of examples: of large images there are fewer
FEWEST = 20  # examples from which on there is mutual information (as many as there are bins)


class Looks:
    """Some models of one run, and what they make of the run's data. Everything is computed at first use.

    Args:
        ensemble: The models of a run.
        dataset: Their data.
        members: The places of the models in the ensemble.
        shown: The number of examples that are shown.
        seed: The seed of the choice of examples.
    """

    def __init__(self, ensemble: Ensemble, dataset: Dataset, members: Sequence[int], shown: int = 8, seed: int = 0):
        models = [ensemble.member(i) for i in members]
        self.ensemble = Ensemble([ensemble.members[i] for i in members], models, ensemble.device)
        self.dataset = dataset
        self.seeds = [_seed(member) for member in self.ensemble.members]
        self.names = [member.name for member in self.ensemble.members]
        count = max(shown, min(EXAMPLES, MOST_BYTES // (math.prod(dataset.shape) * dataset.dtype.itemsize)))
        self.indices = among(len(dataset), count, seed, purpose="examples of pictures")
        self.shown = min(shown, len(self.indices))

    @property
    def has_images(self) -> bool:
        """Whether examples are images, of one channel or three, and so can be shown."""
        return len(self.dataset.shape) == 3 and self.dataset.shape[0] in (1, 3)

    # --- codes -------------------------------------------------------------------------------------

    @functools.cached_property
    def examples(self) -> np.ndarray:
        """Examples `[n, *shape]`."""
        return self.dataset.batch(self.indices)

    @functools.cached_property
    def _posteriors(self) -> list[Q]:
        return self.ensemble.posteriors(self.examples)

    @functools.cached_property
    def means(self) -> Float[np.ndarray, "members n d"]:
        """The codes of the examples."""
        return np.stack([q.mean.numpy() for q in self._posteriors])

    @functools.cached_property
    def variances(self) -> Float[np.ndarray, "members n d"]:
        """The posterior variances of the examples."""
        return np.stack([q.variance().numpy() for q in self._posteriors])

    @functools.cached_property
    def useful(self) -> tuple[Int64[np.ndarray, "members d"], Float64[np.ndarray, "members d"]]:
        """The latents of each model, most useful first, and how useful each latent is (`analysis.usefulness`)."""
        return usefulness(self.means, None if self.deterministic else self.variances)

    @property
    def deterministic(self) -> bool:
        """Whether posteriors are points, so that usefulness is the variance of codes, not a KL in nats."""
        return not (self.variances > 0).all()

    @functools.cached_property
    def ranges(self) -> Float64[np.ndarray, "members d 2"]:
        """The range of each latent that holds 95 percent of its aggregate posterior."""
        return latent_ranges(self.means, self.variances)

    # --- pictures ----------------------------------------------------------------------------------

    @functools.cached_property
    def images(self) -> Float64[np.ndarray, "shown channels y x"]:
        """The examples that are shown, in [0, 1]."""
        return self.examples[: self.shown] / 255

    @functools.cached_property
    def reconstructions(self) -> Float[np.ndarray, "members shown channels y x"]:
        """The decoded codes of the examples that are shown."""
        return self.ensemble.decode(self.means[:, : self.shown]).numpy()

    def traversals(
        self, example: int, steps: int, count: int
    ) -> Float[np.ndarray, "members latents steps channels y x"]:
        """Images along the most useful latents of each model, through the code of an example.

        Args:
            example: One of the examples that are shown.
            steps: Images along a latent.
            count: The most latents.
        """
        latents = self.useful[0][:, :count]
        return traverse(self.ensemble.decode, self.means[:, example], self.ranges, steps, latents)

    def columns(self, example: int, count: int) -> Any:
        """The largest columns of each model's Jacobian at the code of an example (`analysis.jacobian_columns`).

        Args:
            example: One of the examples that are shown.
            count: The most columns.
        """
        jacobians = self.ensemble.jacobian(self.means[:, example : example + 1]).numpy()[:, 0]
        return jacobian_columns(jacobians, min(count, jacobians.shape[1]))

    # --- factors -----------------------------------------------------------------------------------

    @functools.cached_property
    def factors(self) -> Int64[np.ndarray, "n k"] | None:
        """The factors of the examples; None where the data has none, or there are too few examples to compare."""
        if self.dataset.factors is None or len(self.indices) < FEWEST:
            return None
        return self.dataset.factors_of(self.indices)

    @functools.cached_property
    def information(self) -> tuple[Float64[np.ndarray, "members d k"], list[str]] | None:
        """I(latent; factor) / H(factor), latents by usefulness, and the names of the factors that vary."""
        space, factors = self.dataset.factors, self.factors
        if space is None or factors is None:
            return None
        varying = [column for column in range(factors.shape[1]) if np.ptp(factors[:, column])]
        if not varying:
            return None
        shares = []
        for codes, order in zip(self.means.astype(np.float64), self.useful[0], strict=True):
            nats, entropies = mutual_information(codes, factors[:, varying])
            shares.append((nats / entropies)[order])
        return np.stack(shares), [space.names[column] for column in varying]


def _seed(member: Member) -> str:
    """A member among those of equal hyperparameters, in words."""
    apart = "" if member.data_seed == member.seed else f", data seed {member.data_seed}"
    return f"seed {member.seed}{apart}"
