"""DtO against the integer programme and brute force; Delta-KL against its equations, entry by entry."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from untwine.errors import UntwineError
from untwine.metrics.families import alignment
from untwine.metrics.families.alignment import (
    active_latents,
    delta_kl,
    dto,
    right_singular_vectors,
    signed_permutation_distances,
)

RNG = np.random.default_rng(0)


def random_jacobians(n: int, latents: int, outputs: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, latents, outputs))


def orthogonal(d: int, seed: int = 0) -> np.ndarray:
    return stats.ortho_group.rvs(d, random_state=seed)


# --- the nearest signed permutation -----------------------------------------------------------------


def by_brute_force(matrix: np.ndarray) -> float:
    """All signed permutations: the one nearest in L1, and how far it is in the Frobenius norm."""
    d = len(matrix)
    best, distance = np.inf, np.nan
    for order in itertools.permutations(range(d)):
        for signs in itertools.product((-1, 1), repeat=d):
            candidate = np.zeros((d, d))
            candidate[np.arange(d), order] = signs
            if (size := np.abs(matrix - candidate).sum()) < best:
                best, distance = size, np.linalg.norm(matrix - candidate)
    return float(distance)


def by_integer_programme(matrix: np.ndarray) -> float:
    """rolinek2019, S72 to S75: variables P+ and P- (binary), and D."""
    d, count = len(matrix), matrix.size
    eye, flat = np.eye(count), matrix.ravel()
    sums = np.vstack([np.kron(np.eye(d), np.ones((1, d))), np.kron(np.ones((1, d)), np.eye(d))])
    solved = optimize.milp(
        np.r_[np.zeros(2 * count), np.ones(count)],
        integrality=np.r_[np.ones(2 * count), np.zeros(count)],
        bounds=optimize.Bounds(0, np.r_[np.ones(2 * count), np.full(count, np.inf)]),
        constraints=[
            optimize.LinearConstraint(np.hstack([eye, -eye, -eye]), -np.inf, flat),
            optimize.LinearConstraint(np.hstack([-eye, eye, -eye]), -np.inf, -flat),
            optimize.LinearConstraint(np.hstack([sums, sums, np.zeros((2 * d, count))]), 1, 1),
        ],
    )
    assert solved.success
    plus, minus = solved.x[:count].round(), solved.x[count : 2 * count].round()
    return float(np.linalg.norm(matrix - (plus - minus).reshape(d, d)))


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_nearest_signed_permutation_by_brute_force(d: int):
    several = np.stack([orthogonal(d, seed) if d > 1 else np.array([[-1.0]]) for seed in range(6)])
    expected = [by_brute_force(one) for one in several]
    assert signed_permutation_distances(several) == pytest.approx(expected, abs=1e-12)
    any_matrices = RNG.normal(size=(6, d, d)) / d  # the assignment does not need them orthogonal
    assert signed_permutation_distances(any_matrices) == pytest.approx([by_brute_force(one) for one in any_matrices])


@pytest.mark.parametrize("d", [2, 3, 5, 7])
def test_the_nearest_signed_permutation_by_integer_programme(d: int):
    several = np.stack([orthogonal(d, seed) for seed in range(4)])
    assert signed_permutation_distances(several) == pytest.approx([by_integer_programme(one) for one in several])


def test_dto_from_its_definition():
    """numpy's SVD of J itself, the integer programme, the mean."""
    jacobians = random_jacobians(5, 4, 9)
    expected = [by_integer_programme(np.linalg.svd(one.T, full_matrices=False)[2].T) for one in jacobians]
    score = dto(jacobians)
    assert float(score) == pytest.approx(np.mean(expected))
    assert score.details["distances"] == pytest.approx(expected)
    assert score.details["active"] == [0, 1, 2, 3] and score.details["active_count"] == 4
    assert score.details["column_norms"] == pytest.approx(np.sqrt((jacobians**2).sum(2).mean(0)))
    assert score.details["ambiguous"] == 0 and score.settings == {"passive_below": 0.0, "samples": 5}


# --- properties -------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 6])
def test_orthogonal_columns_have_none(d: int):
    columns = orthogonal(12, 3)[:d] * np.array([5.0, 3.0, 1.0, 0.5, 0.1, 1e-6])[:d, None]
    assert float(dto(columns[None])) == pytest.approx(0, abs=1e-8)


def test_invariances():
    jacobians = random_jacobians(6, 5, 8)
    value = float(dto(jacobians))
    rotated = jacobians @ orthogonal(8)
    signs = np.array([1, -1, -1, 1, -1])[:, None]
    assert value > 1
    for same in (jacobians[:, [3, 1, 0, 4, 2]], jacobians * signs, rotated, jacobians[::-1], jacobians * 1e-5):
        assert float(dto(same)) == pytest.approx(value, abs=1e-9)
    assert float(dto(jacobians * np.array([1, 2, 3, 4, 5])[:, None])) != pytest.approx(value, abs=1e-3)


def test_a_rotation_of_the_latents_shows():
    columns = orthogonal(9, 1)[:3] * np.array([3.0, 2.0, 1.0])[:, None]
    angle = 0.2
    turn = np.eye(3)
    turn[:2, :2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    assert float(dto((turn @ columns)[None])) == pytest.approx(2 * math.sqrt(2) * math.sin(angle / 2))


def test_images_and_packs():
    images = random_jacobians(4, 3, 2 * 5 * 5).reshape(4, 3, 2, 5, 5)
    flat = images.reshape(4, 3, -1)
    assert float(dto(images)) == float(dto(flat))
    other = random_jacobians(4, 3, 50, seed=9)
    pack = dto(np.stack([flat, other]))
    assert pack.values.tolist() == [float(dto(flat)), float(dto(other))]
    assert pack.details["distances"].shape == (2, 4) and pack.details["active"] == [[0, 1, 2]] * 2
    assert pack.details["active_count"].tolist() == [3, 3]
    assert dto(np.stack([images, images])).values.shape == (2,)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    jacobians = random_jacobians(7, 4, 10)
    jacobians[5] = 0
    whole = dto(jacobians)
    monkeypatch.setattr(alignment, "_CHUNK", 80)
    assert dto(jacobians).details["distances"].tolist() == whole.details["distances"].tolist()
    assert dto(jacobians).details["ambiguous"] == whole.details["ambiguous"] == 1


def test_random_decoders():
    """Angles at random in the plane: the mean of 2 sqrt 2 sin(a / 2) over a in [0, pi / 4] (Table 2 has .79)."""
    linear = dto(random_jacobians(4000, 2, 3))
    expected = 2 * math.sqrt(2) * 8 / math.pi * (1 - math.cos(math.pi / 8))
    error = linear.details["distances"].std() / math.sqrt(4000)
    assert float(linear) == pytest.approx(expected, abs=3.5 * error) and expected == pytest.approx(0.548, abs=1e-3)
    five, six = float(dto(random_jacobians(500, 5, 200))), float(dto(random_jacobians(500, 6, 200)))
    assert five == pytest.approx(1.64, abs=0.04) and six == pytest.approx(1.91, abs=0.04)


def test_random_decoders_whose_columns_have_equal_norms():
    """1.86 +- .11 for 5 latents and 2.11 +- .11 for 6 in rolinek2019's Table 2."""
    for d, published, ours in ((5, 1.86, 1.82), (6, 2.11, 2.08)):
        columns = random_jacobians(500, d, 200)
        distances = dto(columns / np.linalg.norm(columns, axis=2, keepdims=True)).details["distances"]
        assert distances.mean() == pytest.approx(ours, abs=0.03) and abs(distances.mean() - published) < 0.11
        assert distances.std() == pytest.approx(0.11, abs=0.02)


# --- where V is not unique --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_orthogonal_columns_of_equal_norms_have_none(dtype: type):
    columns = (0.7 * np.stack([orthogonal(6, seed)[:4] for seed in range(5)])).astype(dtype)
    score = dto(columns)
    assert float(score) == pytest.approx(0, abs=1e-6) and score.details["ambiguous"] == 5


def test_latents_without_effect_add_nothing():
    active = random_jacobians(5, 3, 8)
    padded = np.zeros((5, 6, 8))
    padded[:, [4, 1, 2]] = active
    score = dto(padded)
    assert float(score) == pytest.approx(float(dto(active)), abs=1e-10)
    assert score.details["ambiguous"] == 5 and score.details["active_count"] == 6
    assert float(dto(np.zeros((2, 3, 4)))) == 0
    assert float(dto(np.zeros((1, 1, 1)))) == 0


def test_fewer_outputs_than_latents():
    """The null space has any basis; that of the nearest axes follows the latents when they are permuted."""
    jacobians = random_jacobians(8, 5, 3)
    score = dto(jacobians)
    assert score.details["ambiguous"] == 8
    assert float(dto(jacobians[:, [3, 0, 4, 2, 1]])) == pytest.approx(float(score), abs=1e-9)
    assert float(dto(-jacobians @ orthogonal(3))) == pytest.approx(float(score), abs=1e-9)
    vectors, _ = right_singular_vectors(jacobians)
    for one, jacobian in zip(vectors, jacobians, strict=True):
        assert np.allclose(one.T @ one, np.eye(5)) and np.abs(jacobian.T @ one[:, 3:]).max() < 1e-12


def test_the_basis_of_equal_singular_values_spans_what_it_should():
    turn = orthogonal(4, 7)
    jacobian = turn @ np.diag([3.0, 2.0, 2.0, 1.0]) @ orthogonal(6, 8)[:4]
    vectors, ambiguous = right_singular_vectors(jacobian[None])
    assert ambiguous == 1 and np.allclose(vectors[0].T @ vectors[0], np.eye(4))
    diagonal = vectors[0].T @ jacobian @ jacobian.T @ vectors[0]
    assert np.allclose(diagonal, np.diag([9.0, 4.0, 4.0, 1.0]))
    projector = turn[:, 1:3] @ turn[:, 1:3].T
    nearest = np.argmax(np.diag(projector))  # the first vector is where that axis falls onto the space
    assert np.allclose(np.abs(vectors[0][:, 1]), np.abs(projector[nearest]) / math.sqrt(projector[nearest, nearest]))


def by_rotations(jacobian: np.ndarray) -> np.ndarray:
    """V by one-sided Jacobi rotations of J's columns, which keep the digits of small ones."""
    columns, vectors = jacobian.T.copy(), np.eye(len(jacobian))
    for _ in range(30):
        for i, j in itertools.combinations(range(len(jacobian)), 2):
            a, b, c = columns[:, i] @ columns[:, i], columns[:, j] @ columns[:, j], columns[:, i] @ columns[:, j]
            angle = 0.5 * math.atan2(2 * c, a - b)
            turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
            columns[:, [i, j]], vectors[:, [i, j]] = columns[:, [i, j]] @ turn, vectors[:, [i, j]] @ turn
    return vectors


def test_small_columns_keep_their_directions():
    """Columns at 1e-9 of the others, where the eigenvectors of J^T J are rounding."""
    jacobians = random_jacobians(6, 5, 9) * np.array([1.0, 1e-9, 1.0, 1e-9, 1e-9])[:, None]
    expected = signed_permutation_distances(np.stack([by_rotations(one) for one in jacobians]))
    assert dto(jacobians).details["distances"] == pytest.approx(expected, abs=1e-5)
    from_squares = signed_permutation_distances(np.linalg.eigh(jacobians @ jacobians.swapaxes(1, 2))[1])
    assert np.abs(from_squares - expected).max() > 0.05


def test_passive_latents_can_be_left_out():
    jacobians = random_jacobians(6, 5, 9) * np.array([1.0, 1e-4, 0.5, 2e-3, 1.0])[:, None]
    score = dto(jacobians, passive_below=0.01)
    assert score.details["active"] == [0, 2, 4] and score.details["active_count"] == 3
    assert float(score) == pytest.approx(float(dto(jacobians[:, [0, 2, 4]])))
    assert score.settings["passive_below"] == 0.01 and not score.comparable(dto(jacobians))
    pack = dto(np.stack([jacobians, random_jacobians(6, 5, 9)]), passive_below=0.01)
    assert pack.details["active"] == [[0, 2, 4], [0, 1, 2, 3, 4]] and pack.details["active_count"].tolist() == [3, 5]
    for wrong in (1.0, -0.1, float("nan")):
        with pytest.raises(UntwineError, match=r"fraction from 0 to below 1|must be finite"):
            dto(jacobians, passive_below=wrong)


def test_wrong_jacobians_are_refused():
    with pytest.raises(UntwineError, match=r"jacobians have shape \[3, 4\]"):
        dto(np.zeros((3, 4)))
    with pytest.raises(UntwineError, match="NaN"):
        dto(np.full((2, 3, 4), np.nan))


# --- the polarised regime ---------------------------------------------------------------------------


def posteriors(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Two active latents, one passive, one in between."""
    rng = np.random.default_rng(3)
    means = rng.normal(size=(n, 4)) * np.array([1.0, 0.9, 0.01, 0.5])
    return means, rng.uniform(0.5, 1.5, (n, 4)) * np.array([0.02, 0.05, 1.0, 0.6])


def by_equations(means: np.ndarray, variances: np.ndarray, threshold: float) -> tuple[float, float, float]:
    n, d = means.shape
    exact = approximate = 0.0
    for j in range(d):
        active = sum(variances[i, j] for i in range(n)) / n < threshold
        for i in range(n):
            m, v = means[i, j], variances[i, j]
            exact += 0.5 * (m**2 + v - math.log(v) - 1) / n
            approximate += 0.5 * (m**2 - math.log(v) - 1) / n if active else 0.0
    return abs(exact - approximate) / exact, exact, approximate


@pytest.mark.parametrize("threshold", [0.03, 0.5, 0.9])
def test_delta_kl_from_its_equations(threshold: float):
    means, variances = posteriors()
    value, exact, approximate = by_equations(means, variances, threshold)
    score = delta_kl(means, variances, threshold=threshold)
    assert float(score) == pytest.approx(value)
    assert score.details["kl"] == pytest.approx(exact) and score.details["approximate_kl"] == pytest.approx(approximate)
    assert score.details["kl_by_latent"].sum() == pytest.approx(exact)
    active = active_latents(variances, threshold).tolist()
    assert score.details["active"] == active and sorted(active + score.details["passive"]) == [0, 1, 2, 3]
    assert len(active) == {0.03: 1, 0.5: 2, 0.9: 3}[threshold] and value > 0


def test_polarised_or_not():
    means = np.array([[1.0, 0.0], [-1.0, 0.0]])
    polarised = delta_kl(means, np.array([[1e-4, 1.0]] * 2))
    assert 0 < float(polarised) < 1e-4
    blurred = delta_kl(means, np.array([[0.45, 0.7]] * 2))
    assert float(blurred) > 0.2
    assert blurred.details["active"] == [0] and blurred.details["passive"] == [1]


def test_collapse():
    prior = delta_kl(np.zeros((3, 2)), np.ones((3, 2)))
    assert float(prior) == 0 and prior.details["active"] == [] and prior.details["kl"] == 0
    nearly = delta_kl(np.full((3, 2), 0.01), np.ones((3, 2)))
    assert float(nearly) == pytest.approx(1)
    assert float(delta_kl(np.zeros((1, 1)), np.full((1, 1), 1e-30))) < 1e-2  # far below rounding beside 1


def test_delta_kl_is_invariant_to_order_and_sign():
    means, variances = posteriors()
    value = float(delta_kl(means, variances))
    assert float(delta_kl(-means[::-1], variances[::-1])) == pytest.approx(value, rel=1e-12)
    assert float(delta_kl(means[:, [2, 0, 3, 1]], variances[:, [2, 0, 3, 1]])) == pytest.approx(value, rel=1e-12)


def test_delta_kl_of_packs():
    means, variances = posteriors()
    other = np.full_like(variances, 0.9)
    pack = delta_kl(np.stack([means, means]), np.stack([variances, other]))
    assert pack.values.tolist() == [float(delta_kl(means, variances)), float(delta_kl(means, other))]
    assert pack.details["active"] == [[0, 1], []] and pack.details["passive"] == [[2, 3], [0, 1, 2, 3]]
    assert pack.details["kl"].shape == (2,) and pack.details["kl_by_latent"].shape == (2, 4)


def test_what_delta_kl_refuses():
    with pytest.raises(UntwineError, match="deterministic posterior has no KL"):
        delta_kl(np.zeros((3, 2)), np.zeros((3, 2)))
    with pytest.raises(UntwineError, match="differ"):
        delta_kl(np.zeros((3, 2)), np.ones((4, 2)))
    for wrong in (0.0, 1.5, float("nan")):
        with pytest.raises(UntwineError, match=r"above 0 and at most 1|must be finite"):
            delta_kl(np.zeros((3, 2)), np.ones((3, 2)), threshold=wrong)
