"""The scores of FactorVAE and BetaVAE against their definitions, group by group."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import untwine.datasets
from untwine.data.factors import FactorSpace
from untwine.errors import UntwineError
from untwine.metrics.designs import Groups, Pairs
from untwine.metrics.families.interventions import beta_vae_score, factor_vae_score
from untwine.metrics.groups import grouped, paired
from untwine.metrics.learners.split import split
from untwine.metrics.local import local, sampled

RNG = np.random.default_rng(0)
SPACE = FactorSpace(("x", "y", "z"), (12, 7, 9), ("ordered",) * 3)
SCORES = [factor_vae_score, beta_vae_score]
named = pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)


def encode(factors: np.ndarray, noise: float = 1.0, mix: float = 0.5, d: int = 5) -> np.ndarray:
    """Codes of states that mix factors and add noise, of different scales; the same for the same states."""
    generator = np.random.default_rng(3)
    weights = np.eye(factors.shape[-1], d) + mix * generator.normal(size=(factors.shape[-1], d))
    codes = factors @ weights
    return (codes + noise * generator.normal(size=codes.shape)) * [1.0, 0.2, 3.0, 1.0, 0.1, 1.0][:d]


def drawn(score, groups: int = 240, size: int = 16) -> np.ndarray:
    if score is factor_vae_score:
        return Groups(size=size).draw(SPACE, groups * size, 0)
    return Pairs(size=size).draw(SPACE, groups * size * 2, 0)


def mean(score, codes: np.ndarray, factors: np.ndarray, **options) -> float:
    """The mean over some splits: that of one has few groups to test on."""
    return float(np.mean([float(score(codes, factors, seed=seed, **options)) for seed in range(4)]))


def parts(features: np.ndarray, factors: np.ndarray, target: list[int], test: float, seed: int):
    """Which groups are trained on and tested on: those that the sums of a group's factors put first."""
    sums = np.array([group.reshape(-1, group.shape[-1]).sum(0) for group in factors])
    return split(features, np.column_stack([target, sums]), test, seed)


def factor_vae_defined(codes: np.ndarray, factors: np.ndarray, prune: float, test: float = 1 / 3, seed: int = 0):
    """Votes in a loop over groups."""
    everything = [row for group in codes for row in group]
    spread = [float(np.std(code, ddof=1)) for code in np.array(everything).T]
    kept = [j for j, one in enumerate(spread) if one >= prune]
    votes, target = [], []
    for group, states in zip(codes, factors, strict=True):
        (held,) = [k for k in range(states.shape[1]) if len(set(states[:, k].tolist())) == 1]
        relative = {j: np.var(group[:, j] / spread[j], ddof=1) for j in kept}
        votes.append(min(relative, key=relative.__getitem__))
        target.append(held)
    train, tested = parts(np.zeros((len(codes), 1)), factors, target, test, seed)
    table = np.zeros((codes.shape[2], factors.shape[2]), int)
    for group in train:
        table[votes[group], target[group]] += 1
    right = [int(np.argmax(table[vote])) == held for vote, held in zip(votes, target, strict=True)]
    return np.mean([right[g] for g in tested]), np.mean([right[g] for g in train]), table


def beta_vae_defined(codes: np.ndarray, factors: np.ndarray, test: float = 1 / 3, seed: int = 0):
    features, target = [], []
    for group, states in zip(codes, factors, strict=True):
        (held,) = [k for k in range(states.shape[-1]) if all(a[k] == b[k] for a, b in states)]
        features.append(sum(np.abs(a - b) for a, b in group) / len(group))
        target.append(held)
    features, target = np.array(features), np.array(target)
    train, tested = parts(features, factors, target.tolist(), test, seed)
    with threadpool_limits(1):
        model = LogisticRegression(max_iter=10_000).fit(features[train], target[train])
    return model.score(features[tested], target[tested]), model.score(features[train], target[train])


# --- definitions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prune", [0.0, 1.0, 2.0])
@pytest.mark.parametrize(("noise", "mix", "d"), [(5.0, 0.5, 5), (3.0, 1.0, 3), (2.0, 0.0, 2), (4.0, 0.7, 6)])
def test_the_factor_vae_score_equals_its_definition(noise, mix, d, prune):
    factors = drawn(factor_vae_score)
    codes = encode(factors, noise, mix, d)
    value, train, votes = factor_vae_defined(codes, factors, prune)
    score = factor_vae_score(codes, factors, prune=prune)
    assert float(score) == pytest.approx(value) and score.details["train_accuracy"] == pytest.approx(train)
    assert (score.details["votes"] == votes).all()
    assert 0.2 < value < 1  # not a case that is right by chance


@pytest.mark.parametrize(("noise", "mix", "d"), [(5.0, 0.5, 5), (3.0, 1.0, 3), (2.0, 0.0, 2), (4.0, 0.7, 6)])
def test_the_beta_vae_score_equals_its_definition(noise, mix, d):
    factors = drawn(beta_vae_score)
    codes = encode(factors, noise, mix, d)
    value, train = beta_vae_defined(codes, factors)
    score = beta_vae_score(codes, factors)
    assert float(score) == pytest.approx(value) and score.details["train_accuracy"] == pytest.approx(train)


@named
def test_the_part_that_is_tested_and_the_seed_of_the_split(score):
    factors = drawn(score)
    codes = encode(factors, 3.0)
    definition = beta_vae_defined if score is beta_vae_score else lambda *a, **k: factor_vae_defined(*a, 0.05, **k)
    for test, seed in ((0.5, 0), (0.5, 1), (0.2, 2)):
        assert float(score(codes, factors, test=test, seed=seed)) == pytest.approx(
            definition(codes, factors, test=test, seed=seed)[0]
        )
    assert len({float(score(codes, factors, seed=seed)) for seed in range(5)}) > 1


def test_the_pooled_variance_is_that_of_the_data():
    """The literature estimates it on states of their own; votes are the same with many groups."""
    factors = drawn(factor_vae_score, groups=1000)
    pooled = np.array([one.std() for one in factors.reshape(-1, 3).T])
    apart = np.array([one.std() for one in SPACE.sample(10_000, 9).T])
    assert pooled == pytest.approx(apart, rel=0.03)


# --- groups from a plain sample -------------------------------------------------------------------------


def test_groups_of_a_plain_sample():
    factors = SPACE.sample(2000, 0)
    rows, target = grouped(factors, 600, 40, 0, "factor_vae_score")
    assert rows.shape == (600, 40)
    assert all(len(set(factors[row, k].tolist())) == 1 for row, k in zip(rows, target, strict=True))
    assert np.bincount(target) == pytest.approx(200, abs=40)
    # every row has its turn, and every value of every factor
    assert len(np.unique(rows)) > 1990
    values = {(int(k), int(factors[row[0], k])) for row, k in zip(rows, target, strict=True)}
    assert len(values) == sum(SPACE.sizes)


def test_rows_of_a_group_are_a_random_part_of_those_of_its_value():
    factors = np.repeat([0, 1], [30, 70])[:, None]
    rows, _ = grouped(factors, 4000, 10, 0, "factor_vae_score")
    assert np.bincount(rows.ravel(), minlength=100) == pytest.approx(400, rel=0.25)
    assert (factors[rows[:, 0], 0] == 0).mean() == pytest.approx(0.3, abs=0.03)  # as frequent as in the sample


def test_values_of_few_rows_make_no_groups():
    factors = np.repeat(np.arange(4), [1, 10, 1, 11])[:, None]
    rows, _ = grouped(factors, 100, 10, 0, "factor_vae_score")
    assert set(factors[rows, 0].ravel().tolist()) == {1, 3}
    pairs, _ = paired(np.array([[0], [1], [1], [2], [3], [3], [3]]), 50, 4, 0, "beta_vae_score")
    assert set(pairs.ravel().tolist()) == {1, 2, 4, 5, 6}


def test_pairs_of_a_plain_sample():
    factors = SPACE.sample(1000, 0)
    rows, target = paired(factors, 300, 20, 0, "beta_vae_score")
    assert rows.shape == (300, 20, 2) and (rows[..., 0] != rows[..., 1]).all()
    for pairs, k in zip(factors[rows], target, strict=True):
        assert (pairs[:, 0, k] == pairs[:, 1, k]).all() and len(set(pairs[:, 0, k].tolist())) > 1
    # the second row is uniform among the others of its value
    rows, _ = paired(np.zeros((5, 1), np.int64), 1000, 8, 0, "beta_vae_score")
    table = np.bincount(rows[..., 0].ravel() * 5 + rows[..., 1].ravel(), minlength=25).reshape(5, 5)
    assert (np.diag(table) == 0).all() and table[~np.eye(5, dtype=bool)] == pytest.approx(400, rel=0.25)


@named
def test_plain_and_grouped_samples_agree(score):
    plain = SPACE.sample(4000, 1)
    spread = []
    for noise in (1.0, 4.0, 8.0):
        factors = drawn(score, groups=1500)
        codes = encode(np.concatenate([factors.reshape(-1, 3), plain]), noise)
        own, codes = codes[-4000:], codes[:-4000].reshape(*factors.shape[:-1], 5)
        spread.append(mean(score, codes, factors))
        assert mean(score, own, plain, size=16) == pytest.approx(spread[-1], abs=0.08)
    assert max(spread) - min(spread) > 0.2


# --- what is expected of them ---------------------------------------------------------------------------


@named
@pytest.mark.parametrize("plain", [False, True])
def test_a_perfect_code_has_one_and_noise_has_chance(score, plain):
    factors = SPACE.sample(3000, 0) if plain else drawn(score, groups=900, size=32)
    perfect = factors[..., [2, 0, 1]] * [-1.0, 2.0, 0.5]
    assert float(score(perfect, factors)) == 1 == score(perfect, factors).details["train_accuracy"]
    assert float(score(perfect[..., :2], factors)) < 1 or score is beta_vae_score
    noise = RNG.normal(size=(*factors.shape[:-1], 6))
    assert float(score(noise, factors)) == pytest.approx(1 / 3, abs=0.09)


def test_a_missing_factor_costs_the_factor_vae_score_what_it_should():
    """With codes for two of three factors, groups that hold the third vote at random for the others' codes."""
    factors = drawn(factor_vae_score, groups=900, size=32)
    score = factor_vae_score(factors[..., :2] * 1.0, factors)
    assert mean(factor_vae_score, factors[..., :2] * 1.0, factors) == pytest.approx(2 / 3, abs=0.06)
    assert score.details["votes"][:, :2].diagonal().sum() == score.details["votes"][:, :2].sum()


@named
def test_rotation_lowers_it(score):
    factors = drawn(score, groups=600)
    scaled = (factors - 4.0) / factors.std(axis=tuple(range(factors.ndim - 1)))
    rotation = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
    assert float(score(scaled @ rotation, factors)) < 0.97 < 1 == float(score(scaled, factors))


@named
def test_it_depends_neither_on_the_order_of_groups_nor_of_what_is_in_them(score):
    factors = drawn(score)
    codes = encode(factors, 2.0)
    value = float(score(codes, factors))
    groups, within = RNG.permutation(len(codes)), RNG.permutation(codes.shape[1])
    assert float(score(codes[groups], factors[groups])) == value < 1
    assert float(score(codes[:, within], factors[:, within])) == value
    if score is beta_vae_score:
        assert float(score(codes[:, :, ::-1], factors[:, :, ::-1])) == value


@named
def test_it_does_not_depend_on_the_order_of_a_plain_sample(score):
    factors = SPACE.sample(1500, 0)
    codes, rows = encode(factors, 3.0), RNG.permutation(1500)
    value = float(score(codes, factors, size=16, groups=300))
    assert float(score(codes[rows], factors[rows], size=16, groups=300)) == value < 1


@named
def test_it_depends_neither_on_the_order_nor_on_the_sign_of_codes(score):
    factors = drawn(score)
    codes = encode(factors, 2.0)
    value = float(score(codes, factors))
    assert float(score(codes[..., [3, 1, 4, 0, 2]], factors)) == pytest.approx(value, abs=1e-12)
    assert float(score(codes * [1, -1, -1, 1, -1], factors)) == value
    if score is factor_vae_score:
        assert float(score(codes * [1, 30, 4, 0.5, 100] + 7, factors)) == value


# --- edges ----------------------------------------------------------------------------------------------


@named
def test_dead_codes_say_nothing(score):
    factors = drawn(score)
    codes = encode(factors, 2.0)
    dead = np.concatenate([np.full((*codes.shape[:-1], 2), 0.1), codes], -1)
    found = score(dead, factors, **({"prune": 0.0} if score is factor_vae_score else {}))
    assert float(found) == pytest.approx(float(score(codes, factors)), abs=1e-12)
    assert found.details["dead_codes"] == [0, 1]


def test_without_an_active_code_the_factor_vae_score_is_zero():
    factors = drawn(factor_vae_score)
    for codes, prune in ((np.full((*factors.shape[:-1], 4), 0.1), 0.0), (RNG.normal(size=factors.shape) * 0.01, 0.05)):
        score = factor_vae_score(codes, factors, prune=prune)
        assert float(score) == 0 == score.details["train_accuracy"] and score.details["active_codes"] == []
        assert score.details["votes"].sum() == 0
    assert float(factor_vae_score(codes, factors, prune=0.0)) > 0.2


def test_without_a_live_code_the_beta_vae_score_is_chance():
    factors = drawn(beta_vae_score)
    assert float(beta_vae_score(np.full((*factors.shape[:-1], 4), 0.1), factors)) == pytest.approx(1 / 3, abs=0.12)


def test_codes_are_pruned_by_their_standard_deviation():
    factors = drawn(factor_vae_score)
    codes = np.concatenate([encode(factors), RNG.normal(size=(*factors.shape[:-1], 2)) * [0.04, 0.06]], -1)
    assert factor_vae_score(codes, factors).details["active_codes"] == [0, 1, 2, 3, 4, 6]
    # a constant group of a code with hardly any variance would take all votes
    assert factor_vae_score(codes, factors, prune=0.0).details["active_codes"] == list(range(7))


@named
def test_one_factor_and_one_code(score):
    factors = drawn(score)
    assert float(score(encode(factors, d=1), factors)) > 1 / 3
    single = RNG.integers(0, 5, (400, 1))
    assert float(score(RNG.normal(size=(400, 3)), single)) == 1


@named
def test_constant_factors_are_left_out(score):
    window = FactorSpace(("a", "x", "y", "z"), (1, *SPACE.sizes), ("ordered",) * 4)
    design = Groups(size=16) if score is factor_vae_score else Pairs(size=16)
    factors = design.draw(window, 240 * 16 * 2, 0)
    found = score(encode(factors[..., 1:], 2.0), factors)
    assert found.details["constant_factors"] == [0]
    assert float(found) == float(score(encode(factors[..., 1:], 2.0), factors[..., 1:])) < 1


@named
def test_packs(score):
    factors = drawn(score)
    codes = np.stack([encode(factors, noise) for noise in (0.5, 2.0, 4.0)])
    found = score(codes, factors)
    assert found.values.tolist() == [float(score(one, factors)) for one in codes]
    assert found.details["train_accuracy"].shape == (3,)
    plain = SPACE.sample(900, 0)
    codes = np.stack([encode(plain, noise) for noise in (0.5, 2.0)])
    assert score(codes, plain, groups=60, size=8).values.shape == (2,)


@named
def test_settings_say_how_many_groups_there_were(score):
    factors = drawn(score, 100, 16)
    assert {"groups": 100, "size": 16}.items() <= score(encode(factors), factors).settings.items()
    plain = SPACE.sample(900, 0)
    found = score(encode(plain), plain, groups=60, size=8)
    assert {"groups": 60, "size": 8, "samples": 900}.items() <= found.settings.items()


@named
def test_on_a_dataset_and_local(score):
    square = untwine.datasets.synthetic_linear(ratio=1.0)
    found = sampled(score, points=150 * 128)(lambda x: x, square)
    assert found.settings["groups"] in (150, 300) and 0.4 < float(found) <= 1
    near = local(score, radius=0.2, samples=2, points=60 * 128)(lambda x: x, square)
    assert near.details["by_window"].shape == (2,) and (near.details["by_window"] > 0.3).all()


def test_errors_of_groups():
    factors = drawn(factor_vae_score, 30, 16)
    factors[7, :, :] = factors[7, :1, :]
    with pytest.raises(UntwineError, match=r"group 7 holds 3 factors \(0 and 1 and 2 .*use larger groups"):
        factor_vae_score(encode(factors), factors)
    factors = drawn(factor_vae_score, 30, 16)
    factors[3] = SPACE.sample(16, 5)
    with pytest.raises(UntwineError, match="group 3 holds no factor"):
        factor_vae_score(encode(factors), factors)
    pairs = drawn(beta_vae_score, 30, 16)
    pairs[4, :, 1] = pairs[4, :, 0]
    with pytest.raises(UntwineError, match="beta_vae_score: group 4 holds 3 factors"):
        beta_vae_score(encode(pairs), pairs)


@pytest.mark.parametrize(("score", "shape"), [(factor_vae_score, (9, 1)), (factor_vae_score, (9, 4, 2)),
                                              (beta_vae_score, (9, 4)), (beta_vae_score, (9, 4, 3))])  # fmt: skip
def test_errors_of_shapes(score, shape):
    factors = RNG.integers(0, 9, (*shape, 3))
    with pytest.raises(UntwineError, match=r"factors have shape \[9, .*3\]; they must be \[groups, size.* or \[n, k\]"):
        score(RNG.normal(size=(*shape, 2)), factors)


@named
def test_errors_of_plain_samples(score):
    factors = np.stack([np.arange(60) % 3, np.arange(60)], 1)
    with pytest.raises(UntwineError, match=r"no value of factor .* has 2 rows, the most is 1: use more samples"):
        score(encode(factors, d=2), factors)
    with pytest.raises(UntwineError, match="1 groups of 64 are too few"):
        score(encode(factors, d=2), factors, groups=1)
    with pytest.raises(UntwineError, match="100 groups of 0 are too few"):
        score(encode(factors, d=2), factors, groups=100, size=0)
    with pytest.raises(UntwineError, match="fraction between 0 and 1"):
        score(encode(SPACE.sample(900, 0)), SPACE.sample(900, 0), size=8, test=1.5)


def test_an_error_of_prune():
    factors = drawn(factor_vae_score)
    with pytest.raises(UntwineError, match=r"prune is the least standard deviation, 0 or more, not -0.1"):
        factor_vae_score(encode(factors), factors, prune=-0.1)


@named
@pytest.mark.parametrize(("n", "d"), [(200, 40), (500, 10)])
def test_noise_is_at_chance_on_small_plain_samples_too(score, n, d):
    """Train and test groups share no row: what a classifier remembers of rows is of no use."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        factors, codes = rng.integers(0, 2, (n, 2)), rng.normal(size=(n, d))
        found.append(float(score(codes, factors)))
    assert np.mean(found) == pytest.approx(0.5, abs=0.12)
