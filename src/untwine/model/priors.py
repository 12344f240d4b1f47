"""Priors p(z): parts whose modules return a torch Distribution over the latents when called.

Those of Mathieu et al. 2019 and their relatives, and any distribution of torch. Numbers may differ by
member; those that are not learned are buffers that are not stored, since the spec has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch import distributions as D

from untwine.arguments import EachPositive, EachShare, PerMember
from untwine.errors import UntwineError
from untwine.model.draws import GeneralisedNormal
from untwine.model.given import Given, Prior, PriorModule, given
from untwine.model.info import Info
from untwine.namespace import directory
from untwine.parts import part
from untwine.quantities import POSITIVE, Each, between

# Within a list, a number that differs by member is an `each`: another list would be ambiguous.
Row = tuple[float | Each, ...]
PositiveRow = tuple[Annotated[float | Each, POSITIVE], ...]


class _FromNumbers(PriorModule):
    """A prior that is a function of numbers: each a parameter or a buffer, so that it stacks in a pack."""

    def __init__(
        self, make: Callable[..., D.Distribution], learned: bool = False, stored: bool = False, **numbers: Any
    ) -> None:
        super().__init__()
        self.make = make
        self.names = tuple(numbers)
        for name, value in numbers.items():
            tensor = torch.tensor(value, dtype=torch.get_default_dtype())
            if learned:
                self.register_parameter(name, nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor, persistent=stored)

    def forward(self) -> D.Distribution:
        return self.make(**{name: getattr(self, name) for name in self.names})


def _independent(base: D.Distribution) -> D.Distribution:
    return D.Independent(base, 1, validate_args=False)


def _normal(variances: Tensor) -> D.Distribution:
    return _independent(D.Normal(torch.zeros_like(variances), variances.sqrt(), validate_args=False))


def _softmax_normal(logits: Tensor) -> D.Distribution:
    return _normal(len(logits) * logits.softmax(-1))


def _mixture(logits: Tensor, components: D.Distribution) -> D.Distribution:
    return D.MixtureSameFamily(D.Categorical(logits=logits, validate_args=False), components, validate_args=False)


# --- normals ----------------------------------------------------------------------------------------


@part
class StandardNormal(Prior):
    """N(0, I)."""

    def build(self, info: Info) -> PriorModule:
        return _FromNumbers(_normal, variances=[1.0] * info.latents)


@part
class AnisotropicNormal(Prior):
    """N(0, diag variances), which breaks the rotational symmetry (mathieu2019, section 6.1).

    Args:
        variances: Used as they are; "pca" takes D * softmax(v), with v the logarithms of the variances along the
            data's D leading principal components, so that they sum to the number of latents D.
        learned: Whether v is trained from that start; the variances are D * softmax(v) then in either case.

    >>> anisotropic_normal((4, 0.25)).build(Info(latents=2, shape=(5,)))().variance
    tensor([4.0000, 0.2500])
    >>> info = Info(latents=2, shape=(5,), principal=lambda count: (0.3, 0.1, 0.02)[:count])
    >>> anisotropic_normal().build(info)().variance
    tensor([1.5000, 0.5000])
    """

    variances: Literal["pca"] | PositiveRow = "pca"
    learned: bool = False

    def __post_init__(self) -> None:
        if not self.variances:
            raise UntwineError("variances of prior 'anisotropic_normal' must be 'pca' or a list of numbers, not ()")

    def build(self, info: Info) -> PriorModule:
        pca = isinstance(self.variances, str)
        variances: Any = _principal(info) if pca else self.variances
        if len(variances) != info.latents:
            raise UntwineError(f"anisotropic_normal has {len(variances)} variances for {info.latents} latents")
        if self.learned:
            logits = [math.log(variance) for variance in variances]
            return _FromNumbers(_softmax_normal, learned=True, logits=logits)
        # Those of the data are stored with the weights: a model that is loaded has no data to find them from.
        return _FromNumbers(_normal, stored=pca, variances=variances)


def _principal(info: Info) -> list[float]:
    """Variances along the leading principal components, scaled to sum to the number of latents."""
    if info.principal is None:  # stored weights will take their place
        return [1.0] * info.latents
    variances = info.principal(info.latents)
    if len(variances) != info.latents or min(variances) <= 0:
        raise UntwineError(
            f"anisotropic_normal('pca') needs {info.latents} principal components with variance, one for each latent, "
            f"but the data has {sum(variance > 0 for variance in variances)}: use fewer latents, or give the variances"
        )
    return [info.latents * variance / sum(variances) for variance in variances]


# --- one distribution for each latent ---------------------------------------------------------------


@part
class StudentTPrior(Prior):
    """A product of Student-t distributions, scale 1, with `nu` degrees of freedom (mathieu2019, section 6.1).

    N(0, I) as nu grows; with few, the tails are heavy, and lie along the axes. The authors' runs have 9; the values
    along the curve of Figure 2 are not in our copy.

    >>> student_t(nu=3).build(Info(latents=2, shape=(5,)))().variance
    tensor([3., 3.])
    """

    nu: EachPositive = 9.0

    def build(self, info: Info) -> PriorModule:
        return _FromNumbers(self.distribution, nu=[self.nu] * info.latents)

    @staticmethod
    def distribution(nu: Tensor) -> D.Distribution:
        return _independent(D.StudentT(nu, torch.zeros_like(nu), torch.ones_like(nu), validate_args=False))


@part
class LaplacePrior(Prior):
    """A product of Laplace distributions: 1 / (2 scale) exp(-|z| / scale) for each latent.

    >>> laplace(0.5).build(Info(latents=2, shape=(5,)))().log_prob(torch.zeros(2))
    tensor(0.)
    """

    scale: EachPositive = 1.0

    def build(self, info: Info) -> PriorModule:
        return _FromNumbers(self.distribution, scale=[self.scale] * info.latents)

    @staticmethod
    def distribution(scale: Tensor) -> D.Distribution:
        return _independent(D.Laplace(torch.zeros_like(scale), scale, validate_args=False))


@part
class GeneralisedNormalPrior(Prior):
    """A product of p / (2 scale Gamma(1/p)) exp(-|z / scale|^p): annealing only rescales it (section 4).

    p = 1 is `laplace`, p = 2 a normal of variance scale^2 / 2; above that the tails are lighter than a
    normal's, up to a box. `p` is from 0.1, where samples are still accurate, to 30, where densities are still
    finite.

    >>> generalised_normal(p=2, scale=2**0.5).build(Info(latents=2, shape=(5,)))().variance
    tensor([1.0000, 1.0000])
    """

    p: Annotated[PerMember, between(0.1, 30)] = 4.0
    scale: EachPositive = 1.0

    def build(self, info: Info) -> PriorModule:
        return _FromNumbers(self.distribution, p=[self.p] * info.latents, scale=[self.scale] * info.latents)

    @staticmethod
    def distribution(p: Tensor, scale: Tensor) -> D.Distribution:
        return _independent(GeneralisedNormal(p, scale, validate_args=False))


# --- mixtures ---------------------------------------------------------------------------------------


@part
class SparsePrior(Prior):
    """Each latent is on or off: (1 - gamma) N(0, 1) + gamma N(0, variance) (mathieu2019, section 6.3).

    gamma = 0 is the density of the standard normal. The reference code has variance 0.05^2.

    >>> sparse().build(Info(latents=2, shape=(5,)))().variance
    tensor([0.2400, 0.2400])
    """

    gamma: EachShare = 0.8
    variance: EachPositive = 0.05

    def build(self, info: Info) -> PriorModule:
        variances = [(1.0, self.variance)] * info.latents
        return _FromNumbers(self.distribution, gamma=[self.gamma] * info.latents, variances=variances)

    @staticmethod
    def distribution(gamma: Tensor, variances: Tensor) -> D.Distribution:
        # A weight of zero is a logit of -inf: the other component is then all there is, to the last digit.
        logits = torch.stack((torch.log1p(-gamma), gamma.log()), -1)
        components = D.Normal(torch.zeros_like(variances), variances.sqrt(), validate_args=False)
        return _independent(_mixture(logits, components))


_PINWHEEL = ((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0))


@part
class MixtureOfNormals(Prior):
    """Clusters: normals of one variance around `means`, by default those for the pinwheel (section 6.2).

    Args:
        means: The centre of each cluster.
        variance: The variance of each cluster along every axis.
        weights: How likely each cluster is, up to a common factor; None makes them equally likely.
        learned: Whether to train the means, a variance for each of them, and the weights (which get no gradient
            from penalties that take samples).

    >>> mixture_of_normals().build(Info(latents=2, shape=(2,)))().mixture_distribution.probs
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    means: tuple[Row, ...] = _PINWHEEL
    variance: EachPositive = 0.03
    weights: PositiveRow | None = None
    learned: bool = False

    def __post_init__(self) -> None:
        if not self.means or not self.means[0]:
            raise UntwineError(f"means must be a list of points, not {self.means!r}")
        if len({len(point) for point in self.means}) > 1:
            raise UntwineError(f"the means of a mixture must have as many coordinates each, not {self.means!r}")
        if self.weights is not None and len(self.weights) != len(self.means):
            raise UntwineError(f"there are {len(self.weights)} weights for {len(self.means)} means")

    def build(self, info: Info) -> PriorModule:
        count, coordinates = len(self.means), len(self.means[0])
        if coordinates != info.latents:
            raise UntwineError(
                f"the means of mixture_of_normals have {coordinates} coordinates for {info.latents} latents"
            )
        log_variances = [math.log(self.variance)] * count  # type: ignore[arg-type]
        logits = [math.log(weight) for weight in self.weights or (1.0,) * count]  # type: ignore[arg-type]
        numbers = {"means": self.means, "log_variances": log_variances, "logits": logits}
        return _FromNumbers(self.distribution, self.learned, **numbers)

    @staticmethod
    def distribution(means: Tensor, log_variances: Tensor, logits: Tensor) -> D.Distribution:
        scale = (0.5 * log_variances).exp()[:, None].expand(*means.shape)
        return _mixture(logits, _independent(D.Normal(means, scale, validate_args=False)))


standard_normal = StandardNormal()
anisotropic_normal = AnisotropicNormal
student_t = StudentTPrior
laplace = LaplacePrior
generalised_normal = GeneralisedNormalPrior
sparse = SparsePrior
mixture_of_normals = MixtureOfNormals

named = Prior.named  # a prior from its text, or the prior itself

__all__ = [
    "Given",
    "Prior",
    "PriorModule",
    "anisotropic_normal",
    "generalised_normal",
    "given",
    "laplace",
    "mixture_of_normals",
    "named",
    "sparse",
    "standard_normal",
    "student_t",
]
__dir__ = directory(__all__)
