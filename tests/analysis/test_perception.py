"""Importance and matrices against every pair there is, and against the numbers of michlo2023."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

import untwine as uw
from untwine.analysis.distances import ground_truth, latent, perceived, posterior_kl
from untwine.analysis.factors import agreement, distance_matrices, kept_values
from untwine.analysis.perception import correlations, factor_importance
from untwine.analysis.states import Examples, Grid, states_of
from untwine.data import Dataset, FactorSpace
from untwine.errors import UntwineError
from untwine.streams import np_uniform

Array = np.ndarray[Any, Any]


class Drawn(Dataset):
    """A dataset whose pictures are a function of its factors; it may have examples of some states only."""

    def __init__(self, draw: Any, sizes: tuple[int, ...], kinds: Any = None, states: Any = None):
        space = FactorSpace(tuple("abcd"[: len(sizes)]), sizes, kinds or ("ordered",) * len(sizes))
        every = np.array(list(product(*map(range, sizes))))
        self.table = every if states is None else np.asarray(states, np.int64)
        self.partial, self.draw = states is not None, draw
        super().__init__(draw(every[:1]).shape[1:], len(self.table), space)

    @property
    def complete(self) -> bool:
        return not self.partial

    def _factors_of(self, indices: Array) -> Array:
        return self.table[indices]

    def _batch(self, indices: Array) -> Array:
        return self.draw(self.table[indices])

    def _observe(self, factors: Array) -> Array:
        if self.partial:
            known = {tuple(row) for row in self.table.tolist()}
            assert all(tuple(row) in known for row in factors.tolist()), "a state without an example was asked for"
        return self.draw(factors)


def line(factors: Array) -> Array:
    """Vectors: the factors themselves, the second counting half."""
    return (factors * np.array([1.0, 0.5, 0.25])[: factors.shape[1]]).astype(np.float32)


def flat(dataset: Dataset, states: Array) -> Array:
    images = dataset.observe(states)
    images = images if images.dtype == np.uint8 else images.astype(np.float64)
    return images.reshape(len(images), -1) / (255.0 if images.dtype == np.uint8 else 1.0)


def squares_of(dataset: Dataset, pairs: Iterable[tuple[Any, Any]]) -> Array:
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    return ((flat(dataset, a) - flat(dataset, b)) ** 2).mean(1)


def along(dataset: Dataset, column: int) -> list[tuple[Any, Any]]:
    """All pairs of states that differ in one factor only."""
    assert dataset.factors is not None
    states = product(*map(range, dataset.factors.sizes))
    values = range(dataset.factors.sizes[column])
    return [(a, (*a[:column], v, *a[column + 1 :])) for a in states for v in values if v != a[column]]


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- Eqs. 12 and 13 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dataset",
    [
        uw.datasets.three_dots(size=12, dots=2, positions=3, radius=0.3),
        Drawn(line, (3, 5, 2)),
    ],
    ids=["three_dots", "vectors"],
)
def test_importance_is_the_mean_over_all_pairs(dataset: Dataset):
    n = 20_000
    found = factor_importance(dataset, pairs=n)
    assert dataset.factors is not None
    states = list(product(*map(range, dataset.factors.sizes)))
    everything = squares_of(dataset, [(a, b) for a in states for b in states if a != b])
    rows = {"random": everything}
    for column, name in enumerate(dataset.factors.names):
        rows[name] = squares_of(dataset, along(dataset, column))
    for row in (found.random, *found.factors):
        exact = rows[row.name]
        assert abs(row.mean - exact.mean()) <= 5 * exact.std() / np.sqrt(n) + 1e-9
        assert abs(row.std - exact.std()) <= 0.03 * exact.std() + 1e-9
        assert row.error == pytest.approx(row.std / np.sqrt(n))
        assert np.isclose(row.quantiles[0], exact.min()) and np.isclose(row.quantiles[-1], exact.max())
        assert list(row.quantiles) == sorted(row.quantiles) and len(row.quantiles) == 101
    assert set(found.order) == set(dataset.factors.names)
    assert [row.mean for row in found.factors] == sorted((row.mean for row in found.factors), reverse=True)
    summed = factor_importance(dataset, pairs=n, per_element=False)
    assert np.isclose(summed.random.mean, found.random.mean * found.elements)
    assert summed.elements == np.prod(dataset.shape) and not summed.per_element


def test_pairs_are_uniform():
    grid = Grid(Drawn(line, (3, 2)))
    n = 60_000
    for column, partners in ((None, 5), (0, 2), (1, 1)):
        pairs = grid.pairs(column, n, seed=3)
        assert pairs is not None
        counts = np.zeros((6, 6), int)
        np.add.at(counts, tuple(grid.space.index(side) for side in pairs), 1)
        possible = counts[counts > 0]
        assert not np.diagonal(counts).any() and len(possible) == 6 * partners
        assert stats.chisquare(possible).pvalue > 1e-3
    again, other = grid.pairs(None, n, seed=3), grid.pairs(None, n, seed=4)
    assert again is not None and other is not None
    assert np.array_equal(again[0], grid.pairs(0, n, seed=3)[0])  # pyright: ignore
    assert not np.array_equal(again[1], other[1])


def test_correlations_are_those_of_scipy():
    truth = np.array([1, 1, 2, 3, 3, 5, 4])
    distances = np.array([0.1, 0.3, 0.3, 0.2, 0.9, 0.7, 0.3])
    spearman, pearson = correlations(truth, distances)
    assert np.isclose(spearman, stats.spearmanr(truth, distances)[0])  # pyright: ignore
    assert np.isclose(pearson, stats.pearsonr(truth, distances)[0])  # pyright: ignore


def test_a_seed_decides(quiet: None):
    data = uw.datasets.three_dots(size=16, positions=8)
    one = factor_importance(data, pairs=500)
    assert one == factor_importance(data, pairs=500) and one != factor_importance(data, pairs=500, seed=1)


# --- XYSquares ------------------------------------------------------------------------------------------


def test_table_a1():
    with pytest.warns(
        UserWarning, match=r"adversarial for squared-error: all values of x_R, .* y_B .*overlap\(squared"
    ):
        found = factor_importance(uw.datasets.xy_squares(), pairs=2_000)
    for row in found.factors:
        assert (row.mean, row.std) == (pytest.approx(128 / 12288, rel=1e-12), 0.0)
        assert row.constant and row.adversarial and (row.spearman, row.pearson) == (0.0, 0.0)
    # Each of three squares stays in its place with probability 1/64; but not all of them do.
    exact, std = 3 * 63 / 64 / (1 - 64**-3) * 128 / 12288, np.sqrt(3 * 63 / 64**2) * 128 / 12288
    assert (round(exact, 4), round(std, 4)) == (0.0308, 0.0022)
    assert abs(found.random.mean - exact) < 5 * std / np.sqrt(2_000) and abs(found.random.std - std) < 4e-4
    assert found.order == ("x_R", "y_R", "x_G", "y_G", "x_B", "y_B") == found.adversarial
    assert json.loads(json.dumps(found.to_json()))["factors"][0]["mean"] == found.factors[0].mean


def test_a_smaller_spacing_is_not_adversarial():
    correlation = 0.1
    for spacing in range(7, 0, -1):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = factor_importance(uw.datasets.xy_squares(spacing=spacing), pairs=600)
        assert not found.adversarial and not any(row.constant for row in found.factors)
        spearman = np.mean([row.spearman for row in found.factors if row.spearman is not None])
        assert spearman >= correlation  # 5 and 4 are alike: squares that are next to each other overlap, no others
        correlation = float(spearman)
    assert correlation > 0.99


@pytest.mark.parametrize(
    "text", ["bernoulli", "gaussian(scale=0.1)", "gaussian(scale=10)", "laplace", "learned-gaussian"]
)
def test_losses_with_an_offset_are_distances(text: str):
    """Of the loss that an image has from itself, nothing is left."""
    small = {"size": 16, "square": 2, "positions": 8}
    with pytest.warns(UserWarning, match=rf"adversarial for {text.partition('(')[0]}"):
        found = factor_importance(uw.datasets.xy_squares(spacing=2, **small), text, pairs=500)
    assert found.order == ("x_R", "y_R", "x_G", "y_G", "x_B", "y_B")
    assert all(row.quantiles[0] > 0 for row in (found.random, *found.factors))
    found = factor_importance(uw.datasets.xy_squares(spacing=1, **small), text, pairs=500)
    assert not found.adversarial and not found.unordered


def test_cross_entropy_on_grey_pixels():
    """An image's distance to itself differs by image; along the adversarial factor only the excess is constant."""

    def draw(factors: Array) -> Array:
        images = np.full((len(factors), 1, 4, 4), 77, np.uint8)
        images[np.arange(len(factors)), 0, factors[:, 0], 0] = 140
        images[np.arange(len(factors)), 0, 0, 1:] = (20 * factors[:, 1])[:, None]
        return images

    data = Drawn(draw, (4, 5))
    with pytest.warns(UserWarning, match=r"all values of a are"):
        found = factor_importance(data, "bernoulli", pairs=500)
    assert found.adversarial == ("a",)


def test_overlap_of_cross_entropy_sees_the_order_of_dots():
    data = uw.datasets.three_dots()
    found = factor_importance(data, "overlap(bernoulli)", pairs=500)
    assert all(0.75 < row.spearman < 0.92 for row in found.factors if row.spearman is not None)


def noisy(factors: Array) -> Array:
    """A square that moves without overlap, over noise that the second factor chooses."""
    images = (np_uniform(0, "noise", (512, 1, 4, 32)) * 40).astype(np.uint8)[factors @ np.array([64, 1])]
    for image, x in zip(images, factors[:, 0], strict=True):
        image[0, :, 4 * x : 4 * x + 4] = 255
    return images


def bright(factors: Array) -> Array:
    """A square that moves without overlap, and may be brighter or darker."""
    images = np.zeros((len(factors), 1, 4, 32), np.uint8)
    for image, (x, brightness) in zip(images, factors, strict=True):
        image[0, :, 4 * x : 4 * x + 4] = 60 + 60 * brightness
    return images


@pytest.mark.parametrize(
    ("draw", "sizes", "kinds"), [(noisy, (8, 64), ("ordered", "categorical")), (bright, (8, 4), ("ordered", "ordered"))]
)
def test_factors_that_are_adversarial_but_for_a_little(draw: Any, sizes: tuple[int, ...], kinds: tuple[str, ...]):
    data = Drawn(draw, sizes, kinds)
    with pytest.warns(UserWarning, match=r"say nothing about the order of the values of a \(-?0\.0\d\d\)") as said:
        found = factor_importance(data, pairs=4_000)
    assert len(said) == 1 and "overlap(squared-error)" in str(said[0].message)
    assert found.adversarial == () and found.unordered == ("a",) and found.to_json()["unordered"] == ["a"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cured = factor_importance(data, "overlap(squared-error, radius=15)", pairs=1_000)
        cyclic = factor_importance(Drawn(draw, sizes, ("cyclic", kinds[1])), pairs=1_000, wrap=False)
    assert not cured.unordered and not cyclic.unordered
    with pytest.warns(UserWarning, match=r"the values of a \(-?0\.0\d\d\).*unless pictures repeat within a turn of a"):
        wrapped = factor_importance(Drawn(draw, sizes, ("cyclic", kinds[1])), pairs=4_000)
    assert wrapped.unordered == ("a",)


def test_overlap_is_the_cure():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = factor_importance(uw.datasets.xy_squares(), "overlap(squared-error)", pairs=500)
    assert not found.adversarial and found.likelihood == "overlap(squared-error)"
    assert all(row.spearman is not None and row.spearman > 0.9 for row in found.factors)
    with pytest.warns(UserWarning, match="larger radius"):
        factor_importance(uw.datasets.xy_squares(), "overlap(squared-error, radius=0)", pairs=200)


# --- kinds of factors -----------------------------------------------------------------------------------


def test_categorical_two_values_and_one():
    kinds = ("categorical", "ordered", "ordered", "cyclic")
    data = Drawn(lambda f: np.eye(4, dtype=np.float32)[f[:, 0]] + f[:, 1:2], (4, 2, 1, 4), kinds)
    with pytest.warns(UserWarning, match=r"examples do not change along d") as said:
        found = factor_importance(data, pairs=300)
    rows = {row.name: row for row in found.factors}
    assert len(said) == 1 and found.left_out == {"c": "it has a single value"} and set(rows) == {"a", "b", "d"}
    assert rows["a"].constant and not rows["a"].adversarial and rows["a"].spearman is None  # no order to miss
    assert rows["b"].constant and not rows["b"].adversarial and rows["b"].spearman is None  # two are always in order
    assert rows["d"].constant and not rows["d"].visible and not rows["d"].adversarial and rows["d"].spearman == 0.0
    with pytest.warns(UserWarning, match=r"another likelihood, or another form of the data"):
        factor_importance(Drawn(lambda f: np.eye(4, dtype=np.float32)[f[:, 0]], (4,)), pairs=300)


@pytest.mark.parametrize("wrap", [True, False])
def test_cyclic_factors_go_round_unless_told_not_to(wrap: bool):
    angle = Drawn(lambda f: np.stack([np.cos(f[:, 0]), np.sin(f[:, 0])], 1).astype(np.float32), (6,), ("cyclic",))
    pairs = along(angle, 0)
    steps = [abs(a[0] - b[0]) for a, b in pairs]
    truth = [min(step, 6 - step) for step in steps] if wrap else steps
    expected = stats.spearmanr(truth, squares_of(angle, pairs).round(6))[0]
    found = factor_importance(angle, pairs=20_000, wrap=wrap)
    assert found.factors[0].spearman == pytest.approx(expected, abs=0.02)
    assert found.factors[0].wrapped is wrap is found.wrap is found.to_json()["wrap"]


def test_a_full_turn_is_perceived_in_the_order_of_its_circle():
    """Points of a circle: distances rise with the way round, up to half of it. As ordered, they fall again."""

    def draw(factors: Array) -> Array:
        angles = factors[:, 0] / 12 * 2 * np.pi
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)

    circle = Drawn(draw, (12,), ("cyclic",))
    assert factor_importance(circle, pairs=5_000).factors[0].spearman == pytest.approx(1, abs=1e-9)
    ordered = factor_importance(circle, pairs=5_000, wrap=False).factors[0].spearman
    assert ordered is not None and ordered < 0.8


def test_three_values_on_a_circle_have_no_order():
    three = Drawn(lambda f: np.eye(3, dtype=np.float32)[f[:, 0]] * 2, (3,), ("cyclic",))
    row = factor_importance(three, pairs=300).factors[0]
    assert row.spearman is None and row.constant and not row.adversarial and not row.unordered
    with pytest.warns(UserWarning, match="adversarial"):
        assert factor_importance(three, pairs=300, wrap=False).factors[0].adversarial


# --- only examples have images --------------------------------------------------------------------------


STATES = [[0, 0], [1, 0], [3, 0], [3, 1], [3, 1], [0, 2]]


def test_only_some_states():
    data = Drawn(line, (4, 3), states=STATES)
    found = factor_importance(data, pairs=20_000)
    for row in (found.random, *found.factors):
        column = {"random": None, "a": 0, "b": 1}[row.name]
        means = []
        for a in STATES:  # uniform over the examples that have partners, then over these
            others = [b for b in STATES if b != a and (column is None or b[1 - column] == a[1 - column])]
            if others:
                means.append(squares_of(data, [(a, b) for b in others]).mean())
        assert row.mean == pytest.approx(np.mean(means), rel=0.02)
    assert found.order == ("a", "b")


def test_the_base_of_a_pair_is_what_is_reconstructed():
    """Eq. 12 on examples, whose bases and partners are not exchangeable, with a loss that is not symmetric."""
    pixels = (np_uniform(2, "pixels", (4, 3, 1, 2, 2)) * 255).astype(np.uint8)
    pixels[3, 0] = 1  # far below the others: to take grey for black costs more than the reverse
    data = Drawn(lambda f: pixels[f[:, 0], f[:, 1]], (4, 3), states=STATES)
    n = 40_000
    found = factor_importance(data, "bernoulli", pairs=n)
    for row in (found.random, *found.factors):
        column = {"random": None, "a": 0, "b": 1}[row.name]
        right, swapped = [], []
        for a in STATES:
            others = [b for b in STATES if b != a and (column is None or b[1 - column] == a[1 - column])]
            if others:
                right.append(np.mean([entropy(pixels, a, b) - entropy(pixels, a, a) for b in others]))
                swapped.append(np.mean([entropy(pixels, b, a) - entropy(pixels, b, b) for b in others]))
        assert abs(row.mean - np.mean(right)) < 5 * row.error
        if row.name == "b":  # where [3, 0] has two partners, and each of these has one
            assert abs(np.mean(swapped) - np.mean(right)) > 20 * row.error


def entropy(pixels: Array, a: Any, b: Any) -> float:
    x, mean = pixels[tuple(a)] / 255, np.clip(pixels[tuple(b)] / 255, 1e-6, 1 - 1e-6)
    return float(-(x * np.log(mean) + (1 - x) * np.log(1 - mean)).mean())


def test_pairs_of_examples_differ_in_one_factor():
    examples = Examples(Drawn(line, (4, 3), states=STATES))
    for column, expected in ((0, {(0, 1), (0, 2), (1, 2)}), (1, {(2, 3), (2, 4), (0, 5)})):
        pairs = examples.pairs(column, 2_000, seed=0)
        assert pairs is not None
        assert {tuple(sorted(pair)) for pair in zip(*(side.tolist() for side in pairs), strict=True)} == expected
    pairs = examples.pairs(None, 2_000, seed=0)
    assert pairs is not None
    together = {tuple(sorted(pair)) for pair in zip(*(side.tolist() for side in pairs), strict=True)}
    assert len(together) == 15 - 1 and (3, 4) not in together  # 3 and 4 show the same state


def test_more_states_than_can_be_numbered():
    states = np.zeros((3, 64), np.int64)
    states[1, 5], states[2, 6] = 1, 1
    data = Drawn.__new__(Drawn)
    data.table, data.partial, data.draw = states, True, lambda f: f[:, 4:8].astype(np.float32)
    space = FactorSpace(tuple(map(str, range(64))), (2,) * 64, ("ordered",) * 64)
    Dataset.__init__(data, (4,), 3, space)
    assert set(factor_importance(data, pairs=100).order) == {"5", "6"}


def test_whether_a_dataset_is_complete_decides():
    data = uw.datasets.xy_squares(spacing=3, size=16, square=4, positions=2)
    assert isinstance(states_of(data), Grid)
    pictures, table = np.zeros((4, 8, 8)), np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert isinstance(states_of(uw.datasets.images(pictures, factors=table)), Grid)
    for rows in (table[:3], np.vstack([table, table[:1]])):  # a state is missing, or there are two looks of one
        assert isinstance(states_of(uw.datasets.images(np.zeros((len(rows), 8, 8)), factors=rows)), Examples)
    assert isinstance(states_of(uw.datasets.images(pictures)), Examples)


def test_an_error_of_a_complete_dataset_is_not_hidden():
    class Broken(Drawn):
        def _observe(self, factors: Array) -> Array:
            raise UntwineError("the file is damaged")

    with pytest.raises(UntwineError, match="the file is damaged"):
        factor_importance(Broken(line, (4, 3)), pairs=100)


def test_no_pairs_differ_in_one_factor():
    with pytest.raises(UntwineError, match=r"no two of the 2 examples of .* differ in one factor only"):
        factor_importance(Drawn(line, (4, 3), states=[[0, 0], [1, 1]]), pairs=100)
    with pytest.raises(UntwineError, match=r"no two of the 2 examples of .* differ in one factor only"):
        distance_matrices(Drawn(line, (4, 3), states=[[0, 0], [1, 1]]), {"truth": ground_truth()})
    found = factor_importance(Drawn(line, (4, 3), states=[[0, 0], [1, 0]]), pairs=100)
    assert found.order == ("a",) and found.left_out == {"b": "no two examples differ in it alone"}


def test_a_dataset_without_factors():
    pictures = (np.arange(40 * 64).reshape(40, 8, 8) % 251).astype(np.uint8)
    data = uw.datasets.images(pictures)
    with pytest.warns(UserWarning, match=r"has no factors: only random pairs of its examples are compared"):
        found = factor_importance(data, pairs=20_000)
    x = pictures.reshape(40, -1) / 255
    exact = ((x[:, None] - x[None]) ** 2).mean(-1)[~np.eye(40, dtype=bool)]
    assert found.factors == () and found.random.mean == pytest.approx(exact.mean(), rel=0.02)
    with pytest.raises(UntwineError, match=r"has no factors, and so no traversals"):
        distance_matrices(data, {"perceived": perceived()})
    with pytest.raises(UntwineError, match=r"has a single state"):
        factor_importance(uw.datasets.images(pictures[:1]), pairs=100)


# --- matrices -------------------------------------------------------------------------------------------


def test_matrices_are_means_over_traversals():
    data = uw.datasets.three_dots(size=8, dots=1, positions=4, radius=0.2)
    found = distance_matrices(data, {"truth": ground_truth(), "perceived": perceived()}, traversals=400)
    index = np.arange(4)
    for column, name in enumerate(("x1", "y1")):
        each = []
        for other in range(4):
            states = np.stack([index, np.full(4, other)] if column == 0 else [np.full(4, other), index], 1)
            x = flat(data, states)
            each.append(((x[:, None] - x[None]) ** 2).sum(-1))
        assert np.array_equal(found[name]["truth"], np.abs(index[:, None] - index))
        assert np.ptp(each, axis=0).max() > 1  # traversals do differ
        assert np.allclose(found[name]["perceived"], np.mean(each, 0), atol=5 * np.std(each) / 20)


def test_matrices_of_xy_squares():
    measures = {
        "perceived": perceived(per_element=True),
        "overlap": perceived("overlap(squared-error)"),
    }
    found = distance_matrices(uw.datasets.xy_squares(), measures, traversals=2)
    for matrices in found.values():
        off = ~np.eye(8, dtype=bool)
        assert np.allclose(matrices["perceived"][off], 128 / 12288) and not np.diagonal(matrices["perceived"]).any()
        # The squares of the corners overlap least with the others, and still a longer way is a larger distance.
        assert (np.diff(matrices["overlap"][0]) > 0).all()


def test_matrices_of_several_models():
    data = Drawn(line, (3, 2))
    found = distance_matrices(data, {"codes": latent(lambda x: np.stack([x, 2 * x]))}, traversals=2)
    assert np.allclose(
        found["a"]["codes"], np.array([1, 2])[:, None, None] * np.abs(np.arange(3)[:, None] - np.arange(3))
    )
    assert found["b"]["codes"].shape == (2, 2, 2)


def test_a_model_encodes_each_traversal_once():
    called = []

    class Model:
        def encode(self, x: Array) -> Array:
            called.append(len(x))
            return x + 1

        def variances(self, x: Array) -> Array:
            called.append(-len(x))
            return np.ones_like(x)

    model = Model()
    kl = posterior_kl(model.encode, model.variances)
    found = distance_matrices(Drawn(line, (3,)), {"l2": latent(model.encode), "kl": kl}, traversals=2)
    assert called == [3, -3, 3, -3] and np.allclose(found["a"]["kl"], found["a"]["l2"] ** 2 / 2)
    kl.matrix(np.zeros((3, 1), np.int64), np.zeros((3, 1)))
    kl.matrix(np.zeros((3, 1), np.int64), np.ones((3, 1)))
    assert len(called) == 8


def test_agreement_of_matrices_is_spearmans_of_scipy():
    random = np.random.default_rng(0)
    first, second = random.uniform(size=(3, 6, 6)), random.uniform(size=(3, 6, 6))
    first = first.round(1)  # with ties
    second[1, 0, 3] = np.nan  # unknown
    found = agreement(first, second)
    assert found.shape == (3,)
    for a, b, one in zip(first, second, found, strict=True):
        pairs = [(a[i, j], b[i, j]) for i, j in product(range(6), range(6)) if i != j and np.isfinite(b[i, j])]
        assert one == pytest.approx(stats.spearmanr(*zip(*pairs, strict=True)).statistic, abs=1e-9)
    assert agreement(first[0], first).tolist()[0] == pytest.approx(1)
    assert agreement(first, np.ones((6, 6)) + 1e-12 * random.uniform(size=(6, 6))).tolist() == [0, 0, 0]
    for wrong in (np.ones(3), np.ones((2, 3)), np.ones((1, 1))):
        with pytest.raises(UntwineError, match="distance matrices"):
            agreement(wrong, wrong)


def test_a_function_is_a_distance():
    found = distance_matrices(Drawn(line, (3,)), {"own": lambda factors, images: factors - images.T}, traversals=2)
    assert np.array_equal(found["a"]["own"], np.arange(3)[:, None] - np.arange(3))


def test_matrices_of_examples():
    found = distance_matrices(Drawn(line, (4, 3), states=STATES), {"perceived": perceived()}, traversals=50)
    nan = np.nan
    a, b = found["a"]["perceived"], found["b"]["perceived"]
    assert np.allclose(a, [[0, 1, nan, 9], [1, 0, nan, 4], [nan] * 4, [9, 4, nan, 0]], equal_nan=True)
    assert np.allclose(b, [[0, 0.25, 1], [0.25, 0, nan], [1, nan, 0]], equal_nan=True)


def test_long_factors_are_thinned():
    assert kept_values(5).tolist() == [0, 1, 2, 3, 4] and kept_values(1000, 3).tolist() == [0, 500, 999]
    data = uw.datasets.synthetic_linear(ratio=1.0, levels=101, samples=10)
    found = distance_matrices(data, {"truth": ground_truth(), "perceived": perceived()}, traversals=1, longest=5)
    assert np.array_equal(found["w1"]["truth"][0], [0, 25, 50, 75, 100])
    assert np.allclose(found["w1"]["perceived"][0], np.array([0, 0.25, 0.5, 0.75, 1]) ** 2, atol=1e-6)


# --- arguments ------------------------------------------------------------------------------------------


def test_progress_is_told(quiet: None):
    told: list[tuple[str, int]] = []

    def track(items: Iterable[Any], what: str, total: int) -> Iterable[Any]:
        items = list(items)
        told.append((what, total))
        assert len(items) == total
        return items

    data = Drawn(line, (3, 2))
    factor_importance(data, pairs=100, progress=track)
    distance_matrices(data, {"truth": ground_truth()}, traversals=3, progress=track)
    assert told == [("batches of pairs", 1), ("traversals", 6)]


def test_wrong_arguments():
    data = Drawn(line, (3, 2))
    wrong: Any
    for wrong, message in (
        ({"pairs": 99}, "pairs must be a whole number, 100 or more, not 99"),
        ({"seed": -1}, "seed must"),
    ):
        with pytest.raises(UntwineError, match=message):
            factor_importance(data, **wrong)
    for wrong, message in (({"traversals": 0}, "traversals must"), ({"longest": 1}, "longest must")):
        with pytest.raises(UntwineError, match=message):
            distance_matrices(data, {"truth": ground_truth()}, **wrong)
    for tolerance in (-0.1, 1.0, float("nan"), "0.1", True):
        with pytest.raises(UntwineError, match=r"tolerance is a share of the mean, from 0 to below 1"):
            factor_importance(data, tolerance=tolerance)
    for wrong, message in (
        ({}, r"distances go by names, .* not \{\}"),
        ([perceived()], r"distances go by names"),
        ({"d": 3}, r"the distance 'd' is 3; it must be one such as perceived\(\), or a function"),
        ({"d": perceived}, r"the distance 'd' is a function that makes one: call it"),
        ({"d": lambda f, x: np.zeros((2, 3))}, r"'d' of 3 states have shape \[2, 3\]; they must be \[3, 3\]"),
        ({"d": lambda f, x: None}, r"'d' are object; they must be numbers"),
    ):
        with pytest.raises(UntwineError, match=message):
            distance_matrices(data, wrong)
    for function in (factor_importance, lambda wrong: distance_matrices(wrong, {"truth": ground_truth()})):
        with pytest.raises(UntwineError, match="a str is no dataset"):
            function("xy_squares")
    with pytest.raises(UntwineError, match="did you mean 'bernoulli'"):
        factor_importance(data, "bernuli")
    with pytest.raises(UntwineError, match="overlap blurs images"):
        factor_importance(data, "overlap(squared-error)", pairs=100)
    with pytest.raises(UntwineError, match="nothing to traverse"):
        distance_matrices(Drawn(line, (1, 1)), {"truth": ground_truth()})
    with pytest.raises(UntwineError, match="has a single state"):
        factor_importance(Drawn(line, (1, 1)), pairs=100)
