"""What every method must keep to: above all its own equation, written out here in plain torch.

A new method needs a line in the table: a function that computes its loss from the encoder's and the decoder's
raw outputs, with nothing of Untwine's but samples of a prior that torch cannot draw from uniforms.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch import distributions as D
from torch.nn import functional as F

import untwine as uw
from untwine.errors import UntwineError
from untwine.methods.registry import as_stored
from untwine.model.info import Info
from untwine.model.networks.initial import initialise
from untwine.model.vae import VAE, create
from untwine.objective.core import Objective
from untwine.objective.evaluation import at_step, evaluate
from untwine.parts import from_json, resolve, structure, to_json

LATENTS, PIXELS, BATCH, SIZE = 3, 6, 4, 100
INFO = Info(LATENTS, (PIXELS,), data_size=SIZE)
STEP = 3


@dataclass
class Batch:
    """Whatever an objective takes in a step."""

    x: Tensor
    noise: dict[str, Tensor]
    second: Tensor | None


@dataclass
class Plain:
    """A model's raw pieces and a batch."""

    vae: VAE
    batch: Batch

    @property
    def x(self) -> Tensor:
        return self.batch.x

    def encode(self, x: Tensor) -> Tensor:
        return self.vae.encoder(x)

    def decode(self, z: Tensor) -> Tensor:
        return self.vae.decoder(z)

    @property
    def eps(self) -> Tensor:
        return self.batch.noise["posterior"]

    def moments(self) -> tuple[Tensor, Tensor]:
        raw = self.encode(self.x)
        return raw[:, :LATENTS], raw[:, LATENTS:]

    def z(self) -> Tensor:
        mean, log_variance = self.moments()
        return mean + torch.exp(log_variance / 2) * self.eps

    def cross_entropy(self, z: Tensor) -> Tensor:
        out = self.decode(z)
        return -(self.x * F.logsigmoid(out) + (1 - self.x) * F.logsigmoid(-out)).sum() / BATCH

    def squares(self, z: Tensor) -> Tensor:
        return ((self.x - self.decode(z)) ** 2).sum() / BATCH

    def kl(self) -> Tensor:
        mean, log_variance = self.moments()
        return 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum() / BATCH

    def columns(self, z: Tensor) -> Tensor:
        """[batch, pixel, latent], of the sigmoid output."""
        image = lambda v: torch.sigmoid(self.decode(v[None]))[0]
        return torch.func.vmap(torch.func.jacrev(image))(z)


def ramped(weight: float, anneal: int) -> float:
    return weight * min(1.0, STEP / anneal) if anneal else weight


def elbo(plain: Plain, beta: float) -> Tensor:
    return plain.cross_entropy(plain.z()) + beta * plain.kl()


def jacobian_vae(power: int) -> Callable[..., Tensor]:
    def loss(plain: Plain, beta: float = 4.0, gamma: float = 0.1, anneal: int = 100_000, **rest: Any) -> Tensor:
        z = plain.z() if rest.get("through") == "both" else plain.z().detach()
        columns, estimator, count = plain.columns(z), rest.get("estimator", "finite"), rest.get("columns", 1)
        if estimator != "exact":
            eps, start = rest.get("eps", 0.1), {"finite": 0.0, "central": -0.5}[estimator]
            steps = eps * torch.eye(LATENTS, dtype=plain.x.dtype)
            image = lambda z: torch.sigmoid(plain.decode(z))
            columns = [(image(z + (1 + start) * step) - image(z + start * step)) / eps for step in steps]
            columns = torch.stack(columns, -1)
        norms = columns.abs().pow(power).sum(1)  # [batch, latent]
        if count is not None:
            chosen = plain.batch.noise["jacobian/columns"].argsort(1)[:, :count]
            norms = norms.gather(1, chosen) * LATENTS / count
        if rest.get("images"):  # of four: the second, or the first and third
            norms = norms[{0.25: [1, 1, 1, 1], 0.5: [0, 0, 2, 2]}[rest["images"]]]
        return elbo(plain, ramped(beta, anneal)) + ramped(gamma, anneal) * norms.sum() / BATCH

    return loss


def gaussian_beta(plain: Plain, beta: float, **_: Any) -> Tensor:
    out = plain.decode(plain.z())
    density = D.Normal(out, 1.0).log_prob(plain.x).sum() / BATCH
    return -density + beta * plain.kl()


def full_beta(plain: Plain, beta: float = 4.0, anneal: int = 0) -> Tensor:
    raw, total = plain.encode(plain.x), torch.zeros(())
    for i in range(BATCH):
        mean, factor = raw[i, :LATENTS], torch.diag((raw[i, LATENTS : 2 * LATENTS] / 2).exp())
        below = iter(raw[i, 2 * LATENTS :])
        rows = [[factor[j, k] if k >= j else next(below) for k in range(LATENTS)] for j in range(LATENTS)]
        factor = torch.stack([torch.stack(row) for row in rows])
        q = D.MultivariateNormal(mean, factor @ factor.T)
        prior = D.MultivariateNormal(torch.zeros(LATENTS).double(), torch.eye(LATENTS).double())
        out = plain.decode((mean + factor @ plain.eps[i])[None])[0]
        total = total + ((plain.x[i] - out) ** 2).sum() + ramped(beta, anneal) * D.kl_divergence(q, prior)
    return total / BATCH


def annealed(plain: Plain, gamma: float = 1000.0, capacity: float = 25.0, anneal: int = 100_000) -> Tensor:
    return plain.cross_entropy(plain.z()) + gamma * (plain.kl() - ramped(capacity, anneal)).abs()


def factor_loss(plain: Plain, gamma: float = 30.0, **_: Any) -> Tensor:
    discriminator = copy.deepcopy(plain.vae.adversaries["total_correlation/discriminator"])  # not to be moved by it
    odds = discriminator(plain.z()).log_softmax(1)
    return elbo(plain, 1.0) + gamma * (odds[:, 0] - odds[:, 1]).mean()


def tc_loss(plain: Plain, beta: float = 4.0, estimator: str = "weighted") -> Tensor:
    mean, log_variance = plain.moments()
    z, total = plain.z(), torch.zeros(())
    for i in range(BATCH):

        def weight(j: int, i: int = i) -> float:
            if estimator == "weighted":
                return 1 / (SIZE * BATCH)
            others = BATCH - 1
            special = {i: 1 / SIZE, (i + 1) % BATCH: (SIZE - others) / (SIZE * others)}
            return special.get(j, 1 / others)

        densities = torch.stack(
            [D.Normal(m, (v / 2).exp()).log_prob(z[i]).exp() for m, v in zip(mean, log_variance, strict=True)]
        )
        joint = sum(weight(j) * densities[j].prod() for j in range(BATCH))
        marginals = [sum(weight(j) * densities[j, k] for j in range(BATCH)) for k in range(LATENTS)]
        total = total + joint.log() - sum(m.log() for m in marginals)
    return elbo(plain, 1.0) + (beta - 1) * total / BATCH


def dip_loss(aggregate: bool, default: float) -> Callable[..., Tensor]:
    def loss(plain: Plain, lambda_od: float = 5.0, lambda_d: float = default) -> Tensor:
        mean, log_variance = plain.moments()
        penalty = torch.zeros(())
        for j in range(LATENTS):
            for k in range(LATENTS):
                a, b = mean[:, j], mean[:, k]
                c = (a * b).mean() - a.mean() * b.mean()
                if aggregate and j == k:
                    c = c + log_variance[:, j].exp().mean()
                penalty = penalty + (lambda_d * (c - 1) ** 2 if j == k else lambda_od * c**2)
        return elbo(plain, 1.0) + penalty

    return loss


SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def discrepancy(
    z: Tensor, p: Tensor, kernel: str, scales: tuple[float, ...] = SCALES, per_dimension: bool = False
) -> Tensor:
    """The U-statistic of the squared MMD, by loops."""
    if per_dimension:
        return sum(discrepancy(z[:, k : k + 1], p[:, k : k + 1], kernel, scales) for k in range(z.shape[1]))  # type: ignore[return-value]

    def k(a: Tensor, b: Tensor) -> Tensor:
        d = ((a - b) ** 2).sum()
        constants = [2 * len(a) * s for s in scales]
        return sum(c / (c + d) if kernel == "imq" else torch.exp(-d / c) for c in constants)  # type: ignore[return-value]

    n = len(z)
    pairs = [(i, j) for i in range(n) for j in range(n)]
    inner = sum(k(a[i], a[j]) for a in (z, p) for i, j in pairs if i != j) / (n * (n - 1))
    return inner - 2 * sum(k(z[i], p[j]) for i, j in pairs) / n**2


def info(plain: Plain, alpha: float = 0.0, lam: float = 1000.0, **_: Any) -> Tensor:
    p = D.Normal(0.0, 1.0).icdf(plain.batch.noise["prior"])
    return elbo(plain, 1 - alpha) + (alpha + lam - 1) * discrepancy(plain.z(), p, "rbf", (0.5,))


def wasserstein(plain: Plain, lam: float = 10.0, **_: Any) -> Tensor:
    z, p = plain.encode(plain.x), D.Normal(0.0, 1.0).icdf(plain.batch.noise["prior"])
    return plain.squares(z) + lam * discrepancy(z, p, "imq", (*SCALES, 10.0))


def sparse_log_density(z: Tensor) -> Tensor:
    slab, spike = (D.Normal(torch.tensor(0.0).double(), torch.tensor(v).double().sqrt()) for v in (1.0, 0.05))
    return torch.log(0.2 * slab.log_prob(z).exp() + 0.8 * spike.log_prob(z).exp()).sum(1)


def decomposition(plain: Plain, alpha: float = 1000.0, beta: float = 1.0, **rest: Any) -> Tensor:
    mean, log_variance = plain.moments()
    z = plain.z()
    q = [D.Normal(m, (v / 2).exp()) for m, v in zip(mean, log_variance, strict=True)]
    own = torch.stack([q[i].log_prob(z[i]).sum() for i in range(BATCH)])
    loss = -D.Laplace(plain.decode(z), 0.1).log_prob(plain.x).sum() / BATCH
    loss = loss + beta * (own - sparse_log_density(z)).mean()
    if rest.get("divergence") == "kl-aggregate-prior":
        mixture = torch.stack([one.log_prob(z).sum(1).exp() for one in q]).mean(0)
        return loss + alpha * (mixture.log() - sparse_log_density(z)).mean()
    p = plain.vae.prior.sample(plain.batch.noise["prior"])
    if rest.get("divergence") == "kl-prior-aggregate":
        mixture = torch.stack([one.log_prob(p).sum(1).exp() for one in q]).mean(0)
        return loss + alpha * (sparse_log_density(p) - mixture.log()).mean()
    return loss + alpha * discrepancy(z, p, "imq", per_dimension=True)


def ada(average: str) -> Callable[..., Tensor]:
    def loss(plain: Plain, beta: float = 1.0, distance: str = "symmetric", **_: Any) -> Tensor:
        means, log_variances = plain.moments()
        total, half = torch.zeros(()), BATCH // 2
        for i in range(half):
            m, v = [means[i], means[i + half]], [log_variances[i].exp(), log_variances[i + half].exp()]
            a, b = (D.Normal(*both) for both in ((m[0], v[0].sqrt()), (m[1], v[1].sqrt())))
            apart = D.kl_divergence(a, b)
            if distance == "symmetric":
                apart = 0.5 * apart + 0.5 * D.kl_divergence(b, a)
            shared = apart < (apart.min() + apart.max()) / 2
            if average == "moments":
                mean, variance = (m[0] + m[1]) / 2, (v[0] + v[1]) / 2
            else:
                variance = v[0] * v[1] / (v[0] + v[1])
                mean = (m[0] * v[1] + m[1] * v[0]) / (v[0] + v[1])
            for k in (0, 1):
                q = D.Normal(torch.where(shared, mean, m[k]), torch.where(shared, variance, v[k]).sqrt())
                row = i + k * half
                out = plain.decode((q.mean + q.stddev * plain.eps[row])[None])[0]
                divergence = D.kl_divergence(q, D.Normal(0.0, 1.0)).sum()
                total = total + ((plain.x[row] - out) ** 2).sum() + beta * divergence
        return total / BATCH

    return loss


# Each method with its equation, and the arguments to try it with.
EXACT: dict[str, Any] = {"columns": None, "estimator": "exact"}
TABLE: dict[str, list[tuple[Callable[..., Tensor], dict[str, Any]]]] = {
    "ae": [(lambda plain: plain.cross_entropy(plain.encode(plain.x)), {})],
    "vae": [(lambda plain: elbo(plain, 1.0), {})],
    "beta_vae": [
        (lambda plain: elbo(plain, 4.0), {}),
        (lambda plain, beta, anneal: elbo(plain, ramped(beta, anneal)), {"beta": 2.5, "anneal": 10}),
        (lambda plain, beta, **_: gaussian_beta(plain, beta), {"beta": 0.5, "likelihood": "gaussian"}),
    ],
    "beta_vae_full": [(full_beta, {}), (full_beta, {"beta": 0.7, "anneal": 9})],
    "annealed_vae": [(annealed, {}), (annealed, {"gamma": 2.0, "capacity": 0.1, "anneal": 2})],
    "factor_vae": [(factor_loss, {"hidden": 7}), (factor_loss, {"gamma": 5.0, "hidden": 4, "layers": 1})],
    "beta_tcvae": [(tc_loss, {}), (tc_loss, {"beta": 0.5, "estimator": "stratified"})],
    "dip_vae_i": [(dip_loss(False, 50.0), {}), (dip_loss(False, 50.0), {"lambda_od": 70.0, "lambda_d": 3.0})],
    "dip_vae_ii": [(dip_loss(True, 5.0), {}), (dip_loss(True, 5.0), {"lambda_od": 70.0, "lambda_d": 3.0})],
    "info_vae": [(info, {}), (info, {"alpha": 0.5, "lam": 4.0})],
    "wae_mmd": [(wasserstein, {}), (wasserstein, {"lam": 3.0})],
    "decomposition_vae": [
        (decomposition, {}),
        (decomposition, {"alpha": 2.0, "beta": 0.3, "divergence": "kl-prior-aggregate"}),
        (decomposition, {"alpha": 2.0, "beta": 0.3, "divergence": "kl-aggregate-prior"}),
    ],
    "ada_gvae": [(ada("moments"), {}), (ada("moments"), {"beta": 4.0, "distance": "forward"})],
    "ada_mlvae": [(ada("product"), {}), (ada("product"), {"beta": 4.0, "distance": "forward"})],
    "jl1_vae": [
        (jacobian_vae(1), {}),
        (jacobian_vae(1), EXACT),
        (jacobian_vae(1), EXACT | {"beta": 2.0, "gamma": 3.0, "anneal": 0}),
        (jacobian_vae(1), EXACT | {"gamma": 3.0, "anneal": 5, "columns": 2}),
        (jacobian_vae(1), EXACT | {"gamma": 3.0, "anneal": 5, "through": "both"}),
        (jacobian_vae(1), {"gamma": 3.0, "anneal": 5, "columns": None, "eps": 1e-3}),
        (jacobian_vae(1), {"gamma": 3.0, "anneal": 5, "eps": 0.5, "columns": 2}),
        (jacobian_vae(1), {"gamma": 3.0, "anneal": 5, "estimator": "central", "eps": 0.5, "columns": 2}),
        (jacobian_vae(1), {"gamma": 3.0, "anneal": 5, "images": 0.25}),
        (jacobian_vae(1), EXACT | {"gamma": 3.0, "anneal": 5, "columns": 1, "images": 0.25}),
        (jacobian_vae(1), EXACT | {"gamma": 3.0, "anneal": 5, "through": "both", "images": 0.5}),
    ],
    "jl2_vae": [
        (jacobian_vae(2), {}),
        (jacobian_vae(2), EXACT),
        (jacobian_vae(2), EXACT | {"beta": 2.0, "gamma": 3.0, "anneal": 0}),
        (jacobian_vae(2), EXACT | {"gamma": 3.0, "anneal": 5, "columns": 1}),
        (jacobian_vae(2), EXACT | {"gamma": 3.0, "anneal": 5, "through": "both"}),
        (jacobian_vae(2), {"gamma": 3.0, "anneal": 5, "columns": None, "eps": 1e-3, "images": 0.5}),
        (jacobian_vae(2), {"gamma": 3.0, "anneal": 5, "estimator": "central", "eps": 0.5, "images": 0.5}),
    ],
}
CASES = [pytest.param(name, *case, id=f"{name}{i}") for name in TABLE for i, case in enumerate(TABLE[name])]
NAMES = uw.methods.names()
# Every argument that is a number, with its default.
NUMBERS = [
    (name, key, parameter.default)
    for name in NAMES
    for key, parameter in inspect.signature(uw.methods.get(name)).parameters.items()
    if isinstance(parameter.default, float)
]


# Numbers that act on an adversary alone: the loss does not show them.
ADVERSARIAL = {"discriminator_lr"}


def other(default: float) -> float:
    return 3 * default or 0.5


def model(objective: Objective, seed: int = 0) -> VAE:
    parts = objective.likelihood, objective.posterior, objective.prior
    vae = create(INFO, uw.networks.mlp((5,), activation="tanh"), *parts, seed=seed)
    for name, adversary in objective.needs(INFO).adversaries.items():
        vae.adversaries[name] = adversary.build(INFO)
    initialise(vae.adversaries, seed)
    return vae.double()


def draw(objective: Objective) -> Batch:
    """A batch, and all else that an objective asks for."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(BATCH, PIXELS, generator=generator).double()
    noise = {"posterior": torch.randn(BATCH, LATENTS, generator=generator).double()}
    needs = objective.needs(INFO)
    for name, (kind, shape) in needs.noise.items():
        make = torch.rand if kind == "uniform" else torch.randn
        noise[name] = make(BATCH, *shape, generator=generator).double()
    second = torch.rand(BATCH, PIXELS, generator=generator).double() if needs.second else None
    return Batch(x, noise, second)


def evaluated(vae: VAE, objective: Objective, batch: Batch, step: int = STEP, watch: bool = False) -> dict[str, Tensor]:
    penalties = at_step(objective.penalties, step)
    return evaluate(vae, penalties, batch.x, batch.noise, SIZE, watch, objective.pairing, batch.second)


def gradients(vae: VAE, loss: Tensor) -> Tensor:
    wanted = list(vae.parameters())
    found = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
    return torch.cat([g.flatten() for g in found])


# --- the table --------------------------------------------------------------------------------------


def test_the_table_is_complete():
    assert sorted(TABLE) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_is_in_the_public_namespace(name):
    method = getattr(uw.methods, name)
    assert method is uw.methods.get(name) is uw.methods.get(name.replace("_", "-")) and name in uw.methods.__all__
    parameters = inspect.signature(method).parameters.values()
    assert all(p.default is not p.empty for p in parameters), "a method works without arguments"
    assert method.__doc__ and "(" in method.__doc__, "its docstring cites its equation"


# --- the equation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "equation", "arguments"), CASES)
def test_the_loss_is_its_equation(name, equation, arguments):
    objective = uw.methods.get(name)(**arguments)
    vae, batch = model(objective), draw(objective)
    ours = evaluated(vae, objective, batch)["loss"]
    ours, slopes = ours.item(), gradients(vae, ours)
    theirs = equation(Plain(vae, batch), **{k: v for k, v in arguments.items() if k != "likelihood"})
    assert ours == pytest.approx(theirs.item(), rel=1e-7)  # 0.8 and 0.05 are float32 in a model
    assert torch.allclose(slopes, gradients(vae, theirs), rtol=1e-6, atol=1e-7) and slopes.abs().max() > 1e-3


@pytest.mark.parametrize(("name", "key", "default"), NUMBERS)
def test_every_number_matters(name, key, default):
    """Once the schedules have come to rest, each weight moves the loss."""
    if key in ADVERSARIAL:
        pytest.skip("it acts on an adversary alone: tests/contracts/test_training.py")
    rest = {"estimator": "finite"} if key == "eps" else {}  # exact columns have no steps
    base = uw.methods.get(name)(**rest)
    vae, batch = model(base), draw(base)

    def loss(objective: Objective) -> float:
        return evaluated(vae, objective, batch, 10**9)["loss"].item()

    assert loss(uw.methods.get(name)(**{key: other(default)}, **rest)) != pytest.approx(loss(base), rel=1e-9)


# --- specs and packs --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "equation", "arguments"), CASES)
def test_json_makes_an_equal_objective(name, equation, arguments):
    objective = uw.methods.get(name)(**arguments)
    assert from_json(json.loads(json.dumps(to_json(objective)))) == objective
    spec = objective.method
    plain = {key: value for key, value in arguments.items() if key not in ("likelihood", "divergence")}
    stored = uw.methods.get(name).added | spec
    assert spec["name"] == name and {key: stored[key] for key in plain} == plain
    written = json.loads(json.dumps({key: to_json(value) for key, value in spec.items()}))
    rest = {key: from_json(value) for key, value in written.items() if key != "name"}
    assert uw.methods.get(name)(**as_stored(name, rest)) == objective
    parameters, added = inspect.signature(uw.methods.get(name)).parameters, uw.methods.get(name).added
    given = {key: arguments.get(key, parameter.default) for key, parameter in parameters.items()}
    assert list(rest) == [key for key in parameters if key not in added or given[key] != added[key]]


@pytest.mark.parametrize(("name", "key", "default"), NUMBERS)
def test_every_number_may_differ_by_member(name, key, default):
    method = uw.methods.get(name)
    both = default, other(default)
    for values in (list(both), both, np.array(both)):
        spec = to_json(method(**{key: values}))
        for member, value in enumerate(both):
            assert from_json(resolve(spec, member)) == method(**{key: value})
        assert structure(resolve(spec, 0)) == structure(resolve(spec, 1))  # so that they share a pack


@pytest.mark.parametrize(("name", "key", "default"), NUMBERS)
def test_every_number_may_be_a_schedule(name, key, default):
    method = uw.methods.get(name)
    rest = {"anneal": 0} if "anneal" in inspect.signature(method).parameters else {}
    half, start = (0.125, 0.0625) if key == "eps" else (default or 0.5, 0.0)  # a step may not be 0
    objective = method(**{key: uw.cyclic(uw.ramp(2 * half - start, 2, start=start), 3)}, **rest)
    assert from_json(json.loads(json.dumps(to_json(objective)))) == objective
    constant = method(**{key: half}, **rest)
    assert at_step(objective.penalties, 4) == at_step(constant.penalties, 4)  # half-way in its second cycle
    assert at_step(objective.penalties, 5) != at_step(constant.penalties, 5)


@pytest.mark.parametrize(("name", "key", "default"), NUMBERS)
def test_what_is_no_number_is_refused(name, key, default):
    with pytest.raises(UntwineError, match=f"{key} of method '{name}' must be a number, not 'lots'"):
        uw.methods.get(name)(**{key: "lots"})


class Terms(nn.Module):
    """All terms of an objective as one module, for `functional_call`."""

    def __init__(self, vae: VAE, objective: Objective):
        super().__init__()
        self.vae, self.objective = vae, objective

    def forward(self, x: Tensor, noise: dict[str, Tensor], *second: Tensor) -> Tensor:
        batch = Batch(x, noise, *(second or (None,)))
        return torch.stack(list(evaluated(self.vae, self.objective, batch, watch=True).values()))


@pytest.mark.parametrize(("name", "equation", "arguments"), CASES)
def test_members_under_vmap_are_members_alone(name, equation, arguments):
    """Values and gradients, with everything watched that can be."""
    objective = uw.methods.get(name)(**arguments)
    names = uw.penalties.WATCHABLE.keys() - objective.penalties.keys()
    if isinstance(objective.posterior, type(uw.posteriors.deterministic)):
        names -= {"kl", "delta_kl", "entropy", "total_correlation"}  # they need a density
    objective = objective.watching({key: uw.penalties.WATCHABLE[key] for key in sorted(names)})
    members, batch = [model(objective, seed) for seed in range(3)], draw(objective)
    xs = torch.stack([batch.x, batch.x + 0.1, batch.x - 0.1])
    noises = {key: torch.stack([v, v.flip(0), v]) for key, v in batch.noise.items()}
    more = () if batch.second is None else (torch.stack([batch.second, batch.second.flip(0), batch.second]),)
    template = Terms(members[0], objective)
    states = [Terms(member, objective).state_dict(keep_vars=True) for member in members]
    stacked = {key: torch.stack([s[key].detach() for s in states]).requires_grad_() for key in states[0]}
    buffers = {
        key: torch.stack([dict(Terms(m, objective).named_buffers())[key] for m in members])
        for key, _ in template.named_buffers()
    }

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], *inputs: Any) -> Tensor:
        return torch.func.functional_call(template, (parameters, buffers), inputs)

    together = torch.func.vmap(one)(stacked, buffers, xs, noises, *more)
    # The loss, and what the adversaries minimise, which come last.
    rivals = len({key.partition("/")[0] for key in objective.needs(INFO).adversaries})
    chosen = [0, *range(together.shape[1] - rivals, together.shape[1])]
    slopes = torch.autograd.grad(
        together[:, chosen].sum(), list(stacked.values()), allow_unused=True, materialize_grads=True
    )
    rows = torch.cat([g.flatten(1) for g in slopes], 1)
    for i, member in enumerate(members):
        inputs = xs[i], {key: value[i] for key, value in noises.items()}, *(m[i] for m in more)
        alone = Terms(member, objective)(*inputs)
        assert torch.allclose(together[i], alone, rtol=1e-9)
        assert torch.allclose(rows[i], gradients(member, alone[chosen].sum()), rtol=1e-7, atol=1e-10)
    assert together.shape[1] == 2 + len(objective.penalties) + rivals


# --- arguments --------------------------------------------------------------------------------------


def test_parts_are_given_as_text_as_parts_and_as_distributions():
    laplace = D.Laplace(torch.zeros(3), torch.ones(3))
    assert uw.methods.vae(prior="laplace") == uw.methods.vae(prior=uw.priors.laplace())
    assert uw.methods.vae(prior=laplace) == uw.methods.vae(prior=uw.priors.given(laplace))
    run = uw.Run(method=uw.methods.vae(prior=laplace), dataset="synthetic_linear", latents=3, steps=1)
    assert uw.Run.from_json(json.loads(json.dumps(run.to_json()))) == run


def test_numbers_in_text_may_differ_by_member():
    run = uw.Run(
        method=uw.methods.vae(prior="sparse(gamma=(0.0, 0.8))", likelihood="gaussian(scale=(0.1, 1))"),
        dataset="synthetic_linear",
        seeds=[0, 0],
        latents=2,
    )
    first, second = (member.spec["method"] for member in run.members())
    assert (first["prior"]["gamma"], second["prior"]["gamma"]) == (0.0, 0.8)
    assert (first["likelihood"]["scale"], second["likelihood"]["scale"]) == (0.1, 1.0)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "decomposition_vae",
            {"divergence": "mmd(per_dimension=no)"},
            "per_dimension .* must be true or false, not 'no'",
        ),
        ("vae", {"prior": "anisotropic-normal(learned=no)"}, "learned .* must be true or false, not 'no'"),
        ("ada_gvae", {"repeat": "no"}, "repeat of method 'ada_gvae' must be true or false, not 'no'"),
        ("factor_vae", {"hidden": True}, "hidden of method 'factor_vae' must be a whole number, 1 or more, not True"),
        ("factor_vae", {"discriminator_lr": -1.0}, "must be positive"),
        ("annealed_vae", {"capacity": -1.0}, "0 or more"),
        ("jl1_vae", {"eps": 0.0}, "eps .* must be positive, not 0.0"),
        ("info_vae", {"divergence": uw.penalties.mmd().watch()}, "only watched"),
        ("vae", {"prior": "generalised-normal(p=100)"}, "from 0.1 to 30"),
        ("vae", {"prior": 3}, "a prior is a name"),
    ],
    ids=str,
)
def test_what_an_argument_cannot_be(name, arguments, message):
    with pytest.raises(UntwineError, match=message):
        uw.methods.get(name)(**arguments)


@pytest.mark.parametrize("name", ["a/b", "a.b", "kl_adversary", "loss", "part"])
def test_names_that_a_penalty_cannot_have(name):
    with pytest.raises(UntwineError, match="a penalty cannot be called"):
        uw.methods.vae().replace(penalties={name: 1.0 * uw.penalties.kl})


def test_another_estimate_of_a_term_can_be_watched():
    watching = uw.methods.factor_vae(hidden=4).watching({"total_correlation": uw.penalties.total_correlation()})
    assert list(watching.penalties) == ["kl", "total_correlation", "watched_total_correlation"]
    with pytest.raises(UntwineError, match="in the log already"):
        uw.methods.vae().watching({"kl": uw.penalties.kl})
