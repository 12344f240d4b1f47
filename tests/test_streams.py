"""Philox, and everything that is drawn from it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from untwine import streams

ONE = torch.tensor([7])
ZERO = torch.tensor([0])
KINDS = {
    "bits": lambda seeds, steps, count: streams.bits(seeds, "test", steps, count),
    "uniform": lambda seeds, steps, count: streams.uniform(seeds, "test", steps, count),
    "normal": lambda seeds, steps, count: streams.normal(seeds, "test", steps, count),
    "integers": lambda seeds, steps, count: streams.integers(seeds, "test", steps, count, 1000),
}


def reference(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Philox4x32-10 in Python's own integers, from the figure of Salmon et al. 2011."""
    c, k = list(counter), list(key)
    for round_ in range(10):
        if round_:
            k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
    return tuple(c)


# --- the bijection ----------------------------------------------------------------------------------

# The known-answer vectors that come with Random123.
KNOWN = [
    ((0,) * 4, (0,) * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
@pytest.mark.parametrize("array", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_known_answers(counter, key, expected, array):
    words = streams.philox(tuple(array([word]) for word in counter), tuple(array([word]) for word in key))
    assert " ".join(f"{int(word[0]):08x}" for word in words) == expected
    assert " ".join(f"{word:08x}" for word in reference(counter, key)) == expected


def test_it_is_philox_on_any_words():
    inputs = streams.np_bits(0, "inputs of the test", 600).reshape(6, 100)
    expected = np.array([reference(tuple(c[:4].tolist()), tuple(c[4:].tolist())) for c in inputs.T]).T
    assert np.array_equal(np.stack(streams.philox(tuple(inputs[:4]), tuple(inputs[4:]))), expected)
    tensors = torch.from_numpy(inputs)
    assert np.array_equal(torch.stack(streams.philox(tuple(tensors[:4]), tuple(tensors[4:]))).numpy(), expected)


def test_where_seed_purpose_step_and_index_go():
    seed, step = 2**40 + 5, 2**33 + 3
    words = streams.bits(torch.tensor([seed]), "here", torch.tensor([step]), 12)[0, 0].tolist()
    counters = [(block, streams.hashed("here"), step % 2**32, step >> 32) for block in range(3)]
    expected = [reference(counter, (seed % 2**32, seed >> 32)) for counter in counters]
    assert words == list(itertools.chain(*expected))


def test_hashed_does_not_depend_on_the_process():
    assert (
        streams.hashed("posterior") == 0x136FFF00
    )  # printf posterior | sha256sum, its first four bytes from last to first
    assert len({streams.hashed(f"name {i}") for i in range(2000)}) == 2000


@pytest.mark.parametrize("count", [0, 1, 4, 7, 1000, 70_001])  # NumPy fills in blocks of 65,536
def test_numpy_and_torch_agree(count):
    for seed, step in ((0, 0), (2**35 + 1, 12), (3, 2**34)):
        both = torch.tensor([seed]), "agree", torch.tensor([step]), count
        assert np.array_equal(streams.bits(*both)[0, 0].numpy(), streams.np_bits(seed, "agree", count, step))
        uniforms = streams.np_uniform(seed, "agree", count, step)
        assert np.array_equal(streams.uniform(*both)[0, 0].double().numpy(), uniforms)
    assert np.array_equal(streams.np_uniform(1, "a", (2, 5)).ravel(), streams.np_uniform(1, "a", 10))


# --- a pure function of seed, purpose, step and index -----------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 3, 4, 7, 64, 1001])
def test_filling_many_at_once_is_bitwise_the_same(kind, count):
    draw, seeds, steps = KINDS[kind], torch.tensor([5, 0, 2**40]), torch.arange(10, 27)
    whole = draw(seeds, steps, count)
    assert whole.shape == (17, 3, count)
    singly = torch.stack([torch.stack([draw(seed[None], step[None], count)[0, 0] for seed in seeds]) for step in steps])
    assert torch.equal(whole, singly)
    assert torch.equal(whole[..., : count // 2], draw(seeds, steps, count // 2))


def test_types_and_shapes():
    kinds = {"bits": torch.int64, "uniform": torch.float32, "normal": torch.float32, "integers": torch.int64}
    for kind, dtype in kinds.items():
        made = KINDS[kind](torch.arange(3), torch.arange(2), 5)
        assert made.dtype == dtype and made.shape == (2, 3, 5)
    assert streams.permutation(torch.arange(3), "test", 0, 5).shape == (3, 5)
    assert streams.np_uniform(0, "test", (2, 3)).dtype == np.float64


def test_nothing_with_state_is_used():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    for draw in KINDS.values():
        draw(torch.arange(3), torch.arange(2), 5)
    streams.permutation(ONE, "test", 0, 9)
    streams.np_uniform(0, "test", 9)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_streams_look_independent():
    draws = {
        (seed, purpose, step): streams.np_uniform(seed, purpose, 4000, step)
        for seed in (0, 1, 2, 2**32, 2**61)
        for purpose in ("posterior", "batch")
        for step in (0, 1, 2**32)
    }
    table = np.corrcoef(np.stack(list(draws.values())))
    apart = table[np.triu_indices(len(draws), 1)] * math.sqrt(4000)
    # 435 pairs: each is about standard normal, so that 4.5 is far out, and together they must have its spread.
    assert np.abs(apart).max() < 4.5
    assert stats.kstest(apart, "norm").pvalue > 1e-3


def test_one_bit_of_the_input_flips_half_of_the_output():
    base = streams.np_bits(12345, "flip", 256, 77)

    def flipped(other: np.ndarray) -> float:
        return sum(int(word).bit_count() for word in base ^ other) / (32 * 256)

    changed = [streams.np_bits(12345 ^ 1 << bit, "flip", 256, 77) for bit in range(0, 62, 7)]
    changed += [streams.np_bits(12345, "flip", 256, 77 ^ 1 << bit) for bit in range(0, 62, 7)]
    changed += [streams.np_bits(12345, "flap", 256, 77)]
    assert all(abs(flipped(other) - 0.5) < 0.03 for other in changed)  # five standard deviations


# --- distributions ----------------------------------------------------------------------------------


def test_uniforms_lie_strictly_inside_and_are_uniform():
    u = streams.uniform(torch.arange(10), "test", torch.arange(10), 1000)
    assert u.min() > 0.0 and u.max() < 1.0
    assert stats.kstest(u.flatten().numpy(), "uniform").pvalue > 1e-3
    assert stats.kstest(u.flatten().numpy() ** 1.03, "uniform").pvalue < 1e-3  # the test has power


@pytest.mark.parametrize("word", [0, 0xFFFFFFFF])
def test_the_extreme_words_stay_inside(word, monkeypatch):
    monkeypatch.setattr(streams, "bits", lambda seeds, purpose, steps, count: torch.full((1, 1, count), word))
    monkeypatch.setattr(streams, "np_bits", lambda seed, purpose, count, step: np.full(count, word))
    u, n = streams.uniform(ONE, "", ZERO, 2), streams.normal(ONE, "", ZERO, 2)
    assert ((u > 0) & (u < 1)).all() and u.dtype == torch.float32
    assert torch.isfinite(n).all()
    assert 0 < streams.np_uniform(0, "", 1)[0] < 1
    assert streams.integers(ONE, "", ZERO, 1, 10).item() == (9 if word else 0)


def test_normals_are_normal():
    n = streams.normal(torch.arange(20), "test", torch.arange(10), 1000).flatten().double()
    count = len(n)
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(n.pow(power).mean() - moment) < 4 * math.sqrt(variance / count), power
    assert stats.kstest(n.numpy(), "norm").pvalue > 1e-3
    assert stats.kstest((1.02 * n).numpy(), "norm").pvalue < 1e-3  # the test has power
    # The two normals of a pair share their words, and must be independent all the same, squares included.
    pairs = n.reshape(-1, 2)
    for a, b in ((pairs[:, 0], pairs[:, 1]), (pairs[:, 0] ** 2, pairs[:, 1] ** 2)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / math.sqrt(count / 2)


@pytest.mark.parametrize("below", [1, 2, 7, 100])
def test_integers_are_uniform_below_their_bound(below):
    drawn = streams.integers(torch.arange(10), "test", torch.arange(10), 1000, below).flatten()
    counts = np.bincount(drawn.numpy(), minlength=below)
    assert len(counts) == below and counts.sum() == 100_000
    assert below == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_integers_below_a_large_bound():
    drawn = streams.integers(ONE, "test", ZERO, 10_000, 2**31)
    assert drawn.min() >= 0 and drawn.max() < 2**31
    assert stats.kstest(drawn.flatten().double().numpy() / 2**31, "uniform").pvalue > 1e-3


def test_permutations():
    for count in (0, 1, 2, 50, 5000):
        made = streams.permutation(torch.arange(3), "test", 4, count)
        assert torch.equal(made.sort(1).values, torch.arange(count).expand(3, count))
    assert torch.equal(made[1:2], streams.permutation(torch.tensor([1]), "test", 4, 5000))
    assert not torch.equal(made, streams.permutation(torch.arange(3), "test", 5, 5000))
    # Every order of four things is equally likely.
    made = streams.permutation(torch.arange(24_000), "test", 0, 4)
    counts = np.unique(made.numpy() @ np.array([64, 16, 4, 1]), return_counts=True)[1]
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > 1e-3


def test_words_of_rows_are_chained_permutations_of_what_is_in_them():
    rows = np.array([[3, -1], [2**40 + 5, 0], [3, -1]])
    words = streams.np_bits_of(7, "test", rows)
    for row, word in zip(rows.tolist(), words.tolist(), strict=True):
        counter = (0, streams.hashed("test"), 0, 0)
        for value in row:
            low, high = value % 2**32, value // 2**32 % 2**32
            counter = reference((counter[0] ^ low, counter[1] ^ high, *counter[2:]), (7, 0))
        assert word == counter[0]
    assert (words != streams.np_bits_of(8, "test", rows)).all() and (words != streams.np_bits_of(7, "a", rows)).all()


def test_words_of_rows_are_uniform():
    rows = np.indices((60, 50)).reshape(2, -1).T
    words = streams.np_bits_of(0, "test", rows)
    assert stats.kstest(words / 2**32, "uniform").pvalue > 1e-3
    by_value = words.reshape(60, 50) / 2**32 - 0.5
    for axis in (0, 1):  # no row or column is high or low as a whole
        means = by_value.mean(axis) * np.sqrt(12 * by_value.shape[axis])
        assert stats.kstest(means, "norm").pvalue > 1e-3
