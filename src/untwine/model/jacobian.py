"""The Jacobian of a decoder's mean with respect to the latents, and estimators of its columns.

Exact columns are unit tangents, pushed forward through a pass that has been made already; so are finite differences.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from untwine.errors import UntwineError
from untwine.kernels.dispatch import Stage
from untwine.kernels.geometry import sum_unrolled
from untwine.model.layers import slope
from untwine.model.passes import Trace, push, recomputed, tangent_bytes, trace

# Tangents of one chunk may take this many bytes before the chunk is recomputed in the backward pass.
CHUNK_BYTES = 1 << 30


class _Added(torch.autograd.Function):
    """The sum over columns, whose gradient is the same for each."""

    generate_vmap_rule = True

    @staticmethod
    def forward(columns: Tensor) -> Tensor:
        return sum_unrolled(columns, 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.count = inputs[0].shape[:1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0].expand(*ctx.count, *gradients[0].shape)


def column_sum(
    passed: Trace,
    tangents: Float[Tensor, "columns batch latent"],
    function: Callable[[Tensor], Tensor],
    limit: int | None = None,
    finite: bool = False,
) -> Tensor:
    """The sum of `function(column)` over columns, `[batch, ...]`, in chunks, so that a step's memory is bounded.

    Columns go through the decoder a few at a time (faster on a CPU than one large batch).

    Args:
        passed: The pass through which tangents are pushed.
        tangents: The directions of the columns.
        function: Acts on each number, and must be pure: tensors that it closes over get no gradient.
        limit: The bytes that all columns may keep for the backward pass; beyond that each chunk is computed again
            there. None means `CHUNK_BYTES`.
        finite: Whether the tangents are steps, and a column the difference that a step makes (see `push`).
    """
    limit = CHUNK_BYTES if limit is None else limit
    one, columns = tangent_bytes(passed), tangents.shape[0]
    recompute = one * columns > limit and torch.is_grad_enabled()
    size = max(1, min(columns, limit // (2 * one) if recompute else columns, _preferred(tangents)))

    def added(columns: Tensor) -> Tensor:
        return _Added.apply(function(columns.to(tangents.dtype)))

    parts = tangents.split(size)
    if recompute:
        sums = [recomputed(passed, part, added, finite) for part in parts]
    else:
        sums = [added(push(passed, part, finite)) for part in parts]
    return functools.reduce(torch.add, sums)


def power_sum(
    passed: Trace, tangents: Float[Tensor, "columns batch latent"], p: int, eps: float | Tensor | None = None
) -> Float[Tensor, ""]:
    """The sum of |column|^p over columns, images and pixels.

    A last layer that acts on each pixel alone, such as a sigmoid, scales all exact columns of a pixel alike: its slopes
    scale the sum over columns instead of every column.

    Args:
        passed: The pass through which tangents are pushed.
        tangents: The directions of the columns.
        p: 1 or 2.
        eps: The step of finite differences; None takes exact columns.
    """
    power = torch.abs if p == 1 else torch.square
    if eps is not None:
        return _difference_sum(passed, eps * tangents, p) / eps**p
    if type(passed.layers[-1]) is nn.Identity:  # a mean that is the output itself
        passed = passed.shorter()
    slopes = slope(passed.layers[-1], passed.output)
    before = passed if slopes is None else passed.shorter()
    weights = power((torch.ones_like(passed.output) if slopes is None else slopes).to(tangents.dtype))
    last = before.layers[-1]
    if isinstance(last, Stage):
        norm = last.norm(before.kept[-1], push(before.shorter(), tangents), weights, p)
        if norm is not None:
            return norm
    return (column_sum(before, tangents, power) * weights).sum()


def _difference_sum(passed: Trace, steps: Float[Tensor, "columns batch latent"], p: int) -> Float[Tensor, ""]:
    """The sum of |difference|^p over columns, images and pixels, of the differences that steps make."""
    before = passed.shorter()
    if type(passed.layers[-1]) is nn.Sigmoid and before.layers and isinstance(last := before.layers[-1], Stage):
        pushed = push(before.shorter(), steps, finite=True)
        norm = last.sigmoid_difference_norm(before.kept[-1], pushed, before.output, p)
        if norm is not None:
            return norm
    return column_sum(passed, steps, torch.abs if p == 1 else torch.square, finite=True).sum()


def _preferred(tangents: Tensor) -> int:
    """How many columns to push at once."""
    return 2 if tangents.device.type == "cpu" else tangents.shape[0]


def unit_tangents(z: Float[Tensor, "batch latent"]) -> Float[Tensor, "latent batch latent"]:
    """Every latent direction at every point."""
    latents = z.shape[-1]
    return torch.eye(latents, dtype=_tangent_dtype(z), device=z.device)[:, None].expand(latents, *z.shape)


def chosen_tangents(
    z: Float[Tensor, "batch latent"], chosen: Int[Tensor, "batch columns"]
) -> Float[Tensor, "columns batch latent"]:
    """The chosen latent directions of each point."""
    return torch.nn.functional.one_hot(chosen.T, z.shape[-1]).to(_tangent_dtype(z))


def _tangent_dtype(z: Tensor) -> torch.dtype:
    return torch.float64 if z.dtype == torch.float64 else torch.float32


def centred(
    z: Float[Tensor, "batch latent"], tangents: Float[Tensor, "columns batch latent"], eps: float | Tensor
) -> tuple[Float[Tensor, "examples latent"], Float[Tensor, "1 examples latent"]]:
    """Where central differences begin, columns and points as one batch, and their directions.

    A step `eps` from there has z halfway: a pass at these points gives central differences as any other pass gives
    one-sided ones.

    Args:
        z: The points.
        tangents: The directions of the columns.
        eps: The length of the steps.

    >>> centred(torch.zeros(1, 2), torch.eye(2)[:, None], 0.2)[0]
    tensor([[-0.1000,  0.0000],
            [ 0.0000, -0.1000]])
    """
    return (z - eps / 2 * tangents).flatten(0, 1), tangents.flatten(0, 1)[None]


def choose(uniforms: Float[Tensor, "batch latent"], k: int) -> Int[Tensor, "batch {k}"]:
    """k of d columns for each point, without replacement; every subset is equally likely.

    Args:
        uniforms: Random numbers that decide.
        k: How many columns.
    """
    return uniforms.argmin(-1, keepdim=True) if k == 1 else uniforms.topk(k, largest=False).indices


def jacobian(
    decode: nn.Module,
    z: Float[Tensor, "batch latent"],
    estimator: str = "exact",
    eps: float = 1e-3,
    chunk: int | None = None,
    columns: int = 1,
    uniforms: Float[Tensor, "batch latent"] | None = None,
) -> Float[Tensor, "batch latent ..."]:
    """The Jacobian of `decode` at each z: `[batch, latent, *pixels]`.

    Args:
        decode: The network.
        z: Where to take it.
        estimator: "exact" pushes tangents forward, "finite" one-sided differences, "central" those from z - eps/2 to
            z + eps/2; "sampled" takes some of the d columns of each point, times d / columns, and leaves the others
            zero: its expectation is the Jacobian.
        eps: The step of finite differences.
        chunk: How many exact columns are pushed at once; None pushes all.
        columns: How many columns are sampled.
        uniforms: Random numbers that choose the sampled columns.

    >>> jacobian(nn.Linear(2, 5), torch.zeros(3, 2)).shape
    torch.Size([3, 2, 5])
    """
    if estimator == "exact":
        passed, tangents = trace(decode, z), unit_tangents(z)
        return torch.cat([push(passed, part) for part in tangents.split(chunk or len(tangents))]).transpose(0, 1)
    if estimator == "finite":
        return (push(trace(decode, z, finite=True), eps * unit_tangents(z), finite=True) / eps).transpose(0, 1)
    if estimator == "central":
        points, directions = centred(z, unit_tangents(z), eps)
        [differences] = push(trace(decode, points, finite=True), eps * directions, finite=True)
        return (differences / eps).unflatten(0, (-1, len(z))).transpose(0, 1)
    if estimator == "sampled":
        if uniforms is None or not 1 <= columns <= z.shape[-1]:
            raise UntwineError("a sampled Jacobian needs uniforms [batch, latent] and 1 to d columns")
        tangents = chosen_tangents(z, choose(uniforms, columns))
        scaled = push(trace(decode, z), tangents) * (z.shape[-1] / columns)
        return torch.einsum("cbd,cb...->bd...", tangents, scaled)
    raise UntwineError(f"unknown estimator {estimator!r}; it is 'exact', 'finite', 'central' or 'sampled'")
