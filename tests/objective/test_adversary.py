"""FactorVAE's adversary: its loss, who learns from what, and whether it finds a known total correlation."""

from __future__ import annotations

import functools
import json
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import untwine as uw
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.networks.initial import initialise
from untwine.model.passes import trace
from untwine.model.posteriors import PointQ
from untwine.model.vae import VAE, create
from untwine.objective.adversary import adversarial_total_correlation, permute
from untwine.objective.core import Objective
from untwine.objective.evaluation import at_step, evaluate
from untwine.objective.schedules import ramp
from untwine.objective.terms import Adversary, Pass
from untwine.parts import each, from_json, resolve, structure, to_json

LATENTS = 3
INFO = Info(LATENTS, (4,), data_size=50)
PARTS = uw.likelihoods.bernoulli, uw.posteriors.diagonal_normal, uw.priors.standard_normal
SMALL = adversarial_total_correlation(hidden=7, layers=2, lr=1e-3)


def discriminator(seed: int = 0, penalty=SMALL, info: Info = INFO) -> nn.Module:
    module = penalty.term.needs(info).adversaries["discriminator"].build(info)
    initialise(module, seed)
    return module.double()


@functools.cache
def model(seed: int = 0) -> VAE:
    """A VAE with its adversary in place, as the trainer makes it."""
    vae = create(INFO, uw.networks.mlp((6,), activation="tanh"), *PARTS, seed=seed).double()
    vae.adversaries["p/discriminator"] = discriminator(seed)
    return vae


def normals(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def uniforms(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).double()


def passing(module: nn.Module, z: Tensor, second: Tensor | None, order: Tensor) -> Pass:
    vae, x = model(), torch.zeros(len(z), 4).double()
    rest = {"noise": {"order": order}, "adversaries": {"discriminator": module}, "second": second}
    return Pass(x, PointQ(z), vae.prior(), z, trace(nn.Identity(), z), vae, data_size=50, **rest)


# --- what it is -------------------------------------------------------------------------------------


def test_the_published_discriminator():
    needs = adversarial_total_correlation().term.needs(Info(10, (64, 64, 1)))
    assert needs.second and not needs.prior and needs.noise == {"order": ("uniform", (10,))}
    (adversary,) = needs.adversaries.values()
    assert isinstance(adversary, Adversary) and adversary.rate == 1e-4
    assert adversary.optimiser == {"name": "adam", "beta1": 0.5, "beta2": 0.9}
    rng = torch.get_rng_state()
    layers = list(adversary.build(Info(10, (64, 64, 1))))
    assert torch.equal(rng, torch.get_rng_state())  # nothing is drawn
    assert [type(layer).__name__ for layer in layers] == ["Linear", "LeakyReLU"] * 6 + ["Linear"]
    assert [tuple(layer.weight.shape) for layer in layers[::2]] == [(1000, 10), *[(1000, 1000)] * 5, (2, 1000)]
    assert {layer.negative_slope for layer in layers[1::2]} == {0.2}


def test_value_and_loss_by_definition():
    """Both from the softmax of the two logits, one example at a time."""
    module, z, second, order = discriminator(), normals(5, 3), normals(4, 3, seed=1), uniforms(5, 3)
    passed = passing(module, z, second, order)
    ratios, entropies = [], []
    for one in z:
        joint, permuted = F.softmax(module(one), 0)
        ratios.append(torch.log(joint / permuted))
        entropies.append(-torch.log(joint) / 5)
    assert torch.allclose(SMALL.term.value(passed), sum(ratios) / 5)
    columns = [[second[i, k] for i in sorted(range(4), key=lambda i: order[i, k].item())] for k in range(3)]
    for i in range(4):
        row = torch.stack([columns[k][i] for k in range(3)])
        entropies.append(-torch.log(F.softmax(module(row), 0)[1]) / 4)
    assert torch.allclose(SMALL.term.adversary_loss(passed), 0.5 * sum(entropies))


def test_the_batch_itself_may_be_permuted():
    """As in disentanglement_lib: the loss is that of the paper with the batch in place of the second one."""
    same = adversarial_total_correlation(hidden=7, layers=2, lr=1e-3, second=False).term
    assert not same.needs(INFO).second and SMALL.term.needs(INFO).second
    module, z, second, order = discriminator(), normals(5, 3), normals(5, 3, seed=1), uniforms(5, 3)
    expected = SMALL.term.adversary_loss(passing(module, z, z, order))
    for other in (second, None):  # another penalty may need a second batch
        assert torch.equal(same.adversary_loss(passing(module, z, other, order)), expected)
    assert not torch.allclose(SMALL.term.adversary_loss(passing(module, z, second, order)), expected)
    method = uw.methods.factor_vae(second=False)
    assert method.method["second"] is False and "second" not in uw.methods.factor_vae().method
    assert not method.needs(INFO).second


def test_every_latent_is_permuted_on_its_own():
    z = torch.arange(40).double().reshape(8, 5)
    found = permute(z, uniforms(8, 5))
    orders = set()
    for k in range(5):
        assert sorted(found[:, k].tolist()) == z[:, k].tolist()
        orders.add(tuple((found[:, k] - k).tolist()))
    assert len(orders) == 5
    assert torch.equal(permute(z[:4], uniforms(8, 5)), permute(z[:4], uniforms(8, 5)[:4]))


def test_permuting_destroys_dependence_and_keeps_the_marginals():
    z = normals(5000, 1).expand(5000, 2) + 0.1 * normals(5000, 2, seed=1)
    found = permute(z, uniforms(5000, 2))
    assert torch.corrcoef(z.T)[0, 1] > 0.98 and torch.corrcoef(found.T)[0, 1].abs() < 0.05
    assert torch.equal(found.sort(0).values, z.sort(0).values)


# --- who learns from what ---------------------------------------------------------------------------


def test_gradients_have_nothing_in_common():
    module, z, second = discriminator(), normals(5, 3).requires_grad_(), normals(5, 3, seed=1).requires_grad_()
    passed = passing(module, z, second, uniforms(5, 3))
    value, loss = SMALL.term.value(passed), SMALL.term.adversary_loss(passed)
    weights = list(module.parameters())
    options = {"allow_unused": True, "materialize_grads": True, "retain_graph": True}
    to_z, *to_weights = torch.autograd.grad(value, [z, *weights], **options)
    assert to_z.abs().max() > 1e-4 and all((g == 0).all() for g in to_weights)
    to_z, to_second, *to_weights = torch.autograd.grad(loss, [z, second, *weights], **options)
    assert (to_z == 0).all() and (to_second == 0).all() and all(g.abs().max() > 1e-6 for g in to_weights)
    # One backward pass of the sum gives each its own.
    plain = torch.autograd.grad(F.softmax(module(z), 1).log() @ torch.tensor([0.2, -0.2]).double(), z, torch.ones(5))[0]
    both = torch.autograd.grad(value + loss, [z, *weights])
    assert torch.allclose(both[0], plain)
    assert all(torch.equal(a, b) for a, b in zip(both[1:], to_weights, strict=True))


def test_in_an_objective():
    """The encoder's gradient comes from the value alone, the discriminator's from its loss alone."""
    objective = Objective(*PARTS, {"p": 6.0 * SMALL})
    needs = objective.needs(INFO)
    assert needs.noise == {"p/order": ("uniform", (3,)), "second": ("normal", (3,))}
    assert list(needs.adversaries) == ["p/discriminator"]
    with pytest.raises(UntwineError, match="'p' cannot be only watched: it has an adversary"):
        Objective(*PARTS, {"p": SMALL.watch()}).needs(INFO)
    vae = model()
    noise = {"posterior": normals(5, 3), "second": normals(4, 3, seed=1), "p/order": uniforms(5, 3)}
    x, second = uniforms(5, 4), uniforms(4, 4, seed=1)
    terms = evaluate(vae, at_step(objective.penalties, 0), x, noise, 50, second=second)
    assert list(terms) == ["loss", "reconstruction", "p", "p_adversary"]
    assert terms["loss"].item() == pytest.approx((terms["reconstruction"] + 6 * terms["p"]).item())
    other = vae.posterior(second).sample(noise["second"])
    passed = passing(
        vae.adversaries["p/discriminator"], vae.posterior(x).sample(noise["posterior"]), other, uniforms(5, 3)
    )
    assert torch.allclose(terms["p_adversary"], SMALL.term.adversary_loss(passed))
    names, parameters = zip(*vae.named_parameters(), strict=True)
    options = {"allow_unused": True, "materialize_grads": True, "retain_graph": True}
    for key in ("loss", "p_adversary"):
        for name, slope in zip(names, torch.autograd.grad(terms[key], parameters, **options), strict=True):
            assert (slope.abs().max() > 0) == (name.startswith("adversaries") == (key == "p_adversary")), (key, name)


# --- whether it works -------------------------------------------------------------------------------


def test_the_best_discriminator_finds_the_total_correlation():
    """-1/2 log det R of a correlated Gaussian, within 15 percent: a small net after 600 steps of Adam."""
    info = Info(2, (4,))
    penalty = adversarial_total_correlation(hidden=32, layers=2, lr=1e-3)
    module = discriminator(0, penalty, info).float()
    mixing = torch.tensor([[1.0, 0.0], [0.8, 0.6]])
    truth = -0.5 * math.log(1 - 0.8**2)
    adversary = penalty.term.needs(info).adversaries["discriminator"]
    betas = adversary.optimiser["beta1"], adversary.optimiser["beta2"]
    optimiser = torch.optim.Adam(module.parameters(), 3e-3, betas)
    vae = create(info, uw.networks.mlp((2,)), *PARTS)
    generator = torch.Generator().manual_seed(0)

    def passed(count: int) -> Pass:
        z, second = (torch.randn(count, 2, generator=generator) @ mixing.T for _ in range(2))
        rest = {
            "noise": {"order": torch.rand(count, 2, generator=generator)},
            "adversaries": {"discriminator": module},
            "second": second,
        }
        return Pass(torch.zeros(count, 4), PointQ(z), vae.prior(), z, trace(nn.Identity(), z), vae, data_size=0, **rest)

    start = penalty.term.value(passed(4000)).item()
    for _ in range(600):
        loss = penalty.term.adversary_loss(passed(512))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        found = penalty.term.value(passed(20_000)).item()
    assert abs(start) < 0.2 and found == pytest.approx(truth, rel=0.15)


def test_members_under_vmap_are_members_alone():
    """Values of both players, and gradients of their sum, float64."""
    penalties = at_step({"p": 6.0 * SMALL}, 0)
    members = [model(seed) for seed in range(3)]
    noise = {"posterior": normals(3, 5, 3), "second": normals(3, 5, 3, seed=1), "p/order": uniforms(3, 5, 3)}
    x, second = uniforms(3, 5, 4), uniforms(3, 5, 4, seed=1)

    class Terms(nn.Module):
        def __init__(self, vae: VAE):
            super().__init__()
            self.vae = vae

        def forward(self, x: Tensor, second: Tensor, noise: dict[str, Tensor]) -> Tensor:
            found = evaluate(self.vae, penalties, x, noise, 50, second=second)
            return torch.stack([found[key] for key in ("loss", "p", "p_adversary")])

    parameters = {
        f"vae.{key}": torch.stack([dict(m.named_parameters())[key].detach() for m in members]).requires_grad_()
        for key, _ in members[0].named_parameters()
    }
    template = Terms(members[0])
    together = torch.func.vmap(lambda p, *a: torch.func.functional_call(template, p, a))(parameters, x, second, noise)
    slopes = torch.autograd.grad((together[:, 0] + together[:, 2]).sum(), list(parameters.values()))
    for i, member in enumerate(members):
        alone = Terms(member)(x[i], second[i], {key: one[i] for key, one in noise.items()})
        assert torch.allclose(together[i], alone)
        own = torch.autograd.grad(alone[0] + alone[2], list(member.parameters()))
        for ours, theirs in zip(slopes, own, strict=True):
            assert torch.allclose(ours[i], theirs, atol=1e-12) and theirs.abs().max() > 0


# --- specs ------------------------------------------------------------------------------------------


def test_the_learning_rate_is_a_leaf():
    penalty = adversarial_total_correlation(10, 2, each(1e-4, 1e-3))
    spec = to_json(penalty)
    assert from_json(json.loads(json.dumps(spec))) == penalty
    own = [from_json(resolve(spec, member)) for member in range(2)]
    assert own == [adversarial_total_correlation(10, 2, lr) for lr in (1e-4, 1e-3)]
    assert structure(resolve(spec, 0)) == structure(resolve(spec, 1))
    assert [one.term.needs(INFO).adversaries["discriminator"].rate for one in own] == [1e-4, 1e-3]
    assert structure(spec) != structure(to_json(adversarial_total_correlation(11, 2)))
    moving = adversarial_total_correlation(lr=ramp(1e-4, 100))
    assert from_json(json.loads(json.dumps(to_json(moving)))) == moving
    assert moving.term.needs(INFO).adversaries["discriminator"].rate == ramp(1e-4, 100)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden": 0}, "hidden of penalty .* must be a whole number, 1 or more"),
        ({"layers": 0}, "layers of penalty .* must be a whole number, 1 or more"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(UntwineError, match=message):
        adversarial_total_correlation(**arguments)
