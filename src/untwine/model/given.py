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
from untwine.parts import part


class PriorModule(nn.Module):
    """A prior that is built; calling it gives its distribution (learned parameters make it new each step)."""

    def forward(self) -> D.Distribution:
        raise NotImplementedError

    @property
    def uniforms(self) -> int:
        """How many uniforms a sample takes."""
        return width(self())

    def sample(self, uniforms: Float[Tensor, "n width"]) -> Float[Tensor, "n latent"]:
        """Samples as a function of uniforms; learned locations and scales get gradients."""
        return draw(self(), uniforms)


class Prior:
    """What a method names; `build` makes the module."""

    def build(self, info: Info) -> PriorModule:
        raise NotImplementedError


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
            here = f"{path}{key}"
            if isinstance(value, dict):
                arguments[key] = self._make(value, here + "_")
            else:
                arguments[key] = value if isinstance(value, int) else getattr(self, here)
        return getattr(D, recipe["distribution"])(**arguments, validate_args=False)


def _numbers(recipe: dict[str, Any], path: str = "") -> list[tuple[str, Any]]:
    found = []
    for key, value in recipe["arguments"].items():
        if isinstance(value, dict):
            found += _numbers(value, f"{path}{key}_")
        elif not isinstance(value, int):
            found.append((f"{path}{key}", value))
    return found


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
    """Nested lists as tuples, which is what a file gives back."""
    return tuple(_plain(item) for item in value) if isinstance(value, list) else value


@part
class Given(Prior):
    """Any torch distribution over the latent vector, as data."""

    recipe: dict[str, Any]

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
    if len(distribution.event_shape) == 0 and len(distribution.batch_shape) == 1:
        distribution = D.Independent(distribution, 1)
    recipe = _recipe(distribution)
    if recipe["distribution"] not in D.__all__:
        raise unknown("distribution", recipe["distribution"], D.__all__)
    try:
        _Given(recipe)()
    except (AssertionError, TypeError, ValueError):
        raise UntwineError(f"a prior cannot be made from the parameters of {distribution}") from None
    return Given(recipe)
