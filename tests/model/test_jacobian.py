"""The decoder's Jacobian: exact, sampled, in chunks, and its gradients."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
from torch import nn
from torch.func import jacrev, vmap

from untwine.errors import UntwineError
from untwine.kernels.differences import activation_slope, is_smooth, is_supported
from untwine.kernels.layers import Linear
from untwine.model import jacobian as J
from untwine.model.check import check_jacobian
from untwine.model.layers import ACTIVATIONS, difference_rule, rule
from untwine.model.passes import flatten, is_known, push, trace


class Residual(nn.Module):
    """A user's own layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.sin(self.inner(x)) * x.square().mean(-1, keepdim=True)


class Doubling(nn.ReLU):
    """A subclass of a known layer that does something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def dense(*middle: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 8), *middle, nn.Linear(8, 4))


def images(*middle: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 32), nn.Unflatten(1, (2, 4, 4)), *middle)


DECODERS = {
    "every known layer": lambda: nn.Sequential(
        *(nn.Linear(3, 32), nn.LeakyReLU(0.1), nn.Unflatten(1, (2, 4, 4)), nn.Conv2d(2, 4, 3, 1, 1), nn.Tanh()),
        *(nn.ConvTranspose2d(4, 2, 4, 2, 1), nn.ReLU(), nn.Identity(), nn.Flatten(), nn.Linear(128, 5), nn.Sigmoid()),
    ),
    "nested": lambda: nn.Sequential(dense(nn.Sequential(nn.Tanh(), nn.Sequential())), nn.Sigmoid()),
    **{name: lambda kind=kind: dense(kind()) for name, kind in ACTIVATIONS.items()},
    "mish, selu, softmax": lambda: dense(nn.Mish(), nn.SELU(), nn.Softmax(-1)),
    "group norm": lambda: dense(nn.GroupNorm(2, 8), nn.ELU()),
    "group norm on images": lambda: images(nn.GroupNorm(2, 2), nn.SiLU(), nn.Conv2d(2, 1, 3)),
    "group norm, known layers alone": lambda: dense(nn.GroupNorm(2, 8), nn.Tanh()),
    "group norm without a scale": lambda: images(nn.GroupNorm(1, 2, affine=False), nn.ReLU(), nn.Conv2d(2, 1, 3)),
    "layer norm": lambda: dense(nn.LayerNorm(8)),
    "residual": lambda: dense(Residual(), nn.GELU(), Residual()),
    "not a sequence": lambda: Whole(),
    "subclass": lambda: dense(Doubling()),
    "upsampling": lambda: images(nn.Upsample(scale_factor=2), nn.Conv2d(2, 3, 3, padding="same"), nn.Softplus()),
    "circular padding": lambda: images(nn.Conv2d(2, 3, 3, 1, 1, padding_mode="circular")),
    "dilated groups": lambda: images(nn.Conv2d(2, 4, 3, 2, 2, 2, 2), nn.ConvTranspose2d(4, 2, 3, 2, 1, 1, 2, True, 1)),
    "dilated transpose": lambda: images(nn.ConvTranspose2d(2, 3, 3, 2, 1, 1, dilation=2)),
    "flatten some": lambda: images(nn.Flatten(1, 2), nn.Conv1d(8, 3, 2)),
    "flatten from 2": lambda: images(nn.Flatten(2), nn.Linear(16, 3)),
    "in place": lambda: dense(nn.SiLU(inplace=True), nn.Tanh(), nn.LeakyReLU(0.5, inplace=True), nn.ELU(inplace=True)),
    "in place, within": lambda: nn.Sequential(Whole(nn.SiLU(inplace=True)), nn.ELU(inplace=True), nn.Linear(4, 2)),
}


class Whole(nn.Module):
    def __init__(self, act: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(3, 8), act or nn.Tanh(), nn.Linear(8, 4)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.last(self.act(self.first(z))) * z[:, :1]


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    return DECODERS[name]()


def points(count: int = 3, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(1)).to(dtype)


def out_of_place(decoder: nn.Module) -> nn.Module:
    decoder = copy.deepcopy(decoder)
    for module in decoder.modules():
        if hasattr(module, "inplace"):
            module.inplace = False
    return decoder


def reverse(decoder: nn.Module, z: torch.Tensor) -> torch.Tensor:
    """The Jacobian by reverse mode, each example alone: [batch, latent, *pixels]."""
    decoder = out_of_place(decoder)
    return torch.stack([jacrev(lambda v: decoder(v[None])[0])(one) for one in z]).movedim(-1, 1)


# --- values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DECODERS)
def test_exact_is_the_jacobian(name):
    decoder, z = make(name), points()
    kept = z.clone()
    columns = J.jacobian(decoder, z)
    expected = reverse(decoder, z)
    assert columns.shape == expected.shape and expected.abs().max() > 1e-3
    assert torch.allclose(columns, expected, rtol=1e-5, atol=1e-5 * expected.abs().max().item())
    assert torch.allclose(J.jacobian(decoder, z, chunk=1), columns, rtol=1e-5, atol=1e-6)
    assert torch.equal(z, kept)


@pytest.mark.parametrize("name", DECODERS)
def test_gradients_of_a_penalty_on_it(name):
    """Against reverse over reverse, in float64. (LayerNorm: see `check`.)"""
    decoder, z = make(name).double(), points(2, torch.float64).requires_grad_()

    def gradients(decoder: nn.Module, columns: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wanted = [z, *decoder.parameters()]
        return torch.autograd.grad(columns.abs().sum(), wanted, allow_unused=True, materialize_grads=True)

    plain = out_of_place(decoder)
    theirs = gradients(plain, vmap(jacrev(lambda v: plain(v[None])[0]))(z))
    ours = gradients(decoder, J.jacobian(decoder, z))
    agree = all(torch.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(ours, theirs, strict=True))
    assert agree == (name != "layer norm")
    assert max(g.abs().max() for g in theirs) > 1e-3


def test_known_layers_share_the_pass_and_others_do_not_pass_for_known():
    assert all(rule(layer) is not None for layer in flatten(make("every known layer")))
    for name in ("nested", "silu", "softplus", "gelu", "group norm, known layers alone", "group norm without a scale"):
        assert is_known(make(name)), name
    assert is_known(nn.Sequential(Linear(3, 2)))
    for name in ("residual", "subclass", "circular padding", "group norm", "flatten from 2"):
        assert not is_known(make(name)), name


def test_trace_is_the_pass():
    decoder, z = make("every known layer"), points()
    passed = trace(decoder, z)
    assert torch.equal(passed.output, decoder(z)) and passed.values[0] is z
    assert len(passed.values) == len(passed.layers) + 1 == 12
    longer = passed.then(nn.Tanh())
    assert torch.equal(longer.output, decoder(z).tanh()) and len(passed.layers) == 11


def test_any_direction_can_be_pushed():
    decoder, z = make("residual"), points()
    directions = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(2))
    expected = torch.einsum("cbl,blp->cbp", directions, reverse(decoder, z))
    assert torch.allclose(push(trace(decoder, z), directions), expected, rtol=1e-5, atol=1e-6)


def test_under_vmap_as_in_a_loop():
    """Members with their own weights, known and unknown layers."""
    for name in ("every known layer", "residual", "group norm on images"):
        members = [copy.deepcopy(make(name)) for _ in range(3)]
        for index, member in enumerate(members):
            for parameter in member.parameters():
                parameter.data.mul_(1 + 0.1 * index)
        stacked, _ = torch.func.stack_module_state(members)
        z = torch.stack([points(), points() + 1, points() - 1])

        class Call(nn.Module):
            def __init__(self, inner: nn.Module) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, z: torch.Tensor) -> torch.Tensor:
                return J.jacobian(self.inner, z)

        call = Call(members[0])
        together = vmap(
            lambda p, z, call=call: torch.func.functional_call(call, {f"inner.{k}": v for k, v in p.items()}, (z,))
        )(stacked, z)
        singly = torch.stack([J.jacobian(member, one) for member, one in zip(members, z, strict=True)])
        assert torch.allclose(together, singly, rtol=1e-5, atol=1e-6)


# --- finite differences -----------------------------------------------------------------------------


def test_finite_differences_are_noisier_than_the_exact_way():
    """rhodes2021, 4.1: eps = 1e-3 in float32, both against float64."""
    decoder, z = nn.Sequential(make("residual"), nn.Sigmoid()), points(20)
    truth = J.jacobian(copy.deepcopy(decoder).double(), z.double())
    exact = (J.jacobian(decoder, z).double() - truth).abs().max()
    finite = (J.jacobian(decoder, z, "finite").double() - truth).abs().max()
    assert finite > 10 * exact
    assert finite < 1e-2  # but it is the same thing


def test_finite_differences_converge_at_first_order_with_the_right_sign():
    """The paper's (g(z) - g(z_i)) / eps has the sign of minus the Jacobian; norms do not see it, ours has it right."""
    decoder, z = make("tanh").double(), points(dtype=torch.float64)
    truth = reverse(decoder, z)
    errors = [(J.jacobian(decoder, z, "finite", eps) - truth).abs().max().item() for eps in (1e-3, 1e-4, 1e-5)]
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.01) and errors[1] / errors[2] == pytest.approx(10, rel=0.01)
    assert errors[2] < 1e-5


def test_central_differences_converge_at_second_order():
    decoder, z = make("tanh").double(), points(dtype=torch.float64)
    truth = reverse(decoder, z)
    errors = [(J.jacobian(decoder, z, "central", eps) - truth).abs().max().item() for eps in (1e-1, 1e-2, 1e-3)]
    assert errors[0] / errors[1] == pytest.approx(100, rel=0.01) and errors[1] / errors[2] == pytest.approx(
        100, rel=0.01
    )
    assert errors[1] < 0.01 * (J.jacobian(decoder, z, "finite", 1e-2) - truth).abs().max()


def differences(decoder: nn.Module, z: torch.Tensor, eps: float, estimator: str = "finite") -> torch.Tensor:
    """(g(z + eps e) - g(z)) / eps, or that around z, by two passes: [batch, latent, *pixels]."""
    start = {"finite": 0.0, "central": -0.5}[estimator]
    steps = eps * torch.eye(3).to(z.dtype)
    return torch.stack([(decoder(z + (1 + start) * step) - decoder(z + start * step)) / eps for step in steps], 1)


@pytest.mark.parametrize("estimator", ["finite", "central"])
@pytest.mark.parametrize("eps", [1e-3, 0.7])
@pytest.mark.parametrize("name", DECODERS)
def test_differences_layer_by_layer_are_those_of_two_passes(name, eps, estimator):
    """With the same gradients, also where kinks are crossed: in float64, known layers and others."""
    decoder, z = make(name).double(), points(2, torch.float64).requires_grad_()
    plain = out_of_place(decoder)
    ours, theirs = J.jacobian(decoder, z, estimator, eps), differences(plain, z, eps, estimator)
    assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    for p in (1, 2):
        found, expected = (
            torch.autograd.grad(
                columns.abs().pow(p).sum(), [z, *network.parameters()], retain_graph=True, materialize_grads=True
            )
            for columns, network in ((ours, decoder), (theirs, plain))
        )
        assert max(gradient.abs().max() for gradient in expected) > 1e-3
        for mine, other in zip(found, expected, strict=True):
            assert torch.allclose(mine, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    "layer",
    [
        *(nn.ReLU(), nn.LeakyReLU(0.2), nn.Sigmoid(), nn.Tanh(), nn.SiLU(), nn.Softplus(), nn.Softplus(3.0, 25.0)),
        *(nn.GELU(), nn.GELU("tanh"), nn.Softplus(threshold=1.0), nn.ELU()),
    ],
    ids=str,
)
def test_differences_of_activations(layer):
    """Small and large steps, to both sides, at inputs as large as they may be; nothing of a small step is lost."""
    a = torch.tensor([-200.0, -30.0, -2.0, -1e-4, 0.0, 1e-4, 2.0, 30.0, 200.0])
    d = torch.tensor([-400.0, -90.0, -3.0, -1e-6, 0.0, 1e-6, 3.0, 90.0, 400.0])[:, None].expand(-1, 9)
    ours = [tensor.clone().requires_grad_() for tensor in (a, d)]
    theirs = [tensor.double().requires_grad_() for tensor in (a, d)]
    found = difference_rule(layer)(layer, ours[0], ours[0], ours[1])
    expected = layer(theirs[0] + theirs[1]) - layer(theirs[0])
    closed = is_supported(layer) and type(layer) is not nn.GELU  # a GELU's differences have no closed form
    assert torch.allclose(found.double(), expected, rtol=1e-5, atol=1e-9 if closed else 1e-5)
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(0))
    mine = torch.autograd.grad((found * weights).sum(), ours)
    for one, other in zip(mine, torch.autograd.grad((expected * weights).sum(), theirs), strict=True):
        assert torch.allclose(one.double(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", [nn.SiLU(), nn.Softplus(), nn.Softplus(3.0, 25.0), nn.GELU()], ids=str)
def test_slopes_of_smooth_activations(layer):
    """Against automatic differentiation, to the second derivative, in float64."""
    x = torch.linspace(-8, 8, 65, dtype=torch.float64, requires_grad=True)
    [expected] = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
    found = activation_slope(layer, x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    ours, theirs = (torch.autograd.grad(slope.sum(), x)[0] for slope in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_what_is_not_known_of_smooth_activations():
    """A GELU by tanh, and a softplus that torch cuts off where it is not yet the identity."""
    for layer in (nn.GELU("tanh"), nn.Softplus(threshold=1.0), nn.ELU(), nn.ReLU()):
        assert not is_smooth(layer)
    assert rule(nn.GELU("tanh")) is None is rule(nn.Softplus(threshold=1.0))


@pytest.mark.parametrize("limit", [1, 4000, None])
@pytest.mark.parametrize("name", ["every known layer", "residual"])
def test_chunks_of_differences_change_nothing(name, limit):
    decoder, z = make(name).double(), points(dtype=torch.float64).requires_grad_()
    wanted = [z, *decoder.parameters()]
    steps = 0.3 * J.unit_tangents(z)

    def with_gradients(total: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return total, *torch.autograd.grad(total, wanted, materialize_grads=True)

    found = with_gradients(J.column_sum(trace(decoder, z, True), steps, torch.square, limit, True).sum() / 0.09)
    expected = with_gradients(differences(decoder, z, 0.3).square().sum())
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("estimator", ["finite", "central"])
@pytest.mark.parametrize("name", ["every known layer", "nested"])
def test_small_steps_need_no_more_precision_than_tangents(name, estimator):
    """In float32, where two passes would leave little: against float64."""
    decoder, z = make(name), points(20)
    truth = J.jacobian(copy.deepcopy(decoder).double(), z.double(), estimator, 1e-5)
    assert torch.allclose(J.jacobian(decoder, z, estimator, 1e-5).double(), truth, rtol=1e-4, atol=1e-6)
    assert (differences(decoder, z, 1e-5).double() - truth).abs().max() > 1e-3


def test_differences_need_a_pass_that_was_made_for_them():
    decoder, z = make("tanh"), points()
    passed, steps = trace(decoder, z), J.unit_tangents(z)
    for limit in (1, None):
        with pytest.raises(UntwineError, match=r"declare Needs\(differences=True\)"):
            J.column_sum(passed, steps, torch.abs, limit, finite=True)


def test_an_unknown_estimator_is_refused():
    with pytest.raises(UntwineError, match=r"unknown estimator 'exakt'.*'exact'"):
        J.jacobian(make("tanh"), points(), "exakt")
    with pytest.raises(UntwineError, match="a sampled Jacobian needs uniforms"):
        J.jacobian(make("tanh"), points(), "sampled")


# --- columns ----------------------------------------------------------------------------------------


def test_choose_takes_each_subset_equally_often_and_never_twice_the_same():
    orders = torch.tensor(list(itertools.permutations(range(5)))) / 5 + 0.1  # every order of five uniforms
    for k in range(1, 6):
        chosen = J.choose(orders, k)
        assert all(len(set(row)) == k for row in chosen.tolist())
        subsets = [tuple(sorted(row)) for row in chosen.tolist()]
        expected = math.comb(5, k)
        assert len(set(subsets)) == expected
        assert {subsets.count(subset) for subset in set(subsets)} == {len(orders) // expected}


def test_choose_depends_on_each_point_alone():
    uniforms = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(J.choose(uniforms, 2)[3:4], J.choose(uniforms[3:4], 2))


def test_chosen_tangents_are_the_chosen_columns():
    decoder, z = make("residual"), points()
    chosen = torch.tensor([[2, 0], [1, 0], [2, 1]])
    columns = push(trace(decoder, z), J.chosen_tangents(z, chosen))
    whole = reverse(decoder, z)
    for example, picks in enumerate(chosen.tolist()):
        for place, latent in enumerate(picks):
            assert torch.allclose(columns[place, example], whole[example, latent], atol=1e-6)


@pytest.mark.parametrize("name", ["every known layer", "residual"])
@pytest.mark.parametrize("limit", [1, 4000, None])
def test_chunks_with_recomputation_change_nothing(name, limit):
    decoder, z = make(name).double(), points(dtype=torch.float64).requires_grad_()
    wanted = [z, *decoder.parameters()]

    def run(limit: int | None) -> tuple[torch.Tensor, ...]:
        total = J.column_sum(trace(decoder, z), J.unit_tangents(z), lambda c: c.abs().pow(1.5), limit).sum()
        return total, *torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)

    expected = J.jacobian(decoder, z).abs().pow(1.5).sum()
    direct = torch.autograd.grad(expected, wanted, allow_unused=True, materialize_grads=True)
    for ours, theirs in zip(run(limit), (expected, *direct), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def kept_bytes(function: object) -> int:
    """Bytes that autograd keeps for the backward pass of what the function computes."""
    total, seen = 0, set()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal total
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            total += tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = function()  # type: ignore[operator]
    result.backward()
    return total


def test_recomputation_keeps_less():
    torch.manual_seed(0)
    decoder = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    z = torch.randn(50, 8)

    def run(limit: int) -> int:
        passed, tangents = trace(decoder, z), J.unit_tangents(z)
        return kept_bytes(lambda: J.column_sum(passed, tangents, torch.square, limit).sum())

    assert run(1) < run(1 << 40) / 5


def test_recomputation_under_vmap(monkeypatch):
    """What a pack on a GPU does when its tangents are too large."""
    decoder = make("residual")
    z = torch.stack([points(), points() + 1])
    weights = {key: torch.stack((value, 1.1 * value)) for key, value in decoder.named_parameters()}

    class Call(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = decoder

        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return J.column_sum(trace(self.inner, z), J.unit_tangents(z), torch.abs).sum()

    def gradients() -> list[torch.Tensor]:
        leaves = {f"inner.{k}": v.detach().requires_grad_() for k, v in weights.items()}
        values = vmap(lambda p, z: torch.func.functional_call(Call(), p, (z,)))(leaves, z)
        wanted = list(leaves.values())
        return [values, *torch.autograd.grad(values.sum(), wanted, allow_unused=True, materialize_grads=True)]

    expected = gradients()
    monkeypatch.setattr(J, "CHUNK_BYTES", 1)
    for ours, theirs in zip(gradients(), expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_recomputation_under_vmap_keeps_less(monkeypatch):
    torch.manual_seed(0)
    decoder = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 64))
    weights = [torch.stack((p, 1.1 * p)).detach().requires_grad_() for p in decoder.parameters()]
    z = torch.randn(2, 50, 8)

    class Call(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = decoder

        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return J.column_sum(trace(self.inner, z), J.unit_tangents(z), torch.square).sum()

    def total() -> torch.Tensor:
        state = {f"inner.{name}": w for (name, _), w in zip(decoder.named_parameters(), weights, strict=True)}
        return vmap(lambda p, z: torch.func.functional_call(Call(), p, (z,)))(state, z).sum()

    whole = kept_bytes(total)
    monkeypatch.setattr(J, "CHUNK_BYTES", 1)
    assert kept_bytes(total) < whole / 5


# --- precision --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["every known layer", "residual"])
def test_tangents_stay_in_float32_under_autocast(name):
    decoder, z = make(name), points(30)
    # Without oneDNN: its bfloat16 kernels are an illegal instruction where AMX is announced but not allowed.
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", torch.bfloat16):
        passed = trace(decoder, z)
        columns = push(passed, J.unit_tangents(z))
        total = J.column_sum(passed, J.unit_tangents(z), torch.abs).sum()
    assert passed.output.dtype == torch.bfloat16
    assert columns.dtype == total.dtype == torch.float32
    exact = J.jacobian(decoder, z).transpose(0, 1)
    assert not torch.equal(columns, exact)  # the pass itself was rounded
    assert (columns - exact).norm() < 0.15 * exact.norm()  # a few of the ReLUs' masks flip


def test_tangents_of_float64_points_are_float64():
    z = points(dtype=torch.float64)
    assert J.unit_tangents(z).dtype == J.chosen_tangents(z, torch.zeros(3, 1, dtype=torch.int64)).dtype == torch.float64
    assert J.unit_tangents(z.bfloat16()).dtype == torch.float32


# --- the check of a user's decoder ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["residual", "group norm on images", "in place", "nested", *ACTIVATIONS])
def test_check_accepts_what_is_right(name):
    decoder = make(name)
    before = copy.deepcopy(decoder.state_dict())
    check_jacobian(decoder, 3)
    assert all(torch.equal(before[key], value) for key, value in decoder.state_dict().items())
    assert all(parameter.grad is None and parameter.dtype == torch.float32 for parameter in decoder.parameters())


def test_check_is_not_misled_by_the_kinks_of_many_relus():
    """Finite differences jump where a step crosses one; there are 1500 of them here, and a wrong layer stands out."""
    torch.manual_seed(0)
    wide = [nn.Linear(3, 500), nn.ReLU(), nn.Linear(500, 1000), nn.ReLU()]
    check_jacobian(nn.Sequential(*wide, nn.GroupNorm(4, 1000), nn.Linear(1000, 4)), 3)
    with pytest.raises(UntwineError, match="wrong gradients"):
        check_jacobian(nn.Sequential(*wide, nn.LayerNorm(1000), nn.Linear(1000, 4)), 3)


class Forgetful(nn.Module):
    """A layer whose tangent forgets part of its dependence on the weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.tanh() * self.weight.detach() + self.weight


class Overwriting(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(x)


@pytest.mark.parametrize(
    ("middle", "message"),
    [
        # In torch 2.13 reverse-over-forward is wrong for these two, and right for GroupNorm and RMSNorm.
        ((nn.LayerNorm(8),), "wrong gradients in this version of torch .*LayerNorm"),
        ((nn.Unflatten(1, (2, 4)), nn.InstanceNorm1d(2), nn.Flatten()), "wrong gradients .*InstanceNorm1d"),
        # Moving every example by the same step moves nothing behind a BatchNorm: its "Jacobian" is zero.
        ((nn.BatchNorm1d(8, track_running_stats=False),), "mixes the examples of a batch"),
        ((nn.Tanh(), nn.BatchNorm1d(8, track_running_stats=False)), "mixes the examples of a batch"),
        ((Forgetful(),), "wrong gradients .*Forgetful"),
        ((Overwriting(),), "in place|inplace"),
        ((nn.Dropout(),), "cannot be differentiated"),
    ],
)
def test_check_refuses_what_is_wrong(middle, message):
    torch.manual_seed(0)
    with pytest.raises(UntwineError, match=message):
        check_jacobian(dense(*middle), 3)


def test_check_accepts_normalisation_that_is_right():
    torch.manual_seed(0)
    check_jacobian(dense(nn.RMSNorm(8)), 3)
    check_jacobian(dense(nn.BatchNorm1d(8)).eval(), 3)
    with pytest.raises(UntwineError):  # the same layer in training
        check_jacobian(dense(nn.BatchNorm1d(8)).train(), 3)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_the_sampled_jacobian_is_unbiased(columns: int):
    """Every order of the columns once: their mean is the Jacobian itself, exactly."""
    decoder = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Unflatten(1, (1, 2, 2))).double()
    orders = torch.tensor(list(itertools.permutations((0.1, 0.5, 0.9))), dtype=torch.float64)
    z = torch.tensor([[0.3, -0.2, 0.7]], dtype=torch.float64)
    found = J.jacobian(decoder, z.expand(6, 3), "sampled", columns=columns, uniforms=orders)
    torch.testing.assert_close(found.mean(0), jacrev(lambda z: decoder(z[None])[0])(z[0]).movedim(-1, 0))
    assert ((found.flatten(2) != 0).any(-1).sum(1) == columns).all()
