"""Local metrics: the paper's windows, the same for every model, averaged; and no state encoded twice."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import untwine as uw
from untwine.data import FactorSpace
from untwine.data.contract import Dataset
from untwine.data.states import Labelled
from untwine.data.windows import around
from untwine.errors import UntwineError
from untwine.metrics.designs import among
from untwine.metrics.encoder import Encoder
from untwine.metrics.examples import LEAST, inside, windows_among
from untwine.metrics.local import local, sampled
from untwine.streams import np_bits_of


class Grid(Dataset):
    """States that are seen as they are."""

    def __init__(self, sizes=(20, 20, 3), kinds=("ordered", "cyclic", "categorical")):
        super().__init__((len(sizes),), 100, FactorSpace(tuple("abcdefg"[: len(sizes)]), sizes, kinds))
        self.spec = {"name": "grid", "sizes": list(sizes)}
        self.seen: list[np.ndarray] = []

    def _batch(self, indices):
        return self._observe(self._factors_of(indices))

    def _factors_of(self, indices):
        return self.factors.sample(100, seed=0)[indices]

    def _observe(self, factors):
        self.seen.append(factors)
        return factors.astype(np.float32)


def identity(x):
    return x


def test_the_windows_are_the_papers():
    data = Grid((20, 20, 30))
    score = local("mig", radius=0.1, samples=7, points=500, wrap=False)(identity, data, seed=3)
    seen = np.concatenate(data.seen)
    assert score.details["by_window"].shape == (7,)
    for step in range(7):
        centre = data.factors.centroid(3, step)
        low = np.maximum(centre - [2, 2, 0], 0)
        high = np.minimum(centre + np.array([2, 2, 0]), [19, 19, 29])
        assert score.details["low"][step] == low.tolist()
        assert score.details["sizes"][step] == (high - low + 1).tolist()
        inside = ((seen >= low) & (seen <= high)).all(1)
        assert inside.sum() >= np.prod(high - low + 1)  # 500 points: every state of a window of at most 25 is seen
    assert score.details["constant_factors"] == [[2]] * 7  # categorical ones are fixed


def test_it_is_the_mean_of_the_metric_over_windows():
    data = Grid((128, 128), ("ordered", "ordered"))

    def encode(x):
        return np.stack([x[:, 0] + x[:, 1], x[:, 0] - x[:, 1]], 1)

    score = local("modularity", radius=0.1, samples=5, points=100)(encode, data, seed=1)
    by_hand = []
    for step in range(5):
        window = around(data.factors, 0.1, 1, step)
        points = window.place(window.grid.distinct(100, 1, step))
        by_hand.append(float(uw.metrics.modularity(encode(points), points, bins=5)))
    assert score.details["by_window"].tolist() == by_hand
    assert float(score) == pytest.approx(np.mean(by_hand), abs=1e-12)
    assert score.metric == "local_modularity" and score.settings["bins"] == 5


def test_methods_are_compared_on_equal_windows():
    first, second = Grid(), Grid()
    local("mig", samples=3, points=50)(identity, first, seed=2)
    local("modularity", samples=3, points=50)(lambda x: -x, second, seed=2)
    other = Grid()
    local("mig", samples=3, points=50)(identity, other, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(first.seen, second.seen, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first.seen, other.seen, strict=False))


def test_a_pack_is_scored_at_once_as_its_members():
    data = Grid((64, 64), ("ordered", "ordered"))
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    pack = local("mig", samples=4, points=300)(lambda x: torch.from_numpy(np.stack([x, x @ turn])), data)
    assert pack.values.shape == (2,) and pack.details["by_window"].shape == (2, 4)
    assert pack.values[0] == float(local("mig", samples=4, points=300)(identity, data))
    assert pack.values[0] > pack.values[1]


def test_a_code_that_changes_places_is_disentangled_locally_only():
    """rhodes2021, 5.3: one pairing of codes and factors here, another one there."""
    data = Grid((60, 60), ("ordered", "ordered"))

    def encode(x):
        swap = (x[:, :1] // 20 + x[:, 1:] // 20) % 2 == 0
        return np.where(swap, x, x[:, ::-1]) + 0.0

    assert float(sampled("mig", points=3000)(encode, data)) < 0.2
    assert float(local("mig", radius=0.05, points=1000)(encode, data)) > 0.5


@pytest.mark.parametrize("name", ["mig", "modularity"])
def test_arguments_names_partials_and_functions(name):
    data = Grid((64, 64), ("ordered", "ordered"))
    metric = uw.metrics.get(name)
    found = [
        float(local(one, samples=3, points=100, **more)(identity, data))
        for one, more in ((name, {"bins": 3}), (metric, {"bins": 3}), (functools.partial(metric, bins=3), {}))
    ]
    assert found[0] == found[1] == found[2] != float(local(name, samples=3, points=100)(identity, data))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: local("migg"), "did you mean 'mig'"),
        (lambda: local("mig", binz=3), "did you mean 'bins'"),
        (lambda: local(np.mean), "is no metric"),
        (lambda: local(functools.partial(uw.metrics.mig, np.zeros((2, 2)))), "by name"),
        (lambda: local("mig", points=1), "2 or more"),
        (lambda: local("mig", samples=0)(identity, Grid()), "1 or more"),
        (lambda: local("mig", radius=0.01)(identity, Grid()), "every factor is constant"),
        (lambda: local("mig", radius=-1)(identity, Grid()), "0 or more"),
        (lambda: local("mig")(lambda x: x[:3], Grid()), "encode gave codes of shape"),
        (lambda: local("mig")(identity, uw.datasets.images(np.zeros((4, 8, 8), np.uint8))), "has no factors"),
    ],
)
def test_what_cannot_be_done_is_said(make, message):
    with pytest.raises(UntwineError, match=message):
        make()


def test_rules_of_the_reference_are_arguments():
    data = Grid((8, 40), ("ordered", "cyclic"))
    ours = local("mig", radius=0.2, samples=3, points=60)(identity, data)
    theirs = local("mig", radius=0.2, samples=3, points=60, freeze_below=10)(identity, data)
    assert ours.details["constant_factors"] == [[]] * 3 and theirs.details["constant_factors"] == [[0]] * 3
    wrapped = local("mig", radius=0.2, samples=20, points=60)(identity, data)
    assert all(sizes[1] == 17 for sizes in wrapped.details["sizes"])
    cut = local("mig", radius=0.2, samples=20, points=60, freeze_below=10, wrap=False)(identity, data)
    assert min(sizes[1] for sizes in cut.details["sizes"]) < 17
    assert not ours.comparable(theirs) and not wrapped.comparable(cut)


# --- the encoder ------------------------------------------------------------------------------------


def counted(data):
    calls = []

    def encode(x):
        calls.append(len(x))
        return x

    return encode, calls


def test_a_state_is_encoded_once():
    data = Grid()
    encode, calls = counted(data)
    encoder = Encoder(encode, data)
    for radius in (0.1, 0.2, 0.3):
        local("mig", radius=radius, samples=5, points=2000)(encoder, data)
    sampled("mig", points=5000)(encoder, data)
    assert sum(calls) <= data.factors.states == 1200
    states = data.factors.sample(50, seed=9)
    assert np.array_equal(encoder(states), states.astype(np.float32))


def test_codes_come_back_in_the_order_of_the_states_and_in_their_shape():
    data = Grid()
    states = data.factors.sample(60, seed=1).reshape(5, 4, 3, 3)
    assert np.array_equal(Encoder(identity, data)(states), states.astype(np.float32))
    pack = Encoder(lambda x: np.stack([x, 2 * x]), data)
    assert np.array_equal(pack(states), np.stack([states, 2 * states]).astype(np.float32))
    assert pack(states[:1]).shape == (2, 1, 4, 3, 3)


def test_a_space_too_large_to_remember(monkeypatch):
    monkeypatch.setattr("untwine.metrics.encoder._TABLE", 10)
    data = Grid()
    encode, calls = counted(data)
    encoder = Encoder(encode, data)
    states = np.repeat(data.factors.sample(7, seed=0), 10, 0)
    for _ in range(2):
        assert np.array_equal(encoder(states), states.astype(np.float32))
    assert calls == [7, 7]
    huge = Grid((1000,) * 7, ("ordered",) * 7)
    assert Encoder(identity, huge)(huge.factors.sample(4, seed=0)).shape == (4, 7)


def test_many_images_are_observed_in_parts(monkeypatch):
    monkeypatch.setattr("untwine.metrics.encoder._IMAGES", 12 * 10)
    data = Grid()
    encode, calls = counted(data)
    states = data.factors.factors(np.arange(95))
    assert np.array_equal(Encoder(encode, data)(states), states.astype(np.float32))
    assert max(calls) <= 10 and sum(calls) == 95


class OnDevice:
    """A model that says where it is, and sees tensors of pixels or arrays alike."""

    def __init__(self, kind: str):
        self.takes_tensors_on, self.seen = SimpleNamespace(type=kind), []

    def encode(self, x):
        self.seen.append(type(x))
        return np.asarray(x).reshape(len(x), -1)[:, ::97].astype(np.float32)


def test_states_are_drawn_on_the_device_of_the_model(monkeypatch):
    """Where a dataset can draw there: the same codes, and no array in between."""
    data = uw.datasets.three_dots(size=16, examples=10)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: self)  # there is no such device here
    states = data.factors.sample(50, seed=0)
    found = {kind: OnDevice(kind) for kind in ("cpu", "cuda")}
    codes = {kind: Encoder(model.encode, data)(states) for kind, model in found.items()}
    assert np.array_equal(codes["cpu"], codes["cuda"])
    assert found["cpu"].seen == [np.ndarray] and found["cuda"].seen == [torch.Tensor]
    plain = OnDevice("cuda")
    square = uw.datasets.synthetic_linear(ratio=1.0)  # which cannot
    Encoder(plain.encode, square)(square.factors.sample(5, seed=0))
    assert plain.seen == [np.ndarray]


def test_an_ensemble_is_scored_by_its_encode():
    data = uw.datasets.three_dots(size=16, positions=16, examples=50)
    run = uw.Run(method=uw.methods.beta_vae(), dataset=data, latents=3, seeds=[0, 1], steps=2, batch_size=8)
    ensemble = uw.fit(run)
    score = uw.metrics.local("mig", radius=0.2, samples=2, points=100)(ensemble.encode, data)
    assert score.values.shape == (2,) and (score.values >= 0).all() and score.settings["dataset"] == data.spec


# --- grids that are not complete --------------------------------------------------------------------

SPACE = FactorSpace(("x", "angle", "shape"), (12, 10, 3), ("ordered", "cyclic", "categorical"))
ABLE = ["dci", "explicitness", "infomec", "knn_score", "mig", "modularity", "sap"]
REFUSED = ["beta_vae_score", "factor_vae_score", "irs"]


def examples(n=500, space=SPACE):
    """Vectors of random states, each with a little noise of its own: some states are missing, others look different."""
    labels = space.sample(n, seed=5)
    noise = np.random.default_rng(0).normal(size=labels.shape) / 5
    data = Labelled((labels + noise).astype(np.float32), labels, space)
    data.spec = {"name": "mine"}
    assert not data.complete
    return data


def turned(x):
    return np.stack([x[:, 0] + x[:, 1], x[:, 0] - x[:, 1], x[:, 2], x[:, 0] * x[:, 2]], 1)


def test_no_metric_of_factors_is_forgotten():
    assert sorted(ABLE + REFUSED) == [n for n in uw.metrics.names() if "factors" in uw.metrics.get(n).takes]


@pytest.mark.parametrize("name", ABLE)
def test_metrics_on_examples_are_those_of_their_codes_and_labels(name):
    data = examples()
    codes, labels = turned(data.examples()), data.factors_of(range(len(data)))
    metric = uw.metrics.get(name)
    known = metric.known_options(kinds=SPACE.kinds, seed=0)
    everything = sampled(name)(turned, data)  # more points than there are examples
    assert everything.settings["samples"] == 500
    assert float(everything) == pytest.approx(float(metric(codes, labels, **known)), abs=1e-9)
    some = sampled(name, points=300)(turned, data, seed=4)
    numbers = among(500, 300, seed=4)
    known = metric.known_options(kinds=SPACE.kinds, seed=4)
    assert some.settings["samples"] == 300
    assert float(some) == pytest.approx(float(metric(codes[numbers], labels[numbers], **known)), abs=1e-9)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("make", [sampled, functools.partial(local, radius=0.3)], ids=["sampled", "local"])
def test_interventions_are_refused_with_a_reason(name, make):
    data = examples()
    seen = len({tuple(row) for row in data.factors_of(range(500)).tolist()})
    with pytest.raises(UntwineError) as error:
        make(name)(lambda x: pytest.fail("encoded"), data)
    assert f"{name} needs interventions" in str(error.value)
    assert f"{seen} of the 360 states of mine have an example" in str(error.value)
    assert f"as they are: {', '.join(ABLE)}" in str(error.value)
    digits = Labelled(
        np.zeros((30, 2), np.float32), np.arange(30)[:, None] % 10, FactorSpace(("d",), (10,), ("ordered",))
    )
    with pytest.raises(
        UntwineError, match="the 10 states of this dataset have 30 examples: no look stands for a state"
    ):
        make(name)(turned, digits)


def test_every_metric_takes_a_table_of_all_states():
    labels = SPACE.factors(np.random.default_rng(0).permutation(SPACE.states))
    data = Labelled(labels.astype(np.float32), labels, SPACE)
    assert data.complete
    for name in REFUSED:
        options = {} if name == "irs" else {"groups": 20, "size": 8}
        grid = Grid(SPACE.sizes, SPACE.kinds)
        assert float(sampled(name, **options)(identity, data)) == float(sampled(name, **options)(identity, grid))


@pytest.mark.parametrize("rules", [{}, {"wrap": False}, {"freeze_below": 11}], ids=str)
def test_windows_hold_the_examples_whose_factors_are_in_them(rules):
    data = examples(1500)
    labels = data.factors_of(range(1500))
    score = local("mig", radius=0.25, samples=9, points=120, **rules)(turned, data, seed=2)
    windows = windows_among(SPACE, labels, 0.25, 9, 2, **rules)
    by_hand, counts = [], []
    for step, window in enumerate(windows):
        allowed = [
            {(window.low[k] + i) % size for i in range(window.grid.sizes[k])} for k, size in enumerate(SPACE.sizes)
        ]
        held = [i for i, row in enumerate(labels.tolist()) if all(v in a for v, a in zip(row, allowed, strict=True))]
        assert held == inside(window, labels).tolist() and len(held) >= LEAST
        numbers = np.array(held)[among(len(held), 120, seed=2, step=step)]
        counts.append(len(numbers))
        by_hand.append(float(uw.metrics.mig(turned(data.batch(numbers)), labels[numbers], bins=5)))
    assert score.details["by_window"] == pytest.approx(by_hand, abs=1e-9)
    assert score.settings["samples"] == counts and score.settings["windows"] == 9
    assert max(counts) <= 120 and len(set(counts)) > 1


@pytest.mark.parametrize("rules", [{}, {"wrap": False}, {"freeze_below": 11}, {"vary_categorical": True}], ids=str)
def test_windows_are_around_random_examples(rules):
    labels = examples(1000).factors_of(range(1000))
    windows = windows_among(SPACE, labels, 0.25, 20, 3, **rules)
    states = np.array(sorted({tuple(row) for row in labels.tolist()}))
    enough = []
    for state in states[np.argsort(np_bits_of(3, "centres of windows", states))]:  # one by one
        window = around(SPACE, 0.25, centre=state, **rules)
        states = window.place(window.grid.factors(np.arange(window.grid.states)))
        held = {tuple(state) for state in states.tolist()}
        if sum(tuple(row) in held for row in labels.tolist()) >= LEAST:
            enough.append(window)
        if len(enough) == 20:
            break
    assert windows == enough
    assert windows != windows_among(SPACE, labels, 0.25, 20, 4, **rules)


def test_windows_with_too_few_examples_do_not_count():
    near, far = [[i % 3, i % 4] for i in range(30)], [[90 + i, 90 + i] for i in range(5)]
    space = FactorSpace(("x", "y"), (100, 100), ("ordered", "ordered"))
    labels = np.array(far + near)
    windows = windows_among(space, labels, 0.1, 1000, seed=0)
    assert len(windows) == 12  # those around states of `near`; there are no more
    assert all(window.low == (0, 0) for window in windows)
    with pytest.raises(
        UntwineError, match=r"no window of radius 0.1 .* 5 states of the 5 examples, holds 5; take a larger"
    ):
        windows_among(space, np.array(far), 0.1, 3, seed=0)
    with pytest.raises(UntwineError, match="holds 20 examples of different factors"):
        windows_among(space, np.zeros((50, 2), int), 0.1, 3, seed=0)  # there are enough, but all are alike


def test_windows_of_examples_are_the_same_for_all_models_and_metrics():
    data = examples()
    first, second = (
        local(name, radius=0.3, samples=5)(encode, data, seed=1).details
        for name, encode in (("mig", turned), ("sap", identity))
    )
    assert first["low"] == second["low"] and first["sizes"] == second["sizes"]
    pack = local("mig", radius=0.3, samples=5)(lambda x: np.stack([turned(x), -turned(x)]), data, seed=1)
    assert pack.values.shape == (2,) and pack.values[0] == np.mean(first["by_window"])


def test_an_example_is_encoded_once():
    data = examples()
    encode, calls = counted(data)
    encoder = Encoder(encode, data)
    for radius in (0.2, 0.3):
        local("mig", radius=radius, samples=5)(encoder, data)
    sampled("mig")(encoder, data)
    assert sum(calls) == 500
    assert np.array_equal(encoder.of_examples(np.array([7, 3])), data.batch([7, 3]))


def test_states_that_cannot_be_numbered_are_no_hindrance():
    huge = FactorSpace(tuple(map(str, range(8))), (1000,) * 8, ("ordered",) * 8)
    labels = huge.sample(40, seed=0) // 500
    data = Labelled(labels.astype(np.float32), labels, huge)
    assert float(sampled("mig", bins=2)(identity, data)) > 0.5
    assert float(local("modularity", radius=0.5, samples=3)(identity, data)) > 0.5


def test_categorical_factors_have_no_windows():
    data = examples(60, FactorSpace(("digit", "one"), (10, 1), ("categorical", "ordered")))
    with pytest.raises(UntwineError, match=r"there are no windows: every factor \(digit, one\) is categorical"):
        local("mig")(identity, data)
