"""The algebra of penalties, and the evaluation of an objective."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import untwine as uw
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.vae import VAE, create
from untwine.objective import evaluation, terms
from untwine.objective.core import Objective, Penalty, Sum, is_leaf
from untwine.objective.evaluation import at_step, evaluate
from untwine.objective.penalties import WATCHABLE, jacobian, kl, watchable
from untwine.objective.schedules import Constant, Product, ramp
from untwine.objective.terms import Needs, Pass, Term
from untwine.parts import each, from_json, leaves, part, resolve, to_json

INFO = Info(latents=3, shape=(5,))


@part
class FixedAmount(Term):
    """A constant that still depends on the pass, so that it has a gradient (of nothing)."""

    amount: float = 1.0

    def value(self, passed: Pass) -> Tensor:
        return self.amount + 0.0 * passed.z.sum()


@part
class HeldNorm(Term):
    """Of the mean image, which reaches the decoder alone."""

    def needs(self, info: Info) -> Needs:
        return Needs(fixed=True)

    def value(self, passed: Pass) -> Tensor:
        return passed.fixed.output.square().sum()


@part
class NoisyTerm(Term):
    """The mean of its own noise."""

    kind: str = "uniform"
    width: int = 2

    def needs(self, info: Info) -> Needs:
        return Needs({"own": (self.kind, (self.width,)), "more": ("normal", (info.latents,))})

    def value(self, passed: Pass) -> Tensor:
        assert set(passed.noise) == {"own", "more"}
        return passed.noise["own"].mean() + 0.0 * passed.noise["more"].sum()


def fixed(amount: float) -> Penalty:
    return Penalty(FixedAmount(amount))


def model(likelihood: Any = uw.likelihoods.bernoulli, posterior: Any = uw.posteriors.diagonal_normal) -> VAE:
    network = uw.networks.mlp((6,), activation="tanh")
    return create(INFO, network, likelihood, posterior, uw.priors.standard_normal)


def batch(count: int = 4) -> tuple[Tensor, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(count, 5, generator=generator), {"posterior": torch.randn(count, 3, generator=generator)}


def total(penalty: Penalty, step: int = 0, noise: dict[str, Tensor] | None = None) -> float:
    """What a penalty adds to the loss."""
    x, eps = batch()
    terms = evaluate(model(), at_step({"p": penalty}, step), x, eps | (noise or {}))
    return (terms["loss"] - terms["reconstruction"]).item()


# --- the algebra ------------------------------------------------------------------------------------


def test_weights_multiply_from_either_side():
    assert 2.0 * kl == kl * 2.0 == 2 * kl == Penalty(kl.term, Constant(2.0))
    assert 3.0 * (2.0 * kl) == 6.0 * kl and 1.0 * kl == kl
    assert [1.0, 2.0] * kl == each(1, 2) * kl == kl * (1.0, 2.0) == Penalty(kl.term, Constant(each(1, 2)))
    assert 2.0 * (each(1, 2) * kl) == each(2, 4) * kl
    assert ramp(2.0, 5) * kl == kl * ramp(2.0, 5) == Penalty(kl.term, ramp(2.0, 5))
    assert isinstance((ramp(2.0, 5) * (ramp(3.0, 5) * kl)).weight, Product)
    assert kl.weight == Constant(1.0)  # nothing changes in place


def test_weights_scale_what_is_added_to_the_loss():
    assert total(fixed(7.0)) == pytest.approx(7)
    assert total(3.0 * fixed(7.0)) == pytest.approx(21)
    assert total(ramp(4.0, 10) * fixed(7.0), step=5) == pytest.approx(14)
    assert total(-2.0 * fixed(7.0)) == pytest.approx(-14)
    assert total(0.0 * fixed(7.0)) == 0


def test_sums():
    assert total(fixed(1.0) + fixed(10.0)) == pytest.approx(11)
    assert total(2.0 * fixed(1.0) + 3.0 * fixed(10.0)) == pytest.approx(32)
    assert total(5.0 * (2.0 * fixed(1.0) + fixed(10.0))) == pytest.approx(60)
    assert total((fixed(1.0) + fixed(10.0)) + fixed(100.0)) == pytest.approx(111)
    assert total(fixed(1.0) + (fixed(10.0) + fixed(100.0))) == pytest.approx(111)
    nested = 2.0 * (fixed(1.0) + 3.0 * (fixed(10.0) + 5.0 * fixed(100.0))) + fixed(1000.0)
    assert total(nested) == pytest.approx(2 * (1 + 3 * (10 + 500)) + 1000)
    moving = ramp(4.0, 4) * (ramp(2.0, 2) * fixed(1.0) + fixed(10.0))
    assert [total(moving, step) for step in (0, 1, 2, 3, 4, 9)] == pytest.approx([0, 11, 24, 36, 48, 48])


def test_a_flat_sum_stays_flat():
    penalty = fixed(1.0) + fixed(2.0) + fixed(3.0)
    assert isinstance(penalty.term, Sum) and len(penalty.term.penalties) == 3
    weighed = 2.0 * (fixed(1.0) + fixed(2.0)) + fixed(3.0)
    assert isinstance(weighed.term, Sum) and len(weighed.term.penalties) == 2


def test_every_term_of_a_sum_gets_its_own_noise():
    penalty = 10.0 * Penalty(NoisyTerm()) + (Penalty(NoisyTerm("normal", 3)) + fixed(5.0)) + Penalty(NoisyTerm())
    objective = Objective(*_parts(), {"p": penalty, "q": Penalty(NoisyTerm(width=4))})
    noise = objective.needs(INFO).noise
    own = {name: value for name, value in noise.items() if name.endswith("own")}
    assert own == {
        "p/0/own": ("uniform", (2,)),
        "p/1/0/own": ("normal", (3,)),
        "p/2/own": ("uniform", (2,)),
        "q/own": ("uniform", (4,)),
    }
    assert len(noise) == 8 and noise["p/1/0/more"] == ("normal", (3,))
    drawn = {name: torch.full((4, *shape), float(i)) for i, (name, (_, shape)) in enumerate(noise.items())}
    value = {name: tensor[0, 0].item() for name, tensor in drawn.items()}
    x, eps = batch()
    terms = evaluate(model(), at_step(objective.penalties, 0), x, eps | drawn)
    expected = 10 * value["p/0/own"] + value["p/1/0/own"] + 5 + value["p/2/own"]
    assert terms["p"].item() == pytest.approx(expected) and terms["q"].item() == value["q/own"]
    assert len({value[name] for name in own}) == 4


def test_watched_terms_do_not_join_sums():
    for wrong in (lambda: kl.watch() + kl, lambda: kl + kl.watch()):
        with pytest.raises(UntwineError, match="only watched cannot be part of a sum"):
            wrong()


def _parts() -> tuple[Any, Any, Any]:
    return uw.likelihoods.bernoulli, uw.posteriors.diagonal_normal, uw.priors.standard_normal


# --- leaves -----------------------------------------------------------------------------------------


def test_at_step_evaluates_every_schedule_and_keeps_other_floats():
    penalties = {"a": ramp(4.0, 4) * jacobian(1, eps=0.5), "b": 2.0 * (ramp(1.0, 2) * fixed(7.0) + kl)}
    assert len(list(leaves(penalties, is_leaf))) == 6  # a: eps, weight; b: amount, two weights, weight
    now = at_step(penalties, 1)
    assert now["a"].weight == 1.0 and now["a"].term.eps == 0.5 and now["a"].term.p == 1
    assert now["b"].weight == 2.0
    assert [inner.weight for inner in now["b"].term.penalties] == [0.5, 1.0]
    assert now["b"].term.penalties[0].term.amount == 7.0
    assert penalties["a"].weight == ramp(4.0, 4)  # nothing changes in place


def test_values_for_each_member():
    objective = Objective(*_parts(), {"kl": [1.0, 4.0] * kl, "p": ramp([10.0, 20.0], 2) * fixed(1.0)})
    x, eps = batch()
    vae = model()
    found = []
    for member in range(2):
        own = from_json(resolve(to_json(objective), member))
        found.append(evaluate(vae, at_step(own.penalties, 1), x, eps))
    divergence, reconstruction = found[0]["kl"].item(), found[0]["reconstruction"].item()
    assert found[0]["loss"].item() == pytest.approx(reconstruction + 1 * divergence + 5)
    assert found[1]["loss"].item() == pytest.approx(reconstruction + 4 * divergence + 10)
    assert found[1]["kl"].item() == divergence > 0  # terms are logged without their weight


# --- objectives -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"likelihood": "bernoulli"}, "likelihood must be a likelihood"),
        ({"posterior": uw.priors.standard_normal}, "posterior must be a posterior"),
        ({"prior": None}, "prior must be a prior"),
        ({"penalties": {"kl": 3.0}}, "penalty 'kl' must be a Penalty such as 4.0"),
        ({"penalties": {"loss": kl}}, "cannot be called 'loss'"),
        ({"penalties": {"reconstruction": kl}}, "cannot be called 'reconstruction'"),
        ({"penalties": {"each": kl}}, "cannot be called 'each'"),
        ({"penalties": {"part": kl}}, "cannot be called 'part'"),
    ],
)
def test_refusals(change, message):
    arguments = dict(zip(("likelihood", "posterior", "prior"), _parts(), strict=True), penalties={"kl": kl})
    # The check of annotations, which is on in tests only, is stricter: go past it.
    make = Objective.__new__(Objective)
    for key, value in (arguments | change).items():
        object.__setattr__(make, key, value)
    with pytest.raises(UntwineError, match=message):
        make.__post_init__()


def test_json_of_an_objective():
    objective = Objective(
        uw.likelihoods.gaussian([0.1, 0.2]),
        uw.posteriors.full_normal,
        uw.priors.standard_normal,
        {"kl": ramp(4.0, 10) * kl, "p": [1.0, 2.0] * (jacobian(2, columns=2) + 3.0 * fixed(0.5)).watch()},
    )
    assert from_json(json.loads(json.dumps(to_json(objective)))) == objective


def test_watching_refuses_names_that_are_taken():
    objective = uw.methods.vae()
    assert list(objective.watching({"jacobian_l1": watchable("jacobian-l1")}).penalties) == ["kl", "jacobian_l1"]
    with pytest.raises(UntwineError, match=r"\['kl'\] are in the log already"):
        objective.watching({"kl": kl})
    with pytest.raises(UntwineError, match="unknown term to watch 'jacobian_l3'; did you mean 'jacobian_l"):
        watchable("jacobian_l3")


# --- evaluate ---------------------------------------------------------------------------------------


def test_the_loss_is_the_reconstruction_and_the_weighted_terms():
    vae, (x, noise) = model(), batch()
    penalties = {"kl": 4.0 * kl, "jacobian": 0.1 * jacobian(1), "watched": 100.0 * kl.watch()}
    terms = evaluate(vae, at_step(penalties, 0), x, noise)
    assert list(terms) == ["loss", "reconstruction", "kl", "jacobian"]
    raw = vae.encoder(x)
    mean, log_variance = raw[:, :3], raw[:, 3:]
    z = mean + (log_variance / 2).exp() * noise["posterior"]
    probabilities = torch.sigmoid(vae.decoder(z))
    reconstruction = F.binary_cross_entropy(probabilities, x, reduction="sum") / 4
    pairs = zip(mean.flatten().tolist(), log_variance.flatten().tolist(), strict=True)
    divergence = sum(0.5 * (m**2 + math.exp(v) - v - 1) for m, v in pairs)
    columns = torch.stack([torch.func.jacrev(lambda v: torch.sigmoid(vae.decoder(v[None]))[0])(one) for one in z])
    assert terms["reconstruction"].item() == pytest.approx(reconstruction.item(), rel=1e-5)
    assert terms["kl"].item() == pytest.approx(divergence / 4, rel=1e-5)
    assert terms["jacobian"].item() == pytest.approx(columns.abs().sum().item() / 4, rel=1e-5)
    expected = reconstruction + 4 * divergence / 4 + 0.1 * columns.abs().sum() / 4
    assert terms["loss"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_terms_are_averages_over_the_batch():
    """In nats, summed over dimensions: a batch twice as long, of the same examples, changes nothing."""
    vae, (x, noise) = model(), batch()
    # What acts on the batch as a whole is not the mean of what it is for each example.
    whole = {"total_correlation", "mean_covariance", "aggregate_variance", "delta_kl"}
    penalties = {name: penalty for name, penalty in at_step(WATCHABLE, 0).items() if name not in whole}
    once = evaluate(vae, penalties, x, noise)
    twice = evaluate(vae, penalties, x.repeat(2, 1), {"posterior": noise["posterior"].repeat(2, 1)})
    assert set(once) == {"loss", "reconstruction", *WATCHABLE} - whole
    for name in once:
        assert twice[name].item() == pytest.approx(once[name].item(), rel=1e-5), name
    singly = [evaluate(vae, penalties, x[i : i + 1], {"posterior": noise["posterior"][i : i + 1]}) for i in range(4)]
    for name in once:
        assert sum(one[name].item() for one in singly) / 4 == pytest.approx(once[name].item(), rel=1e-5), name


def test_watching_has_no_effect_on_training():
    vae, (x, noise) = model(), batch()
    plain = Objective(*_parts(), {"kl": 2.0 * kl, "jacobian": 0.3 * jacobian(1, through="both")})
    more = WATCHABLE | {"held": jacobian(2), "own": Penalty(HeldNorm())}
    watching = plain.watching({name: penalty for name, penalty in more.items() if name != "kl"})

    def run(objective: Objective, watch: bool) -> tuple[dict[str, Tensor], list[Tensor]]:
        terms = evaluate(vae, at_step(objective.penalties, 0), x, noise, 100, watch)
        return terms, list(torch.autograd.grad(terms["loss"], list(vae.parameters())))

    (base, gradients), (unwatched, same), (watched, also) = run(plain, True), run(watching, False), run(watching, True)
    for other in (same, also):
        assert all(torch.equal(a, b) for a, b in zip(gradients, other, strict=True))
    assert base.keys() == unwatched.keys()
    assert watched.keys() - base.keys() == more.keys() - {"kl"}
    assert all(torch.equal(base[name], watched[name]) for name in base)
    assert not any(watched[name].requires_grad for name in watched.keys() - base.keys())


def test_what_is_only_watched_takes_no_pass_of_its_own(monkeypatch):
    """Neither where it is not due, nor where it is: training costs, and rounds, as it would without."""
    vae, (x, noise) = model(), batch()
    used, parted, trace = [], evaluation.parted, terms.trace
    monkeypatch.setattr(evaluation, "parted", lambda *given: used.append("parted") or parted(*given))
    monkeypatch.setattr(terms, "trace", lambda *given: used.append("another") or trace(*given))
    for watch in (False, True):
        penalties = {"kl": kl, "held": jacobian(1).watch(), "some": jacobian(1, images=0.5).watch()}
        evaluate(vae, at_step(penalties, 0), x, noise, 100, watch)
    assert not used
    evaluate(vae, at_step({"held": jacobian(1)}, 0), x, noise)
    assert used == ["parted"]


def test_the_evaluation_decides_which_pass_holds_z_fixed(monkeypatch):
    """A share of the examples takes a pass of its own, unless all are needed or the step is compiled."""
    vae, (x, noise) = model(), batch()
    used, parted, trace = [], evaluation.parted, terms.trace
    monkeypatch.setattr(evaluation, "parted", lambda *given: used.append("parted") or parted(*given))
    monkeypatch.setattr(terms, "trace", lambda *given: used.append("another") or trace(*given))
    half, whole = {"half": jacobian(1, images=0.5)}, {"whole": jacobian(2)}

    def passes(penalties: dict[str, Penalty], **settings: Any) -> list[str]:
        used.clear()
        evaluate(vae, at_step(penalties, 0), x, noise, **settings)
        return list(used)

    assert passes(half) == ["another"]
    assert passes(half, compiled=True) == passes(whole) == passes(half | whole) == ["parted"]
    assert passes({"both": jacobian(1, through="both")}, compiled=True) == []


def test_the_share_of_a_batch_that_holds_z_fixed_is_declared():
    half, whole = jacobian(1, images=0.5), jacobian(2)
    for penalties, share in (
        ({"a": half}, Fraction(1, 2)),
        ({"a": half, "b": whole}, 1),
        ({"a": half + whole}, 1),
        ({"a": half, "b": whole.watch()}, Fraction(1, 2)),
        ({"a": whole.watch(), "b": jacobian(1, through="both"), "c": kl}, False),
        ({"a": Penalty(HeldNorm())}, True),
    ):
        assert Objective(*_parts(), penalties).needs(INFO).fixed == share


def test_gradients_reach_every_parameter_and_prior_noise_is_not_drawn():
    vae, (x, noise) = model(uw.likelihoods.gaussian(0.5, learned=True), uw.posteriors.full_normal), batch()
    rng = torch.get_rng_state()
    loss = evaluate(vae, at_step({"kl": kl}, 0), x, noise)["loss"]
    gradients = torch.autograd.grad(loss, list(vae.parameters()))
    assert all(g.abs().max() > 0 for g in gradients) and len(gradients) == 9
    assert torch.equal(rng, torch.get_rng_state())


def test_a_prior_without_a_closed_kl_is_sampled_at_z():
    prior = torch.distributions.Independent(torch.distributions.StudentT(3.0, torch.zeros(3), torch.ones(3)), 1)
    objective = Objective(*_parts()[:2], prior, {"kl": kl})
    vae = create(INFO, uw.networks.mlp((6,)), objective.likelihood, objective.posterior, objective.prior)
    x, noise = batch()
    value = evaluate(vae, at_step(objective.penalties, 0), x, noise)["kl"]
    raw = vae.encoder(x)
    q = torch.distributions.Normal(raw[:, :3], (raw[:, 3:] / 2).exp())
    z = q.loc + q.scale * noise["posterior"]
    assert value.item() == pytest.approx((q.log_prob(z).sum(1) - prior.log_prob(z)).mean().item(), rel=1e-5)


def test_a_penalty_of_ones_own_sees_the_pass():
    seen = {}

    @part
    class LookAtThePass(Term):
        def value(self, passed: Pass) -> Tensor:
            seen["passed"] = passed
            return passed.decode(passed.q.mean).output.square().sum()

    vae, (x, noise) = model(), batch()
    value = evaluate(vae, at_step({"p": Penalty(LookAtThePass())}, 0), x, noise, data_size=123)["p"]
    passed = seen["passed"]
    assert passed.x is x and passed.data_size == 123 and passed.vae is vae
    assert torch.equal(passed.z, vae.posterior(x).sample(noise["posterior"]))
    assert torch.equal(passed.mean, vae.decode(passed.z))
    assert torch.equal(value, vae(x).square().sum())
    assert passed.prior.log_prob(torch.zeros(3)).item() == pytest.approx(-1.5 * math.log(2 * math.pi))
