"""What a prior is, and any distribution of torch as one: as data, so that a spec can hold it."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch import distributions as D
from torch.distributions import constraints

from untwine.errors import UntwineError, unknown
from untwine.model.draws import draw, width
from untwine.model.info import Info
from untwine.parts import Each, Part, part


class PriorModule(nn.Module):
    """A prior's module; calling it gives the distribution (learned parameters make a new one each step)."""

    def forward(self) -> D.Distribution:
        """The distribution over the latents."""
        raise NotImplementedError

    @property
    def uniforms(self) -> int:
        """The number of uniforms that a sample takes."""
        return width(self())

    def sample(self, uniforms: Float[Tensor, "n width"]) -> Float[Tensor, "n latent"]:
        """Samples as a function of uniforms; learned locations and scales get gradients."""
        return draw(self(), uniforms)


class Prior(Part, kind="prior"):
    """A prior p(z) as a method names it; `build` makes its module."""

    def build(self, info: Info) -> PriorModule:
        """The module of the prior."""
        raise NotImplementedError

    @classmethod
    def from_argument(cls, value: Any) -> Any:
        """A prior from its text or from a torch distribution."""
        return given(value) if isinstance(value, D.Distribution) else super().from_argument(value)


class _Given(PriorModule):
    """A fixed distribution; its numbers are buffers, so that they move with the model and stack in a pack."""

    def __init__(self, recipe: dict[str, Any]) -> None:
        super().__init__()
        self.recipe = recipe
        for path, value in _numbers(recipe):
            self.register_buffer(path, torch.tensor(value), persistent=False)

    def forward(self) -> D.Distribution:
        return self._make(self.recipe, "")

    def _make(self, recipe: dict[str, Any], path: str) -> D.Distribution:
        arguments = {}
        for key, value in recipe["arguments"].items():
            if isinstance(value, dict):
                arguments[key] = self._make(value, f"{path}{key}_")
            else:
                arguments[key] = value if isinstance(value, int) else getattr(self, f"{path}{key}")
        return getattr(D, recipe["distribution"])(**arguments, validate_args=False)


def _numbers(recipe: dict[str, Any], path: str = "") -> list[tuple[str, Any]]:
    """The numbers in a recipe, each with its path."""
    numbers = []
    for key, value in recipe["arguments"].items():
        if isinstance(value, dict):
            numbers += _numbers(value, f"{path}{key}_")
        elif not isinstance(value, int):
            numbers.append((f"{path}{key}", value))
    return numbers


def _recipe(distribution: D.Distribution) -> dict[str, Any]:
    """A distribution as data: its class by name and its parameters as numbers."""
    name = type(distribution).__name__
    if getattr(D, name, None) is not type(distribution):
        raise UntwineError(f"a prior must be one of torch.distributions, not {type(distribution).__module__}.{name}")
    if isinstance(distribution, D.Independent):
        arguments: dict[str, Any] = {
            "base_distribution": _recipe(distribution.base_dist),
            "reinterpreted_batch_ndims": distribution.reinterpreted_batch_ndims,
        }
    elif isinstance(distribution, D.MixtureSameFamily):
        arguments = {
            "mixture_distribution": _recipe(distribution.mixture_distribution),
            "component_distribution": _recipe(distribution.component_distribution),
        }
    else:
        if isinstance(distribution, D.MultivariateNormal):
            keys = ["loc", "scale_tril"]
        elif isinstance(distribution, D.Categorical):
            keys = ["probs"]
        else:
            accepted = inspect.signature(type(distribution)).parameters
            keys = [key for key in distribution.arg_constraints if key in accepted]  # type: ignore[union-attr]
        arguments = {key: _plain(getattr(distribution, key).tolist()) for key in keys}
    return {"distribution": name, "arguments": arguments}


def _plain(value: Any) -> Any:
    """Nested lists as tuples, as a file gives them back."""
    return tuple(_plain(item) for item in value) if isinstance(value, list) else value


def _refuse_unknown(recipe: Any) -> None:
    """Refuse what is no recipe of distributions of torch."""
    if not isinstance(recipe, dict) or set(recipe) != {"distribution", "arguments"}:
        raise UntwineError(f"the recipe of a prior is a distribution with its arguments, not {recipe!r:.80}")
    if recipe["distribution"] not in D.__all__:
        raise unknown("distribution", str(recipe["distribution"]), D.__all__)
    if not isinstance(recipe["arguments"], dict):
        raise UntwineError(f"the arguments of {recipe['distribution']} are a mapping, not {recipe['arguments']!r:.80}")
    for value in recipe["arguments"].values():
        if isinstance(value, dict):
            _refuse_unknown(value)


def _first(value: Any) -> Any:
    """A recipe whose numbers that differ by member are those of the first."""
    if isinstance(value, dict):
        return {key: _first(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_first(item) for item in value)
    return value.values[0] if isinstance(value, Each) else value


@part(named=False)  # a text cannot hold it
class Given(Prior):
    """Any torch distribution over the latent vector, as data."""

    recipe: dict[str, Any]

    def __post_init__(self) -> None:
        _refuse_unknown(self.recipe)
        try:
            _Given(_first(self.recipe))()
        except (AssertionError, TypeError, ValueError, RuntimeError):
            raise UntwineError(f"a prior cannot be made from the parameters of {self.recipe!r:.200}") from None

    def build(self, info: Info) -> PriorModule:
        module = _Given(self.recipe)
        support = module().support
        while hasattr(support, "base_constraint"):  # of independent dimensions, of mixtures
            support = support.base_constraint  # type: ignore[union-attr]
        # The von Mises density repeats along the line, which torch calls its support: no density on it.
        if support is not constraints.real or "VonMises" in str(self.recipe):
            raise UntwineError(f"a prior must be over all real vectors; {self.recipe['distribution']} is not")
        event = tuple(module().batch_shape + module().event_shape)
        if event != (info.latents,):
            raise UntwineError(f"this prior is over vectors of shape {event}, but there are {info.latents} latents")
        return module


def given(distribution: D.Distribution) -> Prior:
    """A prior from a distribution of `torch.distributions` over the latent vector, or over each latent.

    >>> prior = given(D.Independent(D.Laplace(torch.zeros(3), torch.ones(3)), 1))
    >>> prior.build(Info(latents=3, shape=(1, 8, 8)))().event_shape
    torch.Size([3])
    """
    if not isinstance(distribution, D.Distribution):
        raise UntwineError(f"given takes a distribution of torch.distributions, not {distribution!r:.80}")
    if len(distribution.event_shape) == 0 and len(distribution.batch_shape) == 1:
        distribution = D.Independent(distribution, 1)
    return Given(_recipe(distribution))
