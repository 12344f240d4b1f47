"""Penalties on the decoder's Jacobian, and the terms of the reconstruction loss that it explains."""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from untwine.arguments import Count, PerMember, Positive, PositiveNumber
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.jacobian import centred, choose, chosen_tangents, power_sum, unit_tangents
from untwine.model.passes import push
from untwine.objective.core import Penalty, penalty
from untwine.objective.schedules import ends
from untwine.objective.terms import Needs, Pass, Term
from untwine.parts import part
from untwine.quantities import Bound


@part(named=False)  # `jacobian` makes it, of a share of the images
class Jacobian(Term):
    """Sum over latents and pixels of |dg/dz|^p at the sampled z, mean over the batch (rhodes2021, Eq. 3)."""

    p: Literal[1, 2] = 1
    estimator: Literal["exact", "finite", "central"] = "exact"
    columns: Count | None = None
    through: Literal["decoder", "both"] = "decoder"
    eps: PositiveNumber = 1e-3
    images: tuple[Count, Count] = (1, 1)  # a fraction, as integers, since floats may differ by member
    every: Count = field(default=1, metadata={"added": True})

    def __post_init__(self) -> None:
        for number in ends(self.eps):
            if number <= 0:
                raise UntwineError(
                    f"eps of penalty 'jacobian' must stay positive, and this schedule begins or ends at {number:g}: "
                    "ramp(0.001, 1000, start=0.1) would do"
                )
        if self.images[0] > self.images[1]:
            raise UntwineError(f"images of penalty 'jacobian' must be a fraction of at most 1, not {self.images}")

    def needs(self, info: Info) -> Needs:
        if self.columns is not None and self.columns > info.latents:
            raise UntwineError(f"{self.columns} columns were asked for, but there are {info.latents} latents")
        return Needs(
            noise={} if self.columns is None else {"columns": ("uniform", (info.latents,))},
            jacobian=True,
            # Central differences have a pass of their own, around z.
            fixed=Fraction(*self.images) if self.through == "decoder" and self.estimator != "central" else False,
            differences=self.estimator == "finite",
            every=self.every,
        )

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        places = _spread(len(passed.x), *self.images)
        chosen = (lambda values: values) if places is None else (lambda values: values[places])
        z = chosen(passed.z)
        scale = 1.0 / len(z)
        if self.through == "decoder":  # the reference detaches z: the gradient reaches the decoder alone
            z = z.detach()
        if self.columns is None:
            tangents = unit_tangents(z)
        else:
            tangents = chosen_tangents(z, choose(chosen(passed.noise["columns"]), self.columns))
            scale = scale * z.shape[-1] / self.columns
        eps: Any = None if self.estimator == "exact" else self.eps  # a number: the trainer evaluated the schedule
        if self.estimator == "central":
            points, tangents = centred(z, tangents, eps)
            traced = passed.decode(points, finite=True)
        elif self.through == "decoder":
            traced = passed.fixed_at(places)
        else:
            traced = passed.trace if places is None else passed.trace.at(places)
        return scale * power_sum(traced, tangents, self.p, eps)


def _spread(count: int, share: int, of: int) -> slice | None:
    """The places of a share of the images of a batch, evenly spaced around the middle; None means all of them.

    Batches are drawn at random, so any fixed places give an unbiased estimate. Around the middle the two halves of a
    batch of pairs have equally many places, or one more.

    Args:
        count: The number of images.
        share: The numerator of the share, which is rounded up to a number of images.
        of: Its denominator.

    >>> list(range(8))[_spread(8, 1, 4)], list(range(8))[_spread(8, 1, 2)], list(range(8))[_spread(8, 2, 3)]
    ([1, 5], [0, 2, 4, 6], [1, 2, 3, 4, 5, 6])
    """
    chosen = -(-count * share // of)
    if chosen == count:
        return None
    stride = count // chosen
    first = (count - 1 - stride * (chosen - 1)) // 2
    return slice(first, first + stride * (chosen - 1) + 1, stride)


_SHARE = Bound("a share of the batch, more than 0 and at most 1", lambda share: 0 < share <= 1)


@Penalty.registry.bound
def jacobian(
    p: Literal[1, 2] = 1,
    estimator: Literal["exact", "finite", "central"] = "exact",
    columns: Count | None = None,
    through: Literal["decoder", "both"] = "decoder",
    eps: PositiveNumber = 1e-3,
    images: Annotated[float, _SHARE] | None = None,
    every: Count = 1,
) -> Penalty:
    """The L1 norm (p=1) or squared L2 norm (p=2) of the decoder's Jacobian.

    Columns are processed in chunks, so that memory is bounded (a kernel that does the last layers and the norm at once
    keeps little, and takes them all).

    Args:
        p: Which norm.
        estimator: exact, finite (the paper's one-sided differences) or central (differences from z - eps/2 to
            z + eps/2, which take and keep a pass of the decoder for each column).
        columns: How many of the d columns of each image to sample, without replacement; the sum is multiplied by d
            over their number, so that it is unbiased, and much cheaper. None takes every column.
        through: decoder holds z fixed, as the authors' code does; both differentiates as Eq. 3 says.
        eps: The step of finite differences; a schedule must stay positive.
        images: The share of the batch whose mean is taken, at least one image, at evenly spaced places: unbiased too,
            since batches are drawn at random. None takes every image.
        every: It is computed at every n-th step alone, n times as strong: so the other steps cost nothing.
    """
    images = 1.0 if images is None else images
    share = Fraction(images).limit_denominator(1000)  # 0.1 is a tenth, not the float next to it
    if share == 0:
        raise UntwineError(f"images is a share of the batch, a thousandth or more, not {images!r}")
    return Penalty(Jacobian(p, estimator, columns, through, eps, share.as_integer_ratio(), every))


@part
class DeterministicReconstruction(Term):
    """|Dec(mu) - x|^2 (rolinek2019, Eq. 13)."""

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        mean = passed.decode(passed.q.mean).output
        return (mean - passed.x).square().flatten(1).sum(1).mean()


@part
class StochasticReconstruction(Term):
    """|Dec(mu) - Dec(z)|^2 at the sampled z: one sample of rolinek2019, Eq. 14."""

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        mean = passed.decode(passed.q.mean).output
        return (mean - passed.mean).square().flatten(1).sum(1).mean()


@part
class LinearisedReconstruction(Term):
    """E|J eps|^2 with the Jacobian J at the mean and eps ~ q - mean (rolinek2019, Eq. 17).

    For a diagonal posterior it is sum_j |c_j|^2 sigma_j^2 with J's columns c_j (Eq. S48).
    """

    def needs(self, info: Info) -> Needs:
        return Needs(jacobian=True)

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        columns = push(passed.decode(passed.q.mean), passed.q.spread())
        return columns.flatten(2).square().sum((0, 2)).mean()


def _columns(passed: Pass) -> Float[Tensor, "latent batch pixels"]:
    """The columns of the decoder's Jacobian at the sampled z."""
    return push(passed.trace, unit_tangents(passed.z)).flatten(2)


def _gram(columns: Float[Tensor, "latent batch pixels"]) -> Float[Tensor, "batch latent latent"]:
    """J^T J of every example."""
    with torch.autocast(columns.device.type, enabled=False):  # products of matrices would be in bfloat16
        return torch.einsum("ibp,jbp->bij", columns, columns)


@part
class Orthogonality(Term):
    """sum_j log |c_j| - 1/2 log det J^T J, with J's columns c_j at the sampled z, mean over the batch.

    By Hadamard's inequality (rolinek2019, Lemma S2) it is zero where the columns are orthogonal, else
    positive: what the VAE minimises indirectly (Theorem 2), as the explicit control that section 6 asks for.
    It is -1/2 log det R of the cosines R between columns, here of (R + eps I) / (1 + eps), which is finite
    where columns are parallel. Lengths do not matter: a latent that is hardly in use counts as any other, and
    the shorter a column, the steeper its gradient. A column of (nearly) zeros counts as orthogonal to all.
    """

    eps: Positive = 1e-6

    def needs(self, info: Info) -> Needs:
        return Needs(jacobian=True)

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        columns = _columns(passed)
        lengths = torch.linalg.vector_norm(columns, dim=2, keepdim=True)
        kind = torch.finfo(columns.dtype)
        used = lengths > kind.tiny**0.5 / kind.eps  # else the squares in a length are not accurate
        # The where keeps 0 / 0, and the gradient of a length at 0, out of the backward pass.
        cosines = _gram(columns / torch.where(used, lengths, 1.0))
        identity = torch.eye(cosines.shape[-1], dtype=cosines.dtype, device=cosines.device)
        # A determinant by LU: a Cholesky factor of a member that diverged would stop the whole pack.
        return -0.5 * torch.linalg.slogdet(identity + cosines * (1 - identity) / (1 + self.eps)).logabsdet.mean()


@part
class Flatness(Term):
    """|J^T J - c I|_F^2 at the sampled z, mean over the batch (Chen et al. 2020; rhodes2021, section 3)."""

    c: PerMember = 1.0

    def needs(self, info: Info) -> Needs:
        return Needs(jacobian=True)

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        gram = _gram(_columns(passed))
        identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        return (gram - self.c * identity).square().sum((1, 2)).mean()  # type: ignore[operator]


orthogonality = penalty(Orthogonality)
flatness = penalty(Flatness)
deterministic_reconstruction = Penalty(DeterministicReconstruction())
stochastic_reconstruction = Penalty(StochasticReconstruction())
linearised_reconstruction = Penalty(LinearisedReconstruction())

__all__ = [
    "deterministic_reconstruction",
    "flatness",
    "jacobian",
    "linearised_reconstruction",
    "orthogonality",
    "stochastic_reconstruction",
]
