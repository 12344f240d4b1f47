"""What every metric keeps to, from one table: invariances, values on perfect codes and on noise, packs, windows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import untwine as uw
from untwine.data import FactorSpace
from untwine.data.contract import Dataset
from untwine.metrics.designs import Groups, Independent, Pairs

SPACE = FactorSpace(("a", "b", "c"), (9, 9, 9), ("ordered", "cyclic", "categorical"))


@dataclass(frozen=True)
class Row:
    """What a metric's definition says. `same` is how far a value may move under what should not move it."""

    perfect: tuple[float, float]  # codes are the factors themselves
    noise: tuple[float, float]
    options: dict[str, Any] = field(default_factory=dict)
    order: float = 1e-9  # the order of samples
    permuted: float = 1e-9  # the order of latents
    sign: float | None = 1e-9  # None: the definition does not say so
    scale: float | None = 1e-9  # each code by its own positive factor; None likewise
    monotone: dict[str, Any] | None = None  # options with which any increasing function of a code changes nothing
    rotation: float = 0.1  # how far a rotation of the codes lowers it at least


# Codes are put in bins of equal width from the left: turned around, a value on an edge changes its bin.
TABLE = {
    "mig": Row((0.95, 1.0), (0, 0.05), {"bins": 9}, sign=0.02, monotone={"binning": "quantile", "bins": 7}),
    # with few samples noise seems to have information on every factor, nearly alike
    "modularity": Row((0.95, 1.0), (0, 0.7), {"bins": 9}, sign=0.03, monotone={"binning": "quantile", "bins": 7}),
    "explicitness": Row((0.95, 1.0), (0.45, 0.55), order=1e-6, permuted=1e-3, sign=1e-3, scale=1e-3, rotation=-0.05),
    # a line is cut once for each value, which tells few of nine apart
    "sap": Row((0.12, 0.6), (0, 0.06), permuted=1e-6, sign=1e-3, scale=None),
    "knn_score": Row((0.95, 1.13), (0, 0.1), permuted=1e-6, sign=0.02, scale=1e-6, rotation=0.3),
    "dci": Row((0.8, 1.0), (0, 0.15), permuted=0.1, sign=0.1, scale=0.1),
    # estimates of information for noise are near 0, and the largest of a few such numbers a large part of their sum
    "infomec": Row((0.95, 1.0), (0, 0.9), permuted=1e-6, sign=1e-6),
    "irs": Row((1.0, 1.0), (0, 0.5), scale=None),  # scales are weights
    "factor_vae_score": Row((1.0, 1.0), (0.2, 0.5), permuted=0.02, rotation=0.05),
    # codes are not normalised, and the regression is penalised; what a rotation mixes a regression undoes
    "beta_vae_score": Row((0.95, 1.0), (0.2, 0.5), permuted=0.02, sign=0.02, scale=None, rotation=-0.05),
}
DESIGNS = {Independent: 900, Groups: 300 * 32, Pairs: 300 * 32 * 2}

OTHERS = {"hoyer", "dto", "delta_kl", "udr", "decomposition"}  # not of codes and factors: below


def normals(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def states(name: str) -> np.ndarray:
    design = uw.metrics.get(name).design
    drawn = {"size": 32} if hasattr(design, "size") else {}
    made = type(design)(**drawn).draw(SPACE, DESIGNS[type(design)], seed=1)
    if drawn:
        return made
    # No state twice: ties between rows would be broken by their codes.
    return SPACE.factors(np.random.default_rng(0).permutation(SPACE.states)[:600])


def perfect(factors: np.ndarray) -> np.ndarray:
    return (factors - 4) / 2.6


# Every code has two factors in equal parts, and some of the third.
TURN = np.array([[2, -1, 2], [2, 2, -1], [-1, 2, 2]]) / 3


def mixed(factors: np.ndarray) -> np.ndarray:
    """Codes of every kind: nearly perfect, mixed, noisy."""
    mixture = np.array([[1.0, 0.2, 0, 0.7], [0, 1.0, 0.1, -0.7], [0, 0, 1.0, 0.2]])
    return (factors - 4) / 2.6 @ mixture + 0.3 * normals((*factors.shape[:-1], 4), 3)


def value(name: str, codes: np.ndarray, factors: np.ndarray, **options: Any) -> float:
    return float(uw.metrics.get(name)(codes, factors, **TABLE[name].options | options))


def test_no_metric_is_missing():
    assert TABLE.keys() | OTHERS == set(uw.metrics.names())
    assert all((uw.metrics.get(name).takes == ("codes", "factors")) == (name in TABLE) for name in uw.metrics.names())


@pytest.mark.parametrize("name", TABLE)
def test_values_on_a_perfect_code_and_on_noise(name):
    factors = states(name)
    seeds = range(5) if "seed" in uw.metrics.get(name).options else (None,)  # a split tests on few samples
    for codes, (low, high) in (
        (perfect(factors), TABLE[name].perfect),
        (normals((*factors.shape[:-1], 5), 4), TABLE[name].noise),
    ):
        by_seed = [value(name, codes, factors, **({} if seed is None else {"seed": seed})) for seed in seeds]
        assert low <= np.mean(by_seed) <= high


@pytest.mark.parametrize("name", TABLE)
def test_a_rotation_lowers_it(name):
    factors = states(name)
    codes = perfect(factors)
    assert value(name, codes @ TURN, factors) <= value(name, codes, factors) - TABLE[name].rotation


@pytest.mark.parametrize("name", TABLE)
def test_the_order_of_samples_does_not_matter(name):
    factors = states(name)
    codes = mixed(factors)
    order = np.random.default_rng(6).permutation(len(factors))
    before, after = value(name, codes, factors), value(name, codes[order], factors[order])
    assert after == pytest.approx(before, abs=TABLE[name].order)


@pytest.mark.parametrize("name", TABLE)
def test_the_order_of_latents_does_not_matter(name):
    factors = states(name)
    codes = mixed(factors)
    before, after = value(name, codes, factors), value(name, codes[..., [2, 0, 3, 1]], factors)
    assert after == pytest.approx(before, abs=TABLE[name].permuted)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.sign is not None])
def test_signs_do_not_matter(name):
    factors = states(name)
    codes = mixed(factors)
    before, after = value(name, codes, factors), value(name, codes * [1, -1, -1, 1], factors)
    assert after == pytest.approx(before, abs=TABLE[name].sign)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.scale is not None])
def test_scales_do_not_matter(name):
    factors = states(name)
    codes = mixed(factors)
    before, after = value(name, codes, factors), value(name, codes * [2, 0.5, 1, 8], factors)
    assert after == pytest.approx(before, abs=TABLE[name].scale)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.monotone is not None])
def test_increasing_functions_do_not_matter(name):
    factors = states(name)
    codes = mixed(factors)
    before = value(name, codes, factors, **TABLE[name].monotone)
    assert value(name, np.exp(codes), factors, **TABLE[name].monotone) == pytest.approx(before, abs=1e-9)
    assert value(name, np.exp(codes), factors) != pytest.approx(value(name, codes, factors), abs=1e-9)


@pytest.mark.parametrize("name", TABLE)
def test_a_pack_has_the_scores_of_its_members(name):
    factors = states(name)
    pack = np.stack([mixed(factors), mixed(factors)[..., ::-1] ** 3])
    metric = uw.metrics.get(name)
    score = metric(pack, factors, **TABLE[name].options)
    assert score.values.tolist() == [value(name, one, factors) for one in pack]
    assert all(len(values) == 2 for values in score.scores().values())
    json.dumps(score.settings)


@pytest.mark.parametrize("name", TABLE)
def test_dead_codes_and_constant_factors_do_no_harm(name):
    factors = states(name)
    codes = mixed(factors)
    more = np.concatenate([factors[..., :1] * 0 + 5, factors], -1)
    metric = uw.metrics.get(name)
    score = metric(codes, more, **TABLE[name].options)
    assert score.details["constant_factors"] == [0]
    assert float(score) == pytest.approx(value(name, codes, factors), abs=1e-9)
    dead = np.concatenate([codes, codes[..., :1] * 0 + 0.1], -1)
    score = metric(dead, factors, **TABLE[name].options)
    assert score.details["dead_codes"] == [4]
    # One more code that says nothing: scores that are means over codes may fall by its share.
    assert value(name, codes, factors) * 0.75 - 0.05 <= float(score) <= value(name, codes, factors) + 0.1
    collapsed = metric(codes * 0, factors, **TABLE[name].options)
    assert np.isfinite(collapsed.values).all() and all(np.isfinite(v).all() for v in collapsed.scores().values())


class Grid(Dataset):
    """States as they are, of a grid whose windows hold enough of them to split."""

    def __init__(self) -> None:
        super().__init__((3,), 50, FactorSpace(SPACE.names, (40, 40, 9), SPACE.kinds))
        self.spec = {"name": "grid"}

    def _batch(self, indices):
        return self._observe(self._factors_of(indices))

    def _factors_of(self, indices):
        return self.factors.sample(50, seed=0)[indices]

    def _observe(self, factors):
        return factors.astype(np.float32)


@pytest.mark.parametrize("name", TABLE)
def test_it_can_be_made_local(name):
    def encode(x):
        both = perfect(x)[:, :2]  # a code for what is constant in a window would be dead there
        return np.stack([both, both @ [[0.8, 0.6], [-0.6, 0.8]]]).astype(np.float32)

    options = {key: value for key, value in TABLE[name].options.items() if key != "bins"}
    score = uw.metrics.local(name, radius=0.25, samples=3, points=1500, **options)(encode, Grid())
    assert score.metric == f"local_{name}" and score.values.shape == (2,) and np.isfinite(score.values).all()
    assert score.details["constant_factors"] == [[2]] * 3 and score.details["by_window"].shape == (2, 3)
    assert score.values[0] >= score.values[1] - 0.05
    again = uw.metrics.local(name, radius=0.25, samples=3, points=1500, **options)(encode, Grid())
    assert np.array_equal(score.values, again.values) and score.comparable(again)


# --- metrics of other things ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hoyer", "delta_kl", "dto"])
def test_metrics_of_a_model_do_not_see_the_order_of_samples_and_latents(name):
    arrays = {
        "hoyer": (normals((200, 5), 0) ** 3,),
        "delta_kl": (normals((200, 5), 0), np.exp(normals((200, 5), 1) - 1)),
        "dto": (normals((50, 4, 12), 0) * np.array([3, 2, 1, 0.5])[:, None],),
    }[name]
    metric = uw.metrics.get(name)
    before = float(metric(*arrays))
    rows = np.random.default_rng(1).permutation(len(arrays[0]))
    latents = np.random.default_rng(2).permutation(arrays[0].shape[1])
    assert float(metric(*(array[rows] for array in arrays))) == pytest.approx(before, abs=1e-9)
    assert float(metric(*(array[:, latents] for array in arrays))) == pytest.approx(before, abs=1e-9)
    pack = metric(*(np.stack([array, array[::-1]]) for array in arrays))
    assert pack.values == pytest.approx([before, before], abs=1e-9)
