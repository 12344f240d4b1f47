"""Likelihoods p(x|z): what a decoder's output says about an example. Nats, summed over its elements."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from untwine.arguments import EachNonNegative, EachPositive
from untwine.errors import UntwineError
from untwine.model.blur import Blur, Kernel
from untwine.model.info import Info
from untwine.namespace import directory
from untwine.parts import Part, part
from untwine.quantities import between


def _total(values: Tensor) -> Tensor:
    return values.flatten(1).sum(1)


class LikelihoodModule(nn.Module):
    """A likelihood's module: `loss` in nats for each example; `mean` is a layer on the decoder's output."""

    mean: nn.Module

    def loss(self, out: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        """The loss of the decoder's output."""
        return self.loss_of_mean(self.mean(out), x)

    def loss_of_mean(self, mean: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        """The loss of the mean of the likelihood."""
        raise NotImplementedError


class Likelihood(Part, kind="likelihood"):
    """A likelihood as a method names it; `build` makes its module. `domain` is the range of data that it is for."""

    domain = (-math.inf, math.inf)

    def build(self, info: Info) -> LikelihoodModule:
        """The module of the likelihood."""
        raise NotImplementedError


class _Bernoulli(LikelihoodModule):
    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Sigmoid()

    def loss(self, out: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        return _total(F.binary_cross_entropy_with_logits(out, x, reduction="none"))

    def loss_of_mean(self, mean: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        mean = mean.clamp(1e-6, 1 - 1e-6)
        return -_total(x * mean.log() + (1 - x) * (-mean).log1p())


@part
class Bernoulli(Likelihood):
    """Binary cross-entropy on logits; the mean is their sigmoid. Images in [0, 1]."""

    domain = (0, 1)

    def build(self, info: Info) -> LikelihoodModule:
        return _Bernoulli()


class _SquaredError(LikelihoodModule):
    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Identity()

    def loss_of_mean(self, mean: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        return _total((x - mean).square())


@part
class SquaredError(Likelihood):
    """Sum of squares, rolinek2019 Eq. 11: a normal with variance 1/2, up to (N / 2) log pi."""

    def build(self, info: Info) -> LikelihoodModule:
        return _SquaredError()


class _Scaled(LikelihoodModule):
    """A location-scale family around the output. The scale is fixed, or learned through its logarithm."""

    def __init__(self, scale: float, learned: bool) -> None:
        super().__init__()
        self.mean = nn.Identity()
        log_scale = torch.tensor(math.log(scale))
        if learned:
            self.log_scale = nn.Parameter(log_scale)
        else:
            self.register_buffer("log_scale", log_scale, persistent=False)


class _Gaussian(_Scaled):
    def loss_of_mean(self, mean: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        standardised = (x - mean) * (-self.log_scale).exp()
        return _total(0.5 * standardised.square() + self.log_scale + 0.5 * math.log(2 * math.pi))


class _Laplace(_Scaled):
    def loss_of_mean(self, mean: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        return _total((x - mean).abs() * (-self.log_scale).exp() + self.log_scale + math.log(2.0))


@part
class Gaussian(Likelihood):
    """-log N(x; out, scale^2); `learned=True` trains the scale from that start."""

    scale: EachPositive = 1.0
    learned: bool = False

    def build(self, info: Info) -> LikelihoodModule:
        assert isinstance(self.scale, float)
        return _Gaussian(self.scale, self.learned)


@part
class Laplace(Likelihood):
    """-log Laplace(x; out, scale)."""

    scale: EachPositive = 1.0

    def build(self, info: Info) -> LikelihoodModule:
        assert isinstance(self.scale, float)
        return _Laplace(self.scale, learned=False)


class _Overlap(LikelihoodModule):
    weight: Tensor

    def __init__(self, inner: LikelihoodModule, blur: Blur, weight: float) -> None:
        super().__init__()
        self.inner = inner
        self.mean = inner.mean
        self.blur = blur
        self.register_buffer("weight", torch.tensor(weight), persistent=False)  # members may differ in it

    def loss(self, out: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        return self.inner.loss(out, x) + self._blurred(self.mean(out), x)

    def loss_of_mean(self, mean: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        return self.inner.loss_of_mean(mean, x) + self._blurred(mean, x)

    def _blurred(self, mean: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        return self.weight * self.inner.loss_of_mean(self.blur(mean), self.blur(x))


@part
class Overlap(Likelihood):
    """L(x, mean) + weight L(blur(x), blur(mean)): images that share no pixel still overlap (michlo2023, Eq. 11).

    Each channel is blurred by a kernel that sums to 1, with zeros around the image.

    Args:
        likelihood: L, by name or as a part; a learned scale is shared by both terms.
        radius: The radius of the kernel, which is 2 radius + 1 pixels wide; 0 does not blur, and may serve as a
            control.
        weight: The weight of the blurred term, or one for each member.
        kernel: box, or gaussian with a standard deviation of radius / 2 (which loses more at the borders, so that
            on XYSquares distances across the whole image no longer grow).

    >>> overlap("squared-error", radius=15)
    Overlap(likelihood=SquaredError(), radius=15, weight=3969.0, kernel='box')
    """

    likelihood: str | Likelihood
    radius: Annotated[int, between(0, 10_000)] = 31
    weight: EachNonNegative = 63.0**2
    kernel: Kernel = "box"

    @property
    def inner(self) -> Likelihood:
        """The likelihood L; a text was read when the part was made."""
        assert isinstance(self.likelihood, Likelihood)
        return self.likelihood

    @property
    def domain(self) -> tuple[float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.domain

    def build(self, info: Info) -> LikelihoodModule:
        if len(info.shape) != 3:
            raise UntwineError(
                f"overlap blurs images [channels, height, width]; examples of {list(info.shape)} are none"
            )
        assert isinstance(self.weight, float)
        blur = Blur(*info.shape[1:], radius=self.radius, kernel=self.kernel)
        return _Overlap(self.inner.build(info), blur, self.weight)


bernoulli = Bernoulli()
squared_error = SquaredError()
gaussian = Gaussian
learned_gaussian = Gaussian(learned=True)
laplace = Laplace
overlap = Overlap

Likelihood.registry.put("learned_gaussian", learned_gaussian)

named = Likelihood.named  # a likelihood from its text, or the likelihood itself

__all__ = [
    "Likelihood",
    "LikelihoodModule",
    "bernoulli",
    "gaussian",
    "laplace",
    "learned_gaussian",
    "named",
    "overlap",
    "squared_error",
]
__dir__ = directory(__all__)
