"""Penalties on the decoder's Jacobian, and the parts of the reconstruction loss that it explains."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.jacobian import (
    choose,
    chosen_tangents,
    column_sum,
    finite_differences,
    push,
    unit_tangents,
)
from untwine.objective.core import Needs, Pass, Penalty, Term
from untwine.parts import part


@part
class Jacobian(Term):
    """Sum over latents and pixels of |dg/dz|^p at the sampled z, mean over the batch (rhodes2021, Eq. 3)."""

    p: int = 1
    estimator: str = "exact"
    columns: int | None = None
    through: str = "both"
    eps: float = 1e-3

    def needs(self, info: Info) -> Needs:
        if self.columns is None:
            return Needs(jacobian=True)
        if self.columns > info.latents:
            raise UntwineError(f"{self.columns} columns were asked for, but there are {info.latents} latents")
        return Needs({"columns": ("uniform", (info.latents,))}, jacobian=True)

    def value(self, passed: Pass) -> Float[Tensor, ""]:
        z, scale = passed.z, 1.0 / len(passed.x)
        if self.through == "decoder":  # the reference detaches z: the gradient reaches the decoder alone
            z = z.detach()
        if self.columns is None:
            tangents = unit_tangents(z)
        else:
            tangents = chosen_tangents(z, choose(passed.noise["columns"], self.columns))
            scale = scale * z.shape[-1] / self.columns
        if self.estimator == "finite":
            columns = finite_differences(lambda z: passed.decode(z).output, z, tangents, self.eps)
            return scale * self._norm(columns)
        traced = passed.trace if self.through == "both" else passed.decode(z)
        return scale * column_sum(traced, tangents, self._norm)

    def _norm(self, columns: Tensor) -> Tensor:
        return columns.abs().sum() if self.p == 1 else columns.square().sum()


def jacobian(
    p: int = 1,
    estimator: str = "exact",
    columns: int | None = None,
    through: str = "both",
    eps: float = 1e-3,
) -> Penalty:
    """The L1 norm (p=1) or squared L2 norm (p=2) of the decoder's Jacobian.

    `estimator` is `"exact"` or `"finite"` (the paper's one-sided differences with `eps`). `columns=k`
    takes k of the d columns of each image, without replacement, times d / k: unbiased, and much cheaper.
    Exact columns are processed in chunks, so that memory is bounded; finite differences go as one batch.
    `through="both"` differentiates as Eq. 3 says; `"decoder"` holds z fixed, as the authors' code does.
    """
    if p not in (1, 2):
        raise UntwineError(f"p is 1 or 2, not {p}")
    if estimator not in ("exact", "finite"):
        raise UntwineError(f"the estimator is 'exact' or 'finite', not {estimator!r}; sample with columns=k")
    if through not in ("both", "decoder"):
        raise UntwineError(f"through is 'both' or 'decoder', not {through!r}")
    if columns is not None and not (isinstance(columns, int) and columns >= 1):
        raise UntwineError(f"columns must be a whole number, 1 or more, not {columns!r}")
    return Penalty(Jacobian(p, estimator, columns, through, float(eps)))


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


deterministic_reconstruction = Penalty(DeterministicReconstruction())
stochastic_reconstruction = Penalty(StochasticReconstruction())
linearised_reconstruction = Penalty(LinearisedReconstruction())

__all__ = ["deterministic_reconstruction", "jacobian", "linearised_reconstruction", "stochastic_reconstruction"]
