"""Priors p(z): modules that return a torch Distribution over the latents when called.

Those of Mathieu et al. 2019 and their relatives, and any distribution of torch. Numbers may differ by
member; what is not learned is a buffer that is not stored, since the spec has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributions as D

from untwine import naming
from untwine.errors import UntwineError
from untwine.model.draws import GeneralisedNormal
from untwine.model.given import Prior, PriorModule, given
from untwine.model.info import Info
from untwine.parts import Each, bounded, number, part


class _Made(PriorModule):
    """A prior that is a function of numbers: each a parameter or a buffer, so that it stacks in a pack."""

    def __init__(
        self, make: Callable[..., D.Distribution], learned: bool = False, stored: bool = False, **numbers: Any
    ) -> None:
        super().__init__()
        self.make, self.names = make, tuple(numbers)
        for name, value in numbers.items():
            tensor = torch.tensor(value, dtype=torch.float32)
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


def _mixture(logits: Tensor, components: D.Distribution) -> D.Distribution:
    return D.MixtureSameFamily(D.Categorical(logits=logits, validate_args=False), components, validate_args=False)


# --- numbers ----------------------------------------------------------------------------------------


def _row(values: Any, name: str, one: Callable[[Any], Any]) -> tuple[Any, ...]:
    """A tuple of numbers. Where one differs by member it is an `each`: a list within would be ambiguous."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, str | Each) or not isinstance(values, Sequence) or not values:
        raise UntwineError(f"{name} must be a list of numbers, not {values!r}")
    for value in values:
        if isinstance(value, Sequence):
            raise UntwineError(f"{name} must be numbers, or uw.each(...) for one that differs by member, not {value!r}")
    return tuple(one(value) for value in values)


# --- normals ----------------------------------------------------------------------------------------


@part
class StandardNormal(Prior):
    """N(0, I)."""

    def build(self, info: Info) -> PriorModule:
        return _Made(_normal, variances=[1.0] * info.latents)


def _softmax_normal(logits: Tensor) -> D.Distribution:
    return _normal(len(logits) * logits.softmax(-1))


@part
class AnisotropicNormal(Prior):
    """N(0, diag variances): given, in proportion to the data's principal components, or learned."""

    variances: str | tuple[float | Each, ...] = "pca"
    learned: bool = False

    def build(self, info: Info) -> PriorModule:
        pca = isinstance(self.variances, str)
        variances: Any = _principal(info) if pca else self.variances
        if len(variances) != info.latents:
            raise UntwineError(f"anisotropic_normal has {len(variances)} variances for {info.latents} latents")
        if self.learned:
            return _Made(_softmax_normal, learned=True, logits=[math.log(one) for one in variances])
        # Those of the data are stored with the weights: a model that is loaded has no data to find them from.
        return _Made(_normal, stored=pca, variances=variances)


def _principal(info: Info) -> list[float]:
    """Variances along the leading principal components, scaled to sum to the number of latents."""
    if info.principal is None:  # stored weights will take their place
        return [1.0] * info.latents
    found = info.principal(info.latents)
    if len(found) != info.latents or min(found) <= 0:
        raise UntwineError(
            f"anisotropic_normal('pca') needs {info.latents} principal components with variance, one for each latent, "
            f"but the data has {sum(one > 0 for one in found)}: use fewer latents, or give the variances"
        )
    return [info.latents * one / sum(found) for one in found]


def anisotropic_normal(variances: str | Sequence[Any] = "pca", learned: bool = False) -> Prior:
    """N(0, diag variances), which breaks the rotational symmetry (mathieu2019, section 6.1).

    `variances` are used as they are; "pca" takes D * softmax(v), with v the logarithms of the variances
    along the data's D leading principal components, so that they sum to the number of latents D. With
    `learned=True` they are D * softmax(v) in either case, and v is trained from that start.

    >>> anisotropic_normal((4, 0.25)).build(Info(latents=2, shape=(5,)))().variance
    tensor([4.0000, 0.2500])
    >>> info = Info(latents=2, shape=(5,), principal=lambda count: (0.3, 0.1, 0.02)[:count])
    >>> anisotropic_normal().build(info)().variance
    tensor([1.5000, 0.5000])
    """
    if isinstance(variances, str):
        if variances != "pca":
            raise UntwineError(f"variances are 'pca' or a list of numbers, not {variances!r}")
        return AnisotropicNormal("pca", learned)
    return AnisotropicNormal(_row(variances, "variances", lambda one: bounded(one, "a variance")), learned)


# --- one distribution for each latent ---------------------------------------------------------------


def _student_t(nu: Tensor) -> D.Distribution:
    return _independent(D.StudentT(nu, torch.zeros_like(nu), torch.ones_like(nu), validate_args=False))


@part
class StudentTPrior(Prior):
    """A product of Student-t distributions of scale 1."""

    nu: float | Each

    def build(self, info: Info) -> PriorModule:
        return _Made(_student_t, nu=[self.nu] * info.latents)


def student_t(nu: Any = 5.0) -> Prior:
    """A product of Student-t distributions, scale 1, with `nu` degrees of freedom (mathieu2019, section 6.1).

    N(0, I) as nu grows; with few, the tails are heavy, and lie along the axes. The paper's values are not
    in our copy: 5 is the fewest (of whole numbers) with a finite fourth moment.

    >>> student_t(nu=3).build(Info(latents=2, shape=(5,)))().variance
    tensor([3., 3.])
    """
    return StudentTPrior(bounded(nu, "nu"))


def _laplace(scale: Tensor) -> D.Distribution:
    return _independent(D.Laplace(torch.zeros_like(scale), scale, validate_args=False))


@part
class LaplacePrior(Prior):
    """A product of Laplace distributions around zero."""

    scale: float | Each

    def build(self, info: Info) -> PriorModule:
        return _Made(_laplace, scale=[self.scale] * info.latents)


def laplace(scale: Any = 1.0) -> Prior:
    """A product of Laplace distributions: 1 / (2 scale) exp(-|z| / scale) for each latent.

    >>> laplace(0.5).build(Info(latents=2, shape=(5,)))().log_prob(torch.zeros(2))
    tensor(0.)
    """
    return LaplacePrior(bounded(scale, "a scale"))


def _generalised_normal(p: Tensor, scale: Tensor) -> D.Distribution:
    return _independent(GeneralisedNormal(p, scale, validate_args=False))


@part
class GeneralisedNormalPrior(Prior):
    """A product of generalised normal distributions around zero."""

    p: float | Each
    scale: float | Each

    def build(self, info: Info) -> PriorModule:
        return _Made(_generalised_normal, p=[self.p] * info.latents, scale=[self.scale] * info.latents)


def generalised_normal(p: Any = 4.0, scale: Any = 1.0) -> Prior:
    """A product of p / (2 scale Gamma(1/p)) exp(-|z / scale|^p): annealing only rescales it (section 4).

    p = 1 is `laplace`, p = 2 a normal of variance scale^2 / 2; above that the tails are lighter than a
    normal's, up to a box. `p` is from 0.1, where samples are still accurate, to
    30, where densities are still finite.

    >>> generalised_normal(p=2, scale=2**0.5).build(Info(latents=2, shape=(5,)))().variance
    tensor([1.0000, 1.0000])
    """
    power = bounded(p, "p", lambda one: 0.1 <= one <= 30, "from 0.1 to 30")
    return GeneralisedNormalPrior(power, bounded(scale, "a scale"))


# --- mixtures ---------------------------------------------------------------------------------------


def _sparse(gamma: Tensor, variances: Tensor) -> D.Distribution:
    # A weight of zero is a logit of -inf: the other component is then all there is, to the last digit.
    logits = torch.stack((torch.log1p(-gamma), gamma.log()), -1)
    components = D.Normal(torch.zeros_like(variances), variances.sqrt(), validate_args=False)
    return _independent(_mixture(logits, components))


@part
class SparsePrior(Prior):
    """For each latent (1 - gamma) N(0, 1) + gamma N(0, variance)."""

    gamma: float | Each
    variance: float | Each

    def build(self, info: Info) -> PriorModule:
        return _Made(_sparse, gamma=[self.gamma] * info.latents, variances=[(1.0, self.variance)] * info.latents)


def sparse(gamma: Any = 0.8, variance: Any = 0.05) -> Prior:
    """Each latent is on or off: (1 - gamma) N(0, 1) + gamma N(0, variance) (mathieu2019, section 6.3).

    gamma = 0 is the density of the standard normal. The reference code has variance 0.05^2.

    >>> sparse().build(Info(latents=2, shape=(5,)))().variance
    tensor([0.2400, 0.2400])
    """
    within = bounded(gamma, "gamma", lambda one: 0 <= one <= 1, "from 0 to 1")
    return SparsePrior(within, bounded(variance, "a variance"))


def _clusters(means: Tensor, log_variances: Tensor, logits: Tensor) -> D.Distribution:
    scale = (0.5 * log_variances).exp()[:, None].expand(*means.shape)
    return _mixture(logits, _independent(D.Normal(means, scale, validate_args=False)))


@part
class MixtureOfNormals(Prior):
    """sum_k weight_k N(mean_k, variance I), fixed or learned."""

    means: tuple[tuple[float | Each, ...], ...]
    variance: float | Each
    weights: tuple[float | Each, ...] | None = None
    learned: bool = False

    def build(self, info: Info) -> PriorModule:
        means, weights, variance = self.means, self.weights or (1.0,) * len(self.means), self.variance
        if len(means[0]) != info.latents:
            raise UntwineError(
                f"the means of mixture_of_normals have {len(means[0])} coordinates for {info.latents} latents"
            )
        log_variances = [math.log(variance)] * len(means)  # type: ignore[arg-type]
        logits = [math.log(one) for one in weights]  # type: ignore[arg-type]
        return _Made(_clusters, self.learned, means=means, log_variances=log_variances, logits=logits)


_PINWHEEL = ((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0))


def mixture_of_normals(
    means: Any = _PINWHEEL, variance: Any = 0.03, weights: Any = None, learned: bool = False
) -> Prior:
    """Clusters: normals of one variance around `means`, by default those for the pinwheel (section 6.2).

    `weights` are scaled to sum to one, and equal unless given. `learned=True` trains the means, a variance
    for each of them, and the weights (which get no gradient from penalties that take samples).

    >>> mixture_of_normals().build(Info(latents=2, shape=(2,)))().mixture_distribution.probs
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    means = means.tolist() if hasattr(means, "tolist") else means
    if isinstance(means, str | Each) or not isinstance(means, Sequence) or not means:
        raise UntwineError(f"means must be a list of points, not {means!r}")
    points = tuple(_row(point, "a mean", number) for point in means)
    if len({len(point) for point in points}) > 1:
        raise UntwineError(f"the means of a mixture must have as many coordinates each, not {means!r}")
    if weights is not None:
        weights = _row(weights, "weights", lambda one: bounded(one, "a weight"))
        if len(weights) != len(points):
            raise UntwineError(f"there are {len(weights)} weights for {len(points)} means")
    return MixtureOfNormals(points, bounded(variance, "a variance"), weights, learned)


standard_normal = StandardNormal()

NAMED = {
    "standard_normal": standard_normal,
    "anisotropic_normal": anisotropic_normal,
    "student_t": student_t,
    "laplace": laplace,
    "generalised_normal": generalised_normal,
    "sparse": sparse,
    "mixture_of_normals": mixture_of_normals,
}


def named(prior: Any) -> Prior:
    """A prior by its name, the one that is given, or `given` of a torch distribution.

    >>> named("student-t(nu=3)")
    StudentTPrior(nu=3.0)
    """
    if isinstance(prior, Prior):
        return prior
    if isinstance(prior, D.Distribution):
        return given(prior)
    if not isinstance(prior, str):
        raise UntwineError(f"a prior is a name such as 'sparse(gamma=0.8)', a prior or a distribution, not {prior!r}")
    return naming.read("prior", prior, NAMED)
