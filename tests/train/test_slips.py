"""What a user who writes parts of their own may get wrong: each is said in one line, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import same, tiny
from torch import nn

import untwine as uw
from untwine.errors import UntwineError


class Slip(uw.Term):
    """A term that does whatever a test asks for."""

    def needs(self, info: uw.Info) -> uw.Needs:
        return self.asked(info)

    def value(self, passed: uw.Pass) -> Any:
        return self.found(passed)

    def adversary_loss(self, passed: uw.Pass) -> Any:
        return self.lost(passed)


def slip(found=lambda p: p.z.mean(), needs=lambda info: uw.Needs(), lost=lambda p: None) -> uw.Objective:
    made = type("SlipForTests", (Slip,), {})
    made.found, made.asked, made.lost = staticmethod(found), staticmethod(needs), staticmethod(lost)
    term = uw.part(made)()
    return uw.methods.vae(likelihood="squared-error").replace(penalties={"pen": 1.0 * uw.Penalty(term)})


class Critic(nn.Module):
    """Its weights are drawn from torch's generator, as many people write them."""

    def __init__(self, latents: int, drop: bool = False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(latents, 1))
        self.drop = nn.Dropout() if drop else nn.Identity()

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.drop(z) @ self.weight


def against(drop: bool = False) -> Any:
    return lambda info: uw.Needs(
        adversaries={"critic": uw.Adversary(lambda info: Critic(info.latents, drop), {"name": "adam"}, 1e-2)}
    )


def play(passed: uw.Pass) -> torch.Tensor:
    from untwine.objective.terms import held

    return held(passed.adversaries["critic"])(passed.z).mean()


def answer(passed: uw.Pass) -> torch.Tensor:
    return (passed.adversaries["critic"](passed.z.detach()) - 1).square().mean()


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (lambda: slip(lambda p: p.z.mean(1)), r"penalty 'pen' must be a scalar tensor.*shape \[4\]"),
        (lambda: slip(lambda p: 1.0), "penalty 'pen' must be a scalar tensor.*not 1.0"),
        (lambda: slip(needs=lambda info: uw.Needs({"d": ("gumbel", (3,))})), "unknown kind of noise.*'gumbel'"),
        (lambda: slip(play, against()), "penalty 'pen' has an adversary but no adversary_loss"),
        (lambda: slip(play, against(drop=True), answer), "Dropout draws from a global generator"),
        (lambda: slip(lambda p: torch.rand(()) * p.z.mean()), "draws from torch's global generator|random operation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_slips_in_a_penalty(objective, message, tmp_path: Path):
    with pytest.raises((UntwineError, RuntimeError), match=message):
        uw.fit(tiny(objective()), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_adversary_that_draws_while_it_is_made_depends_on_the_seed_alone():
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        found.append(uw.fit(tiny(slip(play, against(), answer), seeds=[3, 4])))
    assert same(*found)
    alone = uw.fit(tiny(slip(play, against(), answer), seeds=[4]))
    for name, value in alone.member(0).state_dict().items():
        torch.testing.assert_close(found[0].member(1).state_dict()[name], value, rtol=1e-5, atol=1e-6)


def test_slips_in_a_method():
    with pytest.raises(UntwineError, match=r"unknown setting of a run.*'netwrok'.*'network'"):
        uw.method(netwrok="mlp")(lambda: None)

    @uw.method
    def nothing_for_tests():
        """Nothing."""

    with pytest.raises(UntwineError, match="must return an Objective, not None"):
        nothing_for_tests()
    with pytest.raises(UntwineError, match="method 'vae' takes 0 arguments by position, not 2"):
        uw.methods.vae(1, 2)

    @uw.method(network="mlp", lr=0.5)
    def strange_for_tests(beta, divergence: float = 1.0):
        """Arguments without a default, and named as a part is."""
        return uw.methods.beta_vae(beta * divergence)

    assert tiny(strange_for_tests(2.0), network="auto", lr=None).network.spec["name"] == "mlp"
    assert tiny(strange_for_tests(2.0), lr=None).lr == 0.5
    with pytest.raises(UntwineError, match="needs beta; its arguments are"):
        tiny("strange_for_tests")


def test_slips_in_names():
    with pytest.raises(UntwineError, match="unknown part of an objective: 'pairings'; did you mean 'pairing'"):
        uw.methods.vae().replace(pairings=None)
    with pytest.raises(UntwineError, match="unknown field of a run: 'learning_rate'"):
        tiny().replace(learning_rate=3)
    assert tiny(watch=None).watch == ()


def test_a_builder_that_returns_one_module():
    @uw.network
    def half_for_tests():
        """A decoder only."""
        return lambda info, outputs: nn.Linear(info.latents, 6)

    with pytest.raises(UntwineError, match="returns an encoder and a decoder"):
        uw.fit(tiny(network=half_for_tests()))
