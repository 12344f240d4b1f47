"""Likelihoods: what a decoder's output says about an image. Nats, summed over an image's elements."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from untwine.errors import UntwineError, unknown
from untwine.model.info import Info
from untwine.parts import Each, number, part


def _total(values: Tensor) -> Tensor:
    return values.flatten(1).sum(1)


class LikelihoodModule(nn.Module):
    """A likelihood that is built: `loss` in nats for each example; `mean` is a layer on the output."""

    mean: nn.Module

    def loss(self, out: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        return self.loss_of_mean(self.mean(out), x)

    def loss_of_mean(self, mean: Float[Tensor, "batch ..."], x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        raise NotImplementedError


class Likelihood:
    """What a method names; `build` makes the module. `domain` is the range of data that it is for."""

    domain = (-math.inf, math.inf)

    def build(self, info: Info) -> LikelihoodModule:
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


def _positive(scale: Any) -> float | Each:
    value = number(scale)
    if not all(0 < one < math.inf for one in (value.values if isinstance(value, Each) else (value,))):
        raise UntwineError(f"a scale must be positive and finite, not {scale}")
    return value


@part
class Gaussian(Likelihood):
    """A normal around the output with one standard deviation, fixed or learned."""

    scale: float | Each = 1.0
    learned: bool = False

    def build(self, info: Info) -> LikelihoodModule:
        assert isinstance(self.scale, float)
        return _Gaussian(self.scale, self.learned)


@part
class Laplace(Likelihood):
    """A Laplace distribution around the output with a fixed scale."""

    scale: float | Each = 1.0

    def build(self, info: Info) -> LikelihoodModule:
        assert isinstance(self.scale, float)
        return _Laplace(self.scale, learned=False)


bernoulli = Bernoulli()
squared_error = SquaredError()


def gaussian(scale: Any = 1.0, learned: bool = False) -> Gaussian:
    """-log N(x; out, scale^2); `learned=True` trains the scale from that start."""
    return Gaussian(_positive(scale), learned)


def laplace(scale: Any = 1.0) -> Laplace:
    """-log Laplace(x; out, scale)."""
    return Laplace(_positive(scale))


_NAMED = {
    "bernoulli": lambda: bernoulli,
    "squared_error": lambda: squared_error,
    "gaussian": gaussian,
    "learned_gaussian": lambda: gaussian(learned=True),
    "laplace": laplace,
}


def named(likelihood: str | Likelihood) -> Likelihood:
    """A likelihood by its name, or the one that is given.

    >>> named("squared-error")
    SquaredError()
    """
    if isinstance(likelihood, Likelihood):
        return likelihood
    name = likelihood.replace("-", "_")
    if name not in _NAMED:
        raise unknown("likelihood", likelihood, _NAMED)
    return _NAMED[name]()
