"""A chain of convolutions as one operation has the values, tangents and gradients of its layers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expected import numbers
from torch import Tensor, nn
from torch.func import functional_call, vmap

from untwine.kernels import norm_operators, operators
from untwine.kernels.chains.links import Mask
from untwine.kernels.dispatch import Stage, fast, stages
from untwine.kernels.geometry import Geometry
from untwine.kernels.layers import Conv2d, ConvTranspose2d, Linear
from untwine.model.jacobian import column_sum, power_sum, unit_tangents
from untwine.model.passes import flatten, push, trace

MEMBERS, BATCH, LATENTS = 3, 5, 2
# The input shape, the layers, and whether the last two are one `conv_up_fold`.
CHAINS: dict[str, tuple[tuple[int, int, int], Callable[[], list[nn.Module]], bool]] = {
    "to one channel": (
        (4, 3, 3),
        lambda: [ConvTranspose2d(4, 3, 4, 2, 1), nn.ReLU(), ConvTranspose2d(3, 1, 4, 2, 1)],
        True,
    ),
    "to three channels": (
        (4, 2, 3),
        lambda: [
            *(ConvTranspose2d(4, 3, 3, 2, 1, 1), nn.ReLU()),
            *(ConvTranspose2d(3, 2, 4, 2, 1, 1), nn.ReLU()),
            ConvTranspose2d(2, 3, 3, 1, 1),
        ],
        True,
    ),
    "three layers up": (
        (4, 2, 3),
        lambda: [
            *(ConvTranspose2d(4, 3, 4, 2, 1), nn.ReLU()),
            *(ConvTranspose2d(3, 2, 4, 2, 1), nn.ReLU()),
            ConvTranspose2d(2, 1, 4, 2, 1),
        ],
        True,
    ),
    "to many channels": (
        (4, 3, 3),
        lambda: [ConvTranspose2d(4, 3, 3, 1), nn.ReLU(), ConvTranspose2d(3, 5, 4, 2, 1)],
        False,
    ),
    "down and up": ((2, 7, 7), lambda: [Conv2d(2, 3, 4, 2), nn.ReLU(), ConvTranspose2d(3, 1, 4, 2, 0, 1)], False),
    "up and down": ((2, 4, 3), lambda: [ConvTranspose2d(2, 3, 4, 2, 1), nn.ReLU(), Conv2d(3, 2, 3, 2, 1)], False),
    "a ReLU at the end": ((1, 9, 8), lambda: [Conv2d(1, 3, 4, 2), nn.ReLU(), Conv2d(3, 4, 3, 2, 1), nn.ReLU()], False),
    "no biases": (
        (3, 3, 3),
        lambda: [ConvTranspose2d(3, 2, 4, 2, 1, bias=False), nn.ReLU(), ConvTranspose2d(2, 1, 4, 2, 1, bias=False)],
        True,
    ),
    "one layer": ((2, 5, 6), lambda: [Conv2d(2, 3, 3, 2, 1)], False),
    "one layer and a ReLU": ((2, 3, 3), lambda: [ConvTranspose2d(2, 3, 4, 2, 1), nn.ReLU()], False),
}
every_chain = pytest.mark.parametrize("name", CHAINS)


def network(name: str) -> nn.Sequential:
    """The chain between a dense layer and a Sigmoid, in float64, with weights that matter."""
    shape, layers, _ = CHAINS[name]
    made = nn.Sequential(
        Linear(LATENTS, shape[0] * shape[1] * shape[2]), nn.Unflatten(1, shape), *layers(), nn.Sigmoid()
    )
    made = made.double()
    for number, parameter in enumerate(made.parameters()):
        parameter.data = 0.5 * numbers(*parameter.shape, seed=number)
    return made


class Everything(nn.Module):
    """The output at x, its tangents in all directions, and those of every other example in one direction."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        passed = trace(self.inner, x)
        some = slice(0, 5, 2)
        return passed.output, push(passed, unit_tangents(x)), push(passed.at(some), unit_tangents(x[some])[:1])


class Finite(nn.Module):
    """The output, differences by large and small steps, tangents, and differences for a part of the batch."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        passed, some = trace(self.inner, x, finite=True), slice(0, 5, 2)
        steps = unit_tangents(x)
        return (
            passed.output,
            *(push(passed, eps * steps, finite=True) / eps for eps in (1.0, 1e-3)),
            push(passed, steps),
            push(passed.at(some), steps[:1, some], finite=True),
            power_sum(passed, steps, 1, 0.5),
        )


def slopes(found: tuple[Tensor, ...], given: list[Tensor]) -> list[Tensor]:
    """Gradients of some function of all that was found."""
    total = sum((one * numbers(*one.shape, seed=7)).sum() for one in found)
    return list(torch.autograd.grad(total, given))  # type: ignore[arg-type]


def both_ways(function: Callable[..., tuple[Tensor, ...]], *given: Any, tolerance: float = 1e-10) -> None:
    """The same values and gradients by kernels and by layers.

    Sums of up to some thousand products, in another order: their last bits are 1e-12 of the result apart, and more
    where it is small. A slip would show in the first digits.
    """
    tensors = [leaf for one in given for leaf in (one.values() if isinstance(one, dict) else [one])]
    for tensor in tensors:
        tensor.requires_grad_()
    plain = function(*given)
    expected = slopes(plain, tensors)
    with fast():
        quick = function(*given)
        found = slopes(quick, tensors)
    for a, b in zip((*quick, *found), (*plain, *expected), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def pack(module: nn.Module) -> dict[str, Tensor]:
    """Parameters of a few members, as columns of one matrix, as in training."""
    own = {name: value.detach() for name, value in module.named_parameters()}
    rows = torch.cat([value.flatten() for value in own.values()]) + 0.2 * numbers(
        MEMBERS, sum(value.numel() for value in own.values()), seed=9
    )
    pieces = rows.split([value.numel() for value in own.values()], 1)
    return {name: piece.view(MEMBERS, *value.shape) for piece, (name, value) in zip(pieces, own.items(), strict=True)}


@every_chain
def test_a_chain_is_one_stage(name: str) -> None:
    made = network(name)
    with fast():
        [stage] = [layer for layer in stages(flatten(made)) if isinstance(layer, Stage)]
    assert list(stage.layers) == list(made)[2:-1]
    assert stage._plan(CHAINS[name][0][1:], False).folds == CHAINS[name][2]


@every_chain
def test_alone(name: str) -> None:
    made = Everything(network(name))
    parameters = {key: value.detach().clone() for key, value in made.named_parameters()}
    both_ways(lambda p, x: functional_call(made, p, (x,)), parameters, numbers(BATCH, LATENTS))


@every_chain
def test_members(name: str) -> None:
    made = Everything(network(name))
    both_ways(vmap(lambda p, x: functional_call(made, p, (x,))), pack(made), numbers(MEMBERS, BATCH, LATENTS))


@pytest.mark.parametrize("places", [(0, None), (None, 0)])
def test_members_that_share(places: tuple[int | None, int | None]) -> None:
    """The examples, or the weights."""
    made = Everything(network("to one channel"))
    parameters = pack(made) if places[0] == 0 else {k: v.detach().clone() for k, v in made.named_parameters()}
    x = numbers(*(() if places[1] is None else (MEMBERS,)), BATCH, LATENTS)
    both_ways(vmap(lambda p, x: functional_call(made, p, (x,)), in_dims=places), parameters, x)


@every_chain
def test_differences(name: str) -> None:
    """Differences of one model and of members agree; the gradient of where kinks lie goes through the values."""
    made = Finite(network(name))
    parameters = {key: value.detach().clone() for key, value in made.named_parameters()}
    both_ways(lambda p, x: functional_call(made, p, (x,)), parameters, numbers(BATCH, LATENTS))
    both_ways(vmap(lambda p, x: functional_call(made, p, (x,))), pack(made), numbers(MEMBERS, BATCH, LATENTS))


@every_chain
def test_differences_alone(name: str) -> None:
    """Where nothing else has a gradient: the gradient is that of the difference of two passes."""
    made = network(name)
    x = numbers(BATCH, LATENTS).requires_grad_()
    given, step = [x, *made.parameters()], 0.7 * unit_tangents(x)[:1]
    expected = torch.autograd.grad((made(x + step[0]) - made(x)).abs().sum(), given)
    with fast():
        found = torch.autograd.grad(push(trace(made, x, finite=True), step, finite=True).abs().sum(), given)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", [nn.SiLU, nn.Softplus, nn.GELU])
def test_other_activations_between_chains(kind: type[nn.Module]) -> None:
    """Each layer is a chain of its own: values, tangents, differences, norms and all gradients are those of layers."""
    first, *rest = network("three layers up")
    inner = nn.Sequential(first, kind(), *(kind() if type(layer) is nn.ReLU else layer for layer in rest))
    with fast():
        assert sum(isinstance(layer, Stage) for layer in stages(flatten(inner))) == 3
    tolerance = 1e-9 if kind is nn.GELU else 1e-12  # its ends are subtracted, which multiplies last bits by 1 / eps
    for made in (Everything(inner), Finite(inner), Norm(inner, 1)):
        call = lambda p, x, made=made: functional_call(made, p, (x,))
        parameters = {key: value.detach().clone() for key, value in made.named_parameters()}
        both_ways(call, parameters, numbers(BATCH, LATENTS), tolerance=tolerance)
        both_ways(vmap(call), pack(made), numbers(MEMBERS, BATCH, LATENTS), tolerance=tolerance)


class Sums(nn.Module):
    """A sum over columns that recomputes its chunks in the backward pass."""

    def __init__(self, inner: nn.Module, limit: int | None):
        super().__init__()
        self.inner, self.limit = inner, limit

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (column_sum(trace(self.inner, x), unit_tangents(x), torch.abs, self.limit),)


@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("limit", [1, None])
@pytest.mark.parametrize("name", ["to one channel", "a ReLU at the end"])
def test_chunks_that_are_recomputed(name: str, limit: int | None) -> None:
    made = Sums(network(name), limit)
    both_ways(vmap(lambda p, x: functional_call(made, p, (x,))), pack(made), numbers(MEMBERS, BATCH, LATENTS))


class Norm(nn.Module):
    """The sum of the tangents' powers, of the whole batch and of a part of it."""

    def __init__(self, inner: nn.Module, p: int):
        super().__init__()
        self.inner, self.p = inner, p

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        passed, some = trace(self.inner, x), slice(1, 5, 3)
        whole = power_sum(passed, unit_tangents(x), self.p)
        return passed.output, whole, power_sum(passed.at(some), unit_tangents(x[some])[1:], self.p)


@pytest.mark.parametrize("last", [[nn.Sigmoid()], []], ids=["sigmoid", "linear"])
@pytest.mark.parametrize("p", [1, 2])
def test_norms_of_tangents(p: int, last: list[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    """The last two layers of three give the norm and its gradient at once."""
    used, original = [], norm_operators.tangent_norm
    monkeypatch.setattr(norm_operators, "tangent_norm", lambda *given: used.append(1) or original(*given))
    made = Norm(nn.Sequential(*list(network("three layers up"))[:-1], *last), p)
    call = lambda p, x: functional_call(made, p, (x,))
    alone = {key: value.detach().clone() for key, value in made.named_parameters()}
    both_ways(call, alone, numbers(BATCH, LATENTS))
    both_ways(vmap(call), pack(made), numbers(MEMBERS, BATCH, LATENTS))
    assert len(used) == 4


class DifferenceNorms(nn.Module):
    """The sum of the differences' powers, of the whole batch and of a part of it, by two steps."""

    def __init__(self, inner: nn.Module, p: int):
        super().__init__()
        self.inner, self.p = inner, p

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        passed, some = trace(self.inner, x, finite=True), slice(1, 5, 3)
        whole = power_sum(passed, unit_tangents(x), self.p, 0.7)
        return passed.output, whole, power_sum(passed.at(some), unit_tangents(x[some])[1:], self.p, 1e-3)


@pytest.mark.parametrize("p", [1, 2])
def test_norms_of_differences(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last two layers of three give the norm and its gradient at once: kinks that are crossed included."""
    used, original = [], norm_operators.difference_norm
    monkeypatch.setattr(norm_operators, "difference_norm", lambda *given: used.append(1) or original(*given))
    made = DifferenceNorms(network("three layers up"), p)
    call = lambda p, x: functional_call(made, p, (x,))
    alone = {key: value.detach().clone() for key, value in made.named_parameters()}
    both_ways(call, alone, numbers(BATCH, LATENTS))
    both_ways(vmap(call), pack(made), numbers(MEMBERS, BATCH, LATENTS))
    assert len(used) == 4


def test_masks_that_are_known_as_bits_alone() -> None:
    """A kernel that reads values gets zeros and ones."""
    mask = Mask(torch.empty(2, 0), torch.tensor([[5], [128]], dtype=torch.uint8))
    assert torch.equal(mask.for_kernel(cuda=True), mask.bits)
    expected = [[1, 0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1]]
    assert torch.equal(mask.for_kernel(cuda=False), torch.tensor(expected).float())


def test_an_example_without_weights_to_train() -> None:
    """Where only the input needs a gradient, or nothing does."""
    made = network("to one channel").requires_grad_(False)
    x = numbers(BATCH, LATENTS).requires_grad_()
    expected = torch.autograd.grad(made(x).square().sum(), x)[0]
    with fast():
        found = torch.autograd.grad(trace(made, x).output.square().sum(), x)[0]
        assert not trace(made, x.detach()).output.requires_grad
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_kernels_get_contiguous_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels take strides of masks, and between members of images; everything else must be contiguous."""
    seen = []

    class Spy:
        def __getattr__(self, name: str) -> Any:
            def call(*given: Any) -> Any:
                seen.append(name)
                assert all(one[0, 0].is_contiguous() for one in given if isinstance(one, Tensor) and one.ndim == 5)
                assert all(one.is_contiguous() for one in given if isinstance(one, Tensor) and one.ndim != 5)
                return getattr(operators.torch_reference, name)(*given)

            return call

    monkeypatch.setattr(operators, "triton_or_torch", lambda x: Spy())
    made = Everything(network("to three channels"))
    parameters = {name: value.requires_grad_() for name, value in pack(made).items()}
    with fast():
        found = vmap(lambda p, x: functional_call(made, p, (x,)))(parameters, numbers(MEMBERS, BATCH, LATENTS))
        slopes(found, list(parameters.values()))
    assert {"conv_up", "fold", "conv_down", "weight_gradient"} <= set(seen)


def test_only_what_doubles_the_sides_is_folded_by_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "has_cuda_kernel", lambda x, g, what: what == "conv_up_fold")
    before, x = Geometry(32, 32, 32, 16, 16, 32, 4, 2, 1), torch.zeros(1)
    assert operators.has_cuda_fold(x, before, Geometry(64, 64, 1, 32, 32, 32, 4, 2, 1))
    for other in [(64, 64, 3, 32, 32, 32, 4, 2, 1), (66, 66, 1, 32, 32, 32, 4, 2, 0), (65, 65, 1, 32, 32, 32, 4, 2, 1)]:
        assert not operators.has_cuda_fold(x, before, Geometry(*other))
    assert not operators.has_cuda_fold(x, before, Geometry(64, 64, 1, 32, 32, 32, 3, 2, 1))
    assert not operators.has_cuda_fold(x, before, Geometry(32, 32, 1, 32, 32, 32, 3, 1, 1))
