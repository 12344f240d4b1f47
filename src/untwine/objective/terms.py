"""The pieces of a penalty: what it needs, the pass that it sees, and what it measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch import distributions as D

from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.layers import held as held  # for penalties with an adversary
from untwine.model.passes import Trace, trace
from untwine.model.posteriors import Q
from untwine.model.vae import VAE
from untwine.parts import Number, Part


@dataclass(frozen=True)
class Adversary:
    """A model that plays against a term.

    The term's `value` must hold it fixed, and its `adversary_loss` everything else (see `held`): so one
    backward pass serves both players.

    Args:
        build: Makes the model.
        optimiser: The spec of its own optimiser.
        rate: Its own learning rate.
    """

    build: Callable[[Info], nn.Module]
    optimiser: Mapping[str, Any]
    rate: Number


@dataclass(frozen=True)
class Needs:
    """What a penalty needs beyond the pass.

    Args:
        noise: Random numbers for each example, by name: `"uniform"` or `"normal"`, and their shape.
        jacobian: Whether tangents go through the decoder, which must then have right Jacobians.
        prior: Whether it needs a sample of the prior for each example (`Pass.prior_sample`).
        second: Whether it needs posterior samples of another, independent batch (`Pass.second`).
        adversaries: Models that play against the penalty, by name.
        examples: The fewest examples that a batch may have: a shorter one, left over at the end of an epoch, is
            skipped.
        fixed: The share of the examples whose decoder pass it needs with z held fixed (`Pass.fixed_at`), so that
            gradients reach the decoder alone: False for none, True for all, or a fraction.
        differences: Whether finite differences are pushed through the decoder's pass, which must then keep what they
            need.
        every: It is computed at every n-th step alone, and counts n times there.
    """

    noise: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    jacobian: bool = False
    prior: bool = False
    second: bool = False
    adversaries: Mapping[str, Adversary] = field(default_factory=dict)
    examples: int = 1
    fixed: bool | Fraction = False
    differences: bool = False
    every: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.every, int) or self.every < 1:
            raise UntwineError(f"every of Needs must be a whole number of steps, 1 or more, not {self.every!r}")


@dataclass(frozen=True)
class Pass:
    """One pass of a model over a batch, with everything that a penalty may look at."""

    x: Tensor  # [batch, *shape]; images in [0, 1], or standardised
    q: Q
    prior: D.Distribution
    z: Tensor  # [batch, latent]
    trace: Trace  # the decoder's pass at z, up to the mean: tangents can be pushed through it, differences if needed
    vae: VAE
    noise: Mapping[str, Tensor]
    data_size: int
    adversaries: Mapping[str, nn.Module] = field(default_factory=dict)
    prior_sample: Tensor | None = None  # [batch, latent], for penalties that need it
    second: Tensor | None = None  # [batch, latent]: posterior samples of another batch, without gradient
    fixed: Trace | None = None  # `trace` with z held fixed, for those that need it for all examples

    @property
    def mean(self) -> Tensor:
        """The mean image at the sampled z."""
        return self.trace.output

    def only(self, name: str) -> Pass:
        """The same pass with the noise and the adversaries of one penalty, by the names that it declared."""
        return replace(self, noise=_declared(self.noise, name), adversaries=_declared(self.adversaries, name))

    def decode(self, z: Float[Tensor, "examples latent"], finite: bool = False) -> Trace:
        """Another pass of the decoder, up to the mean.

        Args:
            z: Its input.
            finite: Whether finite differences are to be pushed through it; they can be, too, where `trace` is for them.
        """
        return trace(self.vae.decoder, z, finite or self.trace.finite).then(self.vae.likelihood.mean)

    def fixed_at(self, places: slice | None = None) -> Trace:
        """The decoder's pass with z held fixed, at some examples of the batch; None means all of them.

        It shares the pass of the reconstruction where the evaluation found that this costs less than another pass.
        """
        if self.fixed is None:
            return self.decode((self.z if places is None else self.z[places]).detach())
        return self.fixed if places is None else self.fixed.at(places)


def _declared(named: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {k.removeprefix(f"{name}/"): v for k, v in named.items() if k.startswith(f"{name}/")}


class Term(Part, kind="penalty"):
    """What a penalty measures; a subclass that is a part defines `value`."""

    def needs(self, info: Info) -> Needs:
        """What it needs beyond the pass."""
        return Needs()

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        """What is added to the loss, times the weight: the mean over the batch."""
        raise NotImplementedError

    def adversary_loss(self, passed: Pass) -> Float[Tensor, ""] | None:
        """What the term's adversary minimises; None without an adversary."""
        return None


class Pairing(Part, kind="pairing"):
    """Weak supervision: every example gets a partner that differs in some factors, and posteriors are merged."""

    def width(self, factors: int) -> int:
        """How many uniform numbers the choice of a partner takes."""
        raise NotImplementedError

    def draw(
        self, factors: Int64[Tensor, "*batch k"], uniforms: Float[Tensor, "*batch width"], sizes: Int64[Tensor, " k"]
    ) -> Int64[Tensor, "*batch k"]:
        """The factors of the partners.

        Args:
            factors: The factors of the examples.
            uniforms: Random numbers that decide.
            sizes: The number of values of each factor.
        """
        raise NotImplementedError

    def merge(self, q: Q) -> Q:
        """The posteriors to use in place of `q`; the first half of the batch is paired with the second."""
        raise NotImplementedError
