"""Models to explore: what a page asks of one member of a run."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Shaped

from untwine.analysis import latent_ranges, usefulness
from untwine.analysis.gaussian import is_standard_normal
from untwine.data import Dataset
from untwine.metrics import active_latents
from untwine.metrics.designs import among
from untwine.scoring.collapse import prior_variances
from untwine.train.ensemble import Ensemble

EXAMPLES = 500  # encoded to find how the data use each latent
COVERAGE = 0.99  # of the aggregate posterior, within a slider's range
DEVIATIONS = 3.0  # of the prior, on both sides of a slider's range where there are no data


@dataclass(frozen=True)
class Latents:
    """How the data use the latents of a model.

    Args:
        ranges: The ends of each latent's slider.
        order: The latents, most useful first.
        use: How useful each latent is: its KL in nats, or the variance of its means.
        measure: What `use` is: "KL", "variance", or "" where there are no data.
        active: Whether each latent is active; None where that is not known.
    """

    ranges: Float64[np.ndarray, "d 2"]
    order: list[int]
    use: list[float] | None
    measure: str
    active: list[bool] | None


class Model:
    """One member of a run, which decodes codes and encodes pictures.

    Args:
        ensemble: The member alone.
        dataset: Its data; None where they cannot be had.
    """

    def __init__(self, ensemble: Ensemble, dataset: Dataset | None):
        self.ensemble, self.dataset = ensemble, dataset

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an example."""
        return self.ensemble.info.shape

    def decode(self, code: list[float]) -> Shaped[np.ndarray, "..."]:
        """The mean picture of a code."""
        return self.ensemble.decode(np.array([code], np.float32))[0, 0].numpy()

    def columns(self, code: list[float]) -> Shaped[np.ndarray, "latents ..."]:
        """The columns of the decoder's Jacobian at a code."""
        return self.ensemble.jacobian(np.array([code], np.float32))[0, 0].numpy()

    def encode(self, example: Shaped[np.ndarray, "..."]) -> list[float]:
        """The posterior mean of an example."""
        return self.ensemble.encode(example[None])[0, 0].tolist()

    def doubt(self, example: Shaped[np.ndarray, "..."]) -> str:
        """A warning where a picture is unlike those that the model was trained on; empty where it is not.

        It is where its reconstruction errs more than that of any of the examples.
        """
        if self.dataset is None:
            return ""
        error = float(self._errors(example[None])[0])
        worst = self._worst
        if error <= worst:
            return ""
        times = f"{error / worst:.1f} times as much" if worst > 0 else "more"
        return (
            f"The model never saw such a picture: its reconstruction errs {times} as that of any of "
            f"{len(self._examples)} examples of the data, so its code may mean nothing."
        )

    @functools.cached_property
    def _worst(self) -> float:
        """The largest error of a reconstruction among the examples."""
        return float(self._errors(self._examples).max())

    def _errors(self, examples: Shaped[np.ndarray, "n ..."]) -> Float64[np.ndarray, " n"]:
        """The mean squared error of each reconstruction, with values in [0, 1]."""
        scale = 255.0 if examples.dtype == np.uint8 else 1.0
        means = self.ensemble.reconstruct(examples)[0].double().numpy()
        return ((means - examples.astype(np.float64) / scale) ** 2).reshape(len(examples), -1).mean(1)

    @functools.cached_property
    def scale(self) -> float:
        """The largest magnitude in the data, by which pictures of vectors are scaled."""
        if self.dataset is None or len(self.shape) == 3:
            return 1.0
        return float(np.abs(self._examples).max()) or 1.0

    @functools.cached_property
    def _examples(self) -> Shaped[np.ndarray, "n ..."]:
        assert self.dataset is not None
        return self.dataset.batch(np.sort(among(len(self.dataset), EXAMPLES, seed=0, purpose="explore")))

    @functools.cached_property
    def latents(self) -> Latents:
        """How the data use the latents; without data their ranges are those of the prior."""
        scale, count = prior_variances(self.ensemble.priors()[0]), self.ensemble.info.latents
        if self.dataset is None:
            half = DEVIATIONS * np.sqrt(np.where(np.isfinite(scale), scale, 1.0)) * np.ones(count)
            return Latents(np.stack([-half, half], -1), list(range(count)), None, "", None)
        means = self.ensemble.encode(self._examples)[0].double().numpy()
        variances = self.ensemble.variances(self._examples)[0].double().numpy()
        is_normal = bool((variances > 0).all()) and is_standard_normal(self.ensemble.priors()[0])
        order, use = usefulness(means, variances if is_normal else None)
        active = None
        if (variances > 0).all() and np.isfinite(scale).all():
            active = np.isin(np.arange(means.shape[-1]), active_latents(variances / scale)).tolist()
            order = np.array(sorted(order.tolist(), key=lambda latent: not active[latent]))
        ranges = _wide(latent_ranges(means, variances, COVERAGE))
        return Latents(ranges, order.tolist(), use.tolist(), "KL" if is_normal else "variance", active)


def _wide(ranges: Float64[np.ndarray, "d 2"]) -> Float64[np.ndarray, "d 2"]:
    """Ranges of which none is a point: a constant code would have a slider that cannot move."""
    low, high = ranges.T
    narrow = high - low < 1e-3 * np.maximum(1, np.abs(low))
    return np.stack([np.where(narrow, low - 1, low), np.where(narrow, high + 1, high)], -1)
