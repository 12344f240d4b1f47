"""Which layers are joined to run as kernels, and when."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

import untwine as uw
from untwine.kernels.dispatch import Dense, Stage, fast, is_fast, stages
from untwine.kernels.layers import Conv2d, ConvTranspose2d, Linear
from untwine.model.info import Info
from untwine.model.passes import flatten, trace


def conv(**settings: object) -> nn.Conv2d:
    return nn.Conv2d(4, 4, **{"kernel_size": 3, **settings})  # type: ignore[arg-type]


class Other(nn.Conv2d):
    """A subclass that may do anything."""


class Leaky(nn.ReLU):
    """Likewise."""


# Layers, and how many of them each stage takes: 0 is a layer that stays as it is.
ROWS: dict[str, tuple[Callable[[], list[nn.Module]], list[int]]] = {
    "in a row": (lambda: [conv(), nn.ReLU(), conv(), nn.ReLU(), conv()], [5]),
    "torch's layers and ours": (lambda: [Conv2d(4, 4, 3), nn.ReLU(), ConvTranspose2d(4, 4, 3), nn.ReLU()], [4]),
    "without a ReLU between": (lambda: [conv(), conv(), nn.ReLU(), conv()], [1, 3]),
    "another activation": (lambda: [conv(), nn.Tanh(), conv(), nn.ReLU(), conv(), nn.Sigmoid()], [1, 0, 3, 0]),
    "a slope": (lambda: [conv(), nn.LeakyReLU(), conv()], [1, 0, 1]),
    "a subclass of ReLU": (lambda: [conv(), Leaky(), conv()], [1, 0, 1]),
    "a ReLU first": (lambda: [nn.ReLU(), conv(), nn.ReLU()], [0, 2]),
    "ReLU twice": (lambda: [conv(), nn.ReLU(), nn.ReLU(), conv()], [2, 0, 1]),
    "dense": (lambda: [Linear(3, 3), nn.ReLU(), nn.Flatten()], [0, 0, 0]),
    "nothing": (list, []),
}
# Layers that the kernels do not support.
STAY: dict[str, Callable[[], nn.Module]] = {
    "dilation": lambda: conv(dilation=2),
    "groups": lambda: conv(groups=2),
    "reflection": lambda: conv(padding=1, padding_mode="reflect"),
    "padding by name": lambda: conv(padding="same"),
    "an oblong kernel": lambda: conv(kernel_size=(3, 5)),
    "two strides": lambda: conv(stride=(1, 2)),
    "two paddings": lambda: conv(padding=(1, 0)),
    "gaps between kernels": lambda: conv(kernel_size=2, stride=3),
    "very many channels": lambda: nn.Conv2d(512, 4, 3),
    "a subclass": lambda: Other(4, 4, 3),
    "one dimension": lambda: nn.Conv1d(4, 4, 3),
    "transposed, dilation": lambda: nn.ConvTranspose2d(4, 4, 3, dilation=2),
    "transposed, groups": lambda: nn.ConvTranspose2d(4, 4, 3, groups=2),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_joined(name: str) -> None:
    layers, expected = ROWS[name][0](), ROWS[name][1]
    with fast():
        found = stages(layers)
    assert [len(one.layers) if isinstance(one, Stage) else 0 for one in found] == expected
    own = [one.layers if isinstance(one, Stage) else [one.layer if isinstance(one, Dense) else one] for one in found]
    opened = [inner for some in own for inner in some]
    assert all(a is b for a, b in zip(opened, layers, strict=True))


@pytest.mark.parametrize("bias", [True, False])
def test_dense_layers_of_a_pack(bias: bool) -> None:
    """Values, tangents and gradients are those of torch's own layer."""
    layers = [nn.Linear(5, 3, bias=bias).double() for _ in range(2)]
    state = {k: torch.stack([layer.state_dict()[k] for layer in layers]) for k in layers[0].state_dict()}
    x, tangents = torch.randn(2, 4, 5, dtype=torch.float64), torch.randn(2, 6, 4, 5, dtype=torch.float64)

    class Both(nn.Module):
        def __init__(self, layer: nn.Linear):
            super().__init__()
            self.layer, self.dense = layer, Dense(layer)

        def forward(self, x: Tensor, tangents: Tensor) -> Tensor:
            return self.dense(x).square().sum() + self.dense.push((), tangents).abs().sum()

    names = {f"layer.{key}": value.requires_grad_() for key, value in state.items()}
    both = Both(nn.Linear(5, 3, bias=bias).double())
    inputs = x.requires_grad_(), tangents.requires_grad_()
    found = vmap(lambda state, *given: functional_call(both, state, given))(names, *inputs)
    slopes = torch.autograd.grad(found.sum(), (*names.values(), *inputs))
    right, params = [], [dict(layer.named_parameters()) for layer in layers]
    for layer, a, b in zip(layers, *inputs, strict=True):
        right.append(layer(a).square().sum() + (b @ layer.weight.T).abs().sum())
    torch.testing.assert_close(found, torch.stack(right))
    own = torch.autograd.grad(sum(right), [p for one in params for p in one.values()] + list(inputs))
    per = [torch.stack([own[i], own[len(params[0]) + i]]) for i in range(len(params[0]))]
    for a, b in zip(slopes, [*per, *own[-2:]], strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", STAY)
def test_what_stays_a_layer(name: str) -> None:
    layer, after = STAY[name](), conv()
    with fast():
        found = stages([conv(), nn.ReLU(), layer, nn.ReLU(), after])
    assert [type(one) for one in found] == [Stage, type(layer), nn.ReLU, Stage]
    assert found[1] is layer


def test_only_while_it_is_asked_for() -> None:
    layers = [conv(), nn.ReLU(), conv()]
    module = nn.Sequential(*layers)
    x = torch.zeros(1, 4, 8, 8)
    assert not is_fast() and stages(layers) == layers
    with fast():
        with fast():
            assert is_fast()
        assert is_fast() and len(trace(module, x).layers) == 1
    assert not is_fast() and stages(layers) == layers
    with pytest.raises(ValueError, match="inside"), fast():
        raise ValueError("inside")
    passed = trace(module, x)
    assert not is_fast() and list(passed.layers) == layers and passed.kept == ((), (), ())


@pytest.mark.parametrize("name", ["rhodes64", "conv", "michlo64", "mathieu_dsprites", "locatello64"])
def test_published_networks_are_one_stage_each_way(name: str) -> None:
    encoder, decoder = getattr(uw.networks, name)().build(Info(latents=3, shape=(1, 64, 64), data_size=10), 6)
    with fast():
        for module, before in ((encoder, 0), (decoder, 5)):
            found = stages(flatten(module))
            assert [type(one) is Stage for one in found].index(True) == before
            assert sum(isinstance(one, Stage) for one in found) == 1
            assert not any(isinstance(one, nn.Conv2d | nn.ConvTranspose2d) for one in found)
