"""Rolinek et al. 2019, sections 3, 4 and 7: every proposition, by numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import optimize
from torch import Tensor, nn

import untwine as uw
from untwine.model.info import Info
from untwine.model.networks import Network
from untwine.objective.evaluation import at_step, evaluate
from untwine.objective.penalties import (
    deterministic_reconstruction,
    linearised_reconstruction,
    stochastic_reconstruction,
)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def orthogonal(size: int, seed: int = 0) -> Tensor:
    return torch.linalg.qr(normal(size, size, seed=seed))[0]


def cosines(matrix: Tensor) -> float:
    """The largest |cosine| between two columns."""
    unit = matrix / matrix.norm(dim=0)
    return (unit.T @ unit - torch.eye(matrix.shape[1])).abs().max().item()


def off_permutation(v: Tensor) -> float:
    """How far |V| is from the nearest permutation matrix."""
    nearest = torch.zeros_like(v)
    rows, columns = optimize.linear_sum_assignment(-v.abs().numpy())
    nearest[rows, columns] = 1.0
    return (v.abs() - nearest).abs().max().item()


# --- Proposition 1 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_proposition_1(seed):
    """Orthogonal columns if and only if |V| is a permutation in every SVD, for distinct singular values."""
    n, d = 7, 4
    scales = torch.tensor([0.3, 1.0, 1.7, 2.5]).double()[
        torch.randperm(4, generator=torch.Generator().manual_seed(seed))
    ]
    frame = orthogonal(n, seed)
    aligned = frame[:, :d] * scales  # (a)
    u, s, vt = torch.linalg.svd(aligned, full_matrices=False)
    assert cosines(aligned) < 1e-12 and off_permutation(vt.T) < 1e-12
    # "Every" SVD: with distinct singular values only signs and their order are left to choose.
    for signs in itertools.product((1.0, -1.0), repeat=d):
        flip = torch.tensor(signs).double()
        assert torch.allclose((u * flip) @ torch.diag(s) @ (vt * flip[:, None]), aligned)
        assert off_permutation((vt * flip[:, None]).T) < 1e-12
    # (b) to (a)
    permutation = torch.eye(d).double()[torch.randperm(d, generator=torch.Generator().manual_seed(seed + 9))]
    assert cosines(frame[:, :d] @ torch.diag(scales) @ (permutation * -1.0).T) < 1e-12
    # not (a), so not (b)
    rotated = aligned @ orthogonal(d, seed + 1)
    assert cosines(rotated) > 0.05 and off_permutation(torch.linalg.svd(rotated)[2].T) > 0.05


def test_proposition_1_needs_distinct_singular_values():
    matrix, turn = orthogonal(5)[:, :2], orthogonal(2, 3)
    assert cosines(matrix) < 1e-12
    assert torch.allclose((matrix @ turn) @ torch.eye(2).double() @ turn.T, matrix)  # an SVD with V = turn
    assert off_permutation(turn) > 0.05


# --- Propositions 2 and 3 ---------------------------------------------------------------------------


def decoder(z: Tensor) -> Tensor:
    """A curved decoder from the plane to three pixels."""
    x, y = z[..., 0], z[..., 1]
    return torch.stack((x.sin() + y, x * y / 2, (x - 2 * y).tanh()), -1)


GRID = torch.linspace(-8, 8, 201, dtype=torch.float64)
PLANE = torch.cartesian_prod(GRID, GRID)
CELL = (GRID[1] - GRID[0]).item() ** 2
X = torch.tensor([0.3, -0.2, 0.5]).double()
ISOTROPIC = lambda z: -0.5 * z.square().sum(-1) - math.log(2 * math.pi)


def turn(angle: float) -> Tensor:
    c, s = math.cos(angle), math.sin(angle)
    return torch.tensor([[c, -s], [s, c]], dtype=torch.float64)


def joint(u: Tensor, prior=ISOTROPIC) -> Tensor:
    """log p_U(x, z) on the grid: Dec_U(z) = Dec(U^T z), a normal likelihood of scale 0.5."""
    error = (decoder(PLANE @ u) - X).square().sum(-1) / 0.25
    return prior(PLANE) - 0.5 * error - 1.5 * math.log(2 * math.pi * 0.25)


def log_likelihood(u: Tensor, prior=ISOTROPIC) -> float:
    return (torch.logsumexp(joint(u, prior), 0) + math.log(CELL)).item()


def test_proposition_2():
    """The grid itself is not rotated, so these are separate integrals; they agree to nine digits."""
    values = [log_likelihood(turn(angle)) for angle in (0.0, 0.3, 1.0, 2.5)]
    assert values == pytest.approx([values[0]] * 4, rel=1e-9)
    mirrored = log_likelihood(torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double())
    assert mirrored == pytest.approx(values[0], rel=1e-9)


@pytest.mark.parametrize(
    "prior",
    [
        lambda z: -z.abs().sum(-1) - 2 * math.log(2.0),
        lambda z: -0.5 * (z / torch.tensor([1.0, 0.5])).square().sum(-1) - math.log(math.pi),
    ],
    ids=["laplace", "anisotropic"],
)
def test_proposition_2_needs_a_symmetric_prior(prior):
    assert abs(log_likelihood(turn(0.0), prior) - log_likelihood(turn(0.8), prior)) > 1e-2


def test_proposition_3_and_the_sign_of_s60():
    """The ELBO with q_U(z) = q(U^T z) does not depend on U. It is log p MINUS the KL to the true posterior: S60's
    plus is a slip."""
    mean, factor = torch.tensor([0.4, -0.3]).double(), torch.tensor([[0.5, 0.0], [0.2, 0.3]]).double()
    values = []
    for angle in (0.0, 0.7, 2.0):
        u = turn(angle)
        q = torch.distributions.MultivariateNormal(u @ mean, u @ factor @ factor.T @ u.T)
        log_q, log_joint = q.log_prob(PLANE), joint(u)
        weight = log_q.exp() * CELL
        elbo = (weight * (log_joint - log_q)).sum().item()
        evidence = log_likelihood(u)
        divergence = (weight * (log_q - (log_joint - evidence))).sum().item()
        assert divergence > 0.1
        assert elbo == pytest.approx(evidence - divergence, rel=1e-9)
        assert elbo != pytest.approx(evidence + divergence, rel=1e-2)
        values.append(elbo)
    assert values == pytest.approx([values[0]] * 3, rel=1e-9)


# --- Proposition 4, through our own terms -----------------------------------------------------------


def reconstructions(*layers: nn.Module, samples: int) -> dict[str, float]:
    """Our four terms for one image, their means over many samples; all in float64."""
    net = nn.Sequential(*layers).double()
    with torch.no_grad():
        for index, parameter in enumerate(net.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=index))
    raw = torch.tensor([[0.5, -0.2, 0.1, -1.0, -2.0, -0.5]]).double()
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(4, 6)).double()
    with torch.no_grad():
        encoder[1].weight.zero_()
        encoder[1].bias.copy_(raw[0])
    network = Network({}, lambda info, outputs: (encoder, net))
    kinds = uw.likelihoods.squared_error, uw.posteriors.diagonal_normal, uw.priors.standard_normal
    vae = uw.VAE(Info(3, (4,)), network, *kinds)
    eps = normal(samples, 3, seed=42)
    watched = {
        "deterministic": deterministic_reconstruction,
        "stochastic": stochastic_reconstruction,
        "linearised": linearised_reconstruction,
    }
    x = torch.tensor([0.2, 0.9, -0.4, 1.0]).double().expand(samples, 4)
    with torch.no_grad():
        terms = evaluate(vae, at_step(watched, 0), x, {"posterior": eps})
        at_mean, at_samples = vae.decode(raw[:, :3]), vae.decode(raw[:, :3] + (raw[:, 3:] / 2).exp() * eps)
        terms["bias"] = 2 * ((at_samples.mean(0) - at_mean) * (at_mean - x[:1])).sum()
    return {name: value.item() for name, value in terms.items() if name != "loss"}


def test_proposition_4_for_a_linear_decoder():
    found = reconstructions(nn.Linear(3, 4), samples=50_000)
    weight, bias = normal(4, 3, seed=0), normal(4, seed=1)
    mean, variance = torch.tensor([0.5, -0.2, 0.1]).double(), torch.tensor([-1.0, -2.0, -0.5]).double().exp()
    at_mean = (weight @ mean + bias - torch.tensor([0.2, 0.9, -0.4, 1.0]).double()).square().sum().item()
    s48 = (weight.square().sum(0) * variance).sum().item()
    assert found["deterministic"] == pytest.approx(at_mean)
    assert found["linearised"] == pytest.approx(s48)
    assert found["stochastic"] == pytest.approx(s48, rel=0.03)
    assert found["reconstruction"] == pytest.approx(found["deterministic"] + found["stochastic"], rel=0.03)


def test_proposition_4_needs_an_unbiased_decoder():
    """For a curved one the parts miss the whole by twice the bias times the error at the mean."""
    found = reconstructions(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), samples=50_000)
    gap = found["reconstruction"] - found["deterministic"] - found["stochastic"]
    assert gap == pytest.approx(found["bias"]) and abs(gap) > 0.05 * found["stochastic"]
    # Nor is (14) what (17) says of it, at variances of this size.
    assert found["stochastic"] != pytest.approx(found["linearised"], rel=0.02)


# --- Propositions S5 and S6 -------------------------------------------------------------------------


def noise(columns: Tensor, variance: Tensor) -> Tensor:
    """E|J eps|^2 = tr(J diag(variance) J^T), not written as S48."""
    return torch.trace(columns @ torch.diag(variance) @ columns.T)


@pytest.mark.parametrize("seed", range(5))
def test_proposition_s5(seed):
    columns, variance = normal(6, 3, seed=seed), normal(3, seed=seed + 10).exp()
    norms = columns.square().sum(0)
    bound = 3 * (norms * variance).prod() ** (1 / 3)
    assert noise(columns, variance) > bound * (1 + 1e-3)
    assert noise(columns, variance) == pytest.approx((norms * variance).sum().item())  # S48
    equal = 0.7 / norms
    assert noise(columns, equal).item() == pytest.approx(3 * (norms * equal).prod().item() ** (1 / 3))
    samples = normal(50_000, 3, seed=seed) * variance.sqrt()
    assert (samples @ columns.T).square().sum(1).mean().item() == pytest.approx(
        noise(columns, variance).item(), rel=0.03
    )


@pytest.mark.parametrize("seed", range(5))
def test_proposition_s6(seed):
    matrix = normal(6, 3, seed=seed)
    pseudo_determinant = torch.linalg.svdvals(matrix).prod()
    assert matrix.norm(dim=0).prod() > pseudo_determinant * (1 + 1e-3)
    straight = orthogonal(6, seed)[:, :3] * torch.tensor([0.5, 2.0, 3.0])
    assert straight.norm(dim=0).prod().item() == pytest.approx(torch.linalg.svdvals(straight).prod().item())
    square = normal(3, 3, seed=seed)  # d = n as well (Lemma S2)
    assert square.norm(dim=0).prod() > torch.linalg.det(square).abs()


def test_lemma_s5_turns_columns_on_the_other_side():
    """V' = V R, as printed, changes every column of U S V'^T; R^T V turns the first two alone, as the proof needs."""
    u, s, vt = torch.linalg.svd(normal(3, 3))
    matrix, spin = u @ torch.diag(s) @ vt, torch.eye(3).double()
    spin[:2, :2] = turn(0.1)
    printed, needed = (u @ torch.diag(s) @ v.T for v in (vt.T @ spin, spin.T @ vt.T))
    assert (printed - matrix)[:, 2].abs().max() > 1e-3
    assert torch.allclose(needed[:, 2], matrix[:, 2]) and (needed - matrix)[:, :2].abs().max() > 1e-3
    # And a small enough turn, in one of the two senses, does lower the product of the norms.
    lower = []
    for angle in (1e-3, -1e-3):
        spin[:2, :2] = turn(angle)
        lower.append((matrix @ spin).norm(dim=0).prod() < matrix.norm(dim=0).prod())
    assert sum(lower) == 1


# --- Theorem 2 and Corollary 1 ----------------------------------------------------------------------

SAMPLES, N, D = 3, 5, 3
BUDGET = 4.0


def minimise(seed: int, logarithm: bool, samples: int) -> tuple[float, Tensor, Tensor]:
    """(18) under (19), or (20) under (21), over all V_i and sigma: value, columns [i, n, d], variances [i, d].

    J_i = U_i S_i V_i^T with V_i the exponential of a skew matrix, and log variances whose sum is fixed.
    """
    singular = torch.tensor([[0.5, 1.0, 2.0], [3.0, 1.5, 0.4], [1.0, 1.1, 4.0]]).double()[:samples]
    left = torch.stack([orthogonal(N, 100 + i)[:, :D] for i in range(samples)])
    start = 0.5 * torch.stack([orthogonal(D, 200 + seed * samples + i) for i in range(samples)])
    skew = (3 * normal(samples, D, D, seed=seed)).requires_grad_()
    free = normal(samples, D, seed=seed + 50).requires_grad_()

    def pieces() -> tuple[Tensor, Tensor]:
        v = torch.matrix_exp(skew - skew.mT) @ (2 * start)
        log_variance = free - free.mean() - BUDGET / free.numel()  # sum of -log sigma^2 = BUDGET (S35)
        return left @ torch.diag_embed(singular) @ v.mT, log_variance.exp()

    def objective() -> Tensor:
        columns, variance = pieces()
        values = torch.einsum("ind,id->i", columns.square(), variance)
        return values.log().sum() if logarithm else values.sum()

    optimiser = torch.optim.LBFGS(
        [skew, free], lr=1, max_iter=200, tolerance_grad=1e-9, tolerance_change=1e-13, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = objective()
        value.backward()
        return value

    optimiser.step(closure)
    columns, variance = (piece.detach() for piece in pieces())
    return objective().item(), columns, variance


@pytest.mark.parametrize("seed", range(4))
def test_theorem_2(seed):
    """Every descent from a random start ends in a global minimum: the bound S40, orthogonal columns, equal impacts."""
    value, columns, variance = minimise(seed, logarithm=True, samples=SAMPLES)
    assert -variance.log().sum().item() == pytest.approx(BUDGET)
    logs = torch.linalg.svdvals(columns).log().sum().item()
    bound = SAMPLES * math.log(D) - BUDGET / D + 2 / D * logs  # S40
    assert value == pytest.approx(bound, abs=1e-8)
    for one, own in zip(columns, variance, strict=True):
        assert cosines(one) < 1e-4
        impact = one.square().sum(0) * own
        assert impact.max() / impact.min() == pytest.approx(1, abs=1e-4)
        assert off_permutation(torch.linalg.svd(one)[2].T) < 1e-4  # Proposition 1


def test_theorem_2_where_it_does_not_start():
    """The bound is not met at a random point, so that the minimisation has something to do."""
    columns, variance = normal(N, D, seed=1), torch.full((D,), math.exp(-BUDGET / D)).double()
    bound = math.log(D) - BUDGET / D + 2 / D * torch.linalg.svdvals(columns).log().sum().item()
    assert noise(columns, variance).log().item() > bound + 0.05 and cosines(columns) > 0.05


@pytest.mark.parametrize("seed", range(3))
def test_corollary_1(seed):
    """The same for one image and without the logarithm."""
    value, columns, variance = minimise(seed, logarithm=False, samples=1)
    bound = D * (torch.linalg.svdvals(columns[0]).square().prod().item() * math.exp(-BUDGET)) ** (1 / D)
    assert value == pytest.approx(bound, rel=1e-8)
    assert cosines(columns[0]) < 1e-4
    impact = columns[0].square().sum(0) * variance[0]
    assert impact.max() / impact.min() == pytest.approx(1, abs=1e-4)


def test_without_the_logarithm_the_sum_over_images_has_another_minimum():
    """Why (18) has a log: without it the impacts of all images become equal too (all sigma share one budget)."""
    _, columns, variance = minimise(0, logarithm=False, samples=2)
    impacts = torch.einsum("ind,id->id", columns.square(), variance)
    assert impacts.max() / impacts.min() == pytest.approx(1, abs=1e-3)  # across images
    assert max(cosines(one) for one in columns) < 1e-3
    _, columns, variance = minimise(0, logarithm=True, samples=2)
    totals = torch.einsum("ind,id->i", columns.square(), variance)
    assert totals[0].item() != pytest.approx(totals[1].item(), rel=0.05)


# --- equations 24 to 28 -----------------------------------------------------------------------------

M1 = torch.tensor([[4.0, 1.0], [-3.0, 1.0], [5.0, -1.0]]).double()
M2 = M1 @ turn(math.pi / 4).T


@pytest.mark.parametrize(("matrix", "number", "ratio"), [(M1, 24.5, 3 / 50), (M2, 52.4, 45 / 61)], ids=["25", "26"])
@pytest.mark.parametrize("budget", [0.0, 1.0, 3.0])
def test_equations_25_and_26(matrix, number, ratio, budget):
    """The minimum over sigma under (23) is 24.5 and 52.4 times e^(-C/2); the paper prints e^(-C)."""

    def value(log_x: float) -> float:
        variance = torch.tensor([log_x, -budget - log_x]).double().exp()  # sum of -log sigma^2 = C
        return noise(matrix, variance).item()

    found = optimize.minimize_scalar(value, bracket=(-2.0, 2.0), tol=1e-12)
    assert found.fun * math.exp(budget / 2) == pytest.approx(number, abs=0.05)
    assert math.exp(2 * found.x + budget) == pytest.approx(ratio, rel=1e-4)  # sigma_x^2 / sigma_y^2
    assert found.fun == pytest.approx(2 * matrix.norm(dim=0).prod().item() * math.exp(-budget / 2))
    assert (found.fun * math.exp(budget) == pytest.approx(number, abs=0.05)) == (budget == 0)


def test_matrices_of_equations_24_and_26():
    half = math.sqrt(0.5)
    assert torch.allclose(M2, half * torch.tensor([[3.0, 5.0], [-4.0, -2.0], [6.0, 4.0]]).double())
    assert M1.square().sum(0).tolist() == [50, 3] and M2.square().sum(0).tolist() == pytest.approx([30.5, 22.5])


def test_equation_27_and_28():
    """The product of the column norms is least, and equal to the volume, where the columns are orthogonal."""
    volume = math.sqrt(torch.linalg.det(M1.T @ M1).item())
    products = [(M1 @ turn(angle).T).norm(dim=0).prod().item() for angle in np.linspace(0, math.pi / 2, 2001)]
    assert volume == pytest.approx(math.sqrt(134)) and min(products) == pytest.approx(volume, rel=1e-5)
    best = M1 @ turn(np.linspace(0, math.pi / 2, 2001)[int(np.argmin(products))]).T
    assert cosines(best) < 1e-2 < 0.3 < cosines(M1)
    w1, w2 = M1.T
    sine = math.sqrt(1 - (w1 @ w2 / (w1.norm() * w2.norm())).item() ** 2)
    assert (w1.norm() * w2.norm()).item() * sine == pytest.approx(volume)  # Figure 2's cos(alpha) is a sine
