"""XYSquares against a plain loop, and against the numbers of Michlo et al. 2023."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from untwine.datasets import images, pinwheel, three_dots, xy_squares
from untwine.errors import UntwineError

SETTINGS = [
    *(dict(spacing=spacing) for spacing in range(1, 9)),
    dict(size=32, square=4, positions=8, spacing=4),
    dict(size=17, square=3, positions=5, spacing=3),
    dict(size=9, square=1, positions=2, spacing=8),
    dict(size=11, square=6, positions=3, spacing=1),
]


def brute_force(state: np.ndarray, spacing: int, size: int, square: int, positions: int) -> np.ndarray:
    """Draw pixel by pixel."""
    before = (size - ((positions - 1) * spacing + square)) // 2
    picture = np.zeros((3, size, size), np.uint8)
    for colour in range(3):
        x, y = (before + spacing * int(place) for place in state[2 * colour : 2 * colour + 2])
        for row in range(y, y + square):
            for column in range(x, x + square):
                picture[colour, row, column] = 255
    return picture


def some(data, n: int = 40) -> np.ndarray:
    """States: the corners of the grid, and some at random."""
    last = data.factors.sizes[0] - 1
    corners = [[0] * 6, [last] * 6, [0, last] * 3, [last, 0] * 3, [last, 0, 0, 0, 0, last]]
    return np.concatenate([corners, data.factors.sample(n, seed=0)])


def distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The perceived distance of Table A1: the mean over elements of squared differences of [0, 1] pixels."""
    return (((first.astype(np.float64) - second) / 255) ** 2).mean((1, 2, 3))


# --- pictures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_drawing_is_the_loop(settings):
    data = xy_squares(**settings)
    arguments = {key: value for key, value in data.spec.items() if key != "name"}
    states = some(data)
    drawn = data.observe(states)
    assert drawn.dtype == np.uint8 and drawn.shape == (len(states), *data.shape)
    for state, picture in zip(states, drawn, strict=True):
        assert np.array_equal(picture, brute_force(state, **arguments)), state


@pytest.mark.parametrize("spacing", range(1, 9))
def test_the_grid_is_centred(spacing):
    data = xy_squares(spacing=spacing)
    used = np.flatnonzero(data.observe([[0] * 6, [7] * 6]).any((0, 1, 2)))
    left, right = used[0], 63 - used[-1]
    assert right - left == spacing % 2 and used[-1] - used[0] + 1 == 7 * spacing + 8


def test_examples_are_the_whole_grid_each_state_once():
    data = xy_squares()
    assert len(data) == 8**6 == data.factors.states and data.nbytes == 8**6 * 3 * 64 * 64
    factors = data.factors_of(np.arange(len(data)))
    assert np.array_equal(np.unique(factors, axis=0), factors)  # sorted rows, none twice
    indices = np.array([0, 1, 8, 262_143, 100_000, 1])
    assert np.array_equal(data.factors.index(data.factors_of(indices)), indices)
    assert np.array_equal(data.batch(indices), data.observe(data.factors_of(indices)))
    assert data._examples is None  # nothing of this needed the table of 3.2 GB


def test_the_whole_table_is_the_batches():
    data = xy_squares(size=16, square=4, positions=4, spacing=4)
    table = data.examples()
    assert table.shape == (4**6, 3, 16, 16)
    assert len(np.unique(table.reshape(len(table), -1), axis=0)) == len(table)
    assert np.array_equal(table[[7, 4095]], data.batch([7, 4095]))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_torch_draws_the_same_pixels(settings):
    import torch

    data = xy_squares(**settings)
    states = some(data, 300)
    drawn = data.draw(torch.from_numpy(states))
    assert drawn.dtype == torch.uint8 and drawn.is_contiguous()
    assert np.array_equal(drawn.numpy(), data.observe(states))
    assert np.array_equal(data.draw(torch.from_numpy(states).int()).numpy(), drawn.numpy())
    assert data.draw(torch.from_numpy(states[:0])).shape == (0, *data.shape)


@pytest.mark.gpu
def test_a_gpu_draws_the_same_pixels():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    data = xy_squares(spacing=3)
    # All of them: the table has more than 2^31 elements, where 32-bit indices would give out.
    drawn = data.draw(torch.from_numpy(data.factors_of(np.arange(len(data)))).cuda())
    assert drawn.is_cuda and drawn.numel() > 2**31
    numbers = np.concatenate([np.arange(0, len(data), 37), [len(data) - 1]])
    assert np.array_equal(drawn[torch.from_numpy(numbers).cuda()].cpu().numpy(), data.batch(numbers))


@pytest.mark.parametrize("rows", [[[0, 0, 0, 0, 0, 8]], [[-1, 0, 0, 0, 0, 0]], [[0, 0, 0]]])
def test_torch_refuses_factors_off_the_grid(rows):
    import torch

    data = xy_squares()
    with pytest.raises(UntwineError, match="draw needs"):
        data.draw(torch.tensor(rows))
    with pytest.raises(UntwineError, match="draw needs int64"):
        data.draw(torch.zeros(1, 6))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"spacing": 0}, "spacing is 0.*from 1 to 8"),
        ({"spacing": 9}, "spacing is 9.*from 1 to 8"),
        ({"spacing": -1}, "spacing is -1"),
        ({"size": 0}, "size"),
        ({"square": 0}, "square"),
        ({"positions": 1}, "positions"),
        ({"size": 12}, "12 pixels are too few"),
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(UntwineError, match=message):
        xy_squares(**arguments)


# --- distances: Table A1 and section 5.4 --------------------------------------------------------------


@pytest.mark.parametrize("column", range(6))
def test_all_pictures_that_differ_in_one_factor_are_equally_far_apart(column):
    data = xy_squares()
    states = some(data)
    for shift in range(1, 8):
        moved = states.copy()
        moved[:, column] = (moved[:, column] + shift) % 8
        assert np.allclose(distance(data.observe(states), data.observe(moved)), 128 / 12288, rtol=1e-12, atol=0)
    assert round(128 / 12288, 4) == 0.0104


def test_random_pairs_are_as_far_apart_as_in_the_paper():
    data = xy_squares()
    pairs = distance(data.batch(np.arange(0, 262_144, 257)), data.observe(data.factors.sample(1021, seed=3)))
    assert abs(pairs.mean() - 0.0308) < 2e-4 and abs(pairs.std() - 0.0022) < 4e-4


@pytest.mark.parametrize("spacing", range(1, 9))
def test_distances_grow_with_the_index_until_squares_no_longer_overlap(spacing):
    data = xy_squares(spacing=spacing)
    for column in range(6):
        line = np.tile(data.factors.sample(1, seed=column), (8, 1))
        line[:, column] = np.arange(8)
        pictures = data.observe(line)
        for first in range(8):
            apart = distance(np.broadcast_to(pictures[first], pictures.shape), pictures) * 12288
            overlap = np.maximum(0, 8 - spacing * np.abs(np.arange(8) - first))
            assert np.allclose(apart, 2 * 8 * (8 - overlap))
    along = np.round([*apart[::-1]], 9)  # from the last place, by distance in indices
    touching = int(np.ceil(8 / spacing))
    assert (np.diff(along[: touching + 1]) > 0).all() and (along[touching:] == 128).all()


# --- standardisation: Table A2 --------------------------------------------------------------------------


def test_standardisation_is_that_of_the_paper():
    mean, std = xy_squares().standardisation([0])
    assert np.allclose(mean, 0.015625, rtol=0, atol=1e-15)
    assert np.allclose(std, 0.124034734589209, rtol=0, atol=1e-15)


@pytest.mark.parametrize("spacing", [1, 3, 8])
def test_one_picture_gives_the_constants_of_all(spacing):
    data = xy_squares(spacing=spacing)
    one, many = data.standardisation([0]), data.standardisation(data.factors.index(some(data, 2000)))
    for first, second in zip(one, many, strict=True):
        assert np.allclose(first, second, rtol=1e-12, atol=0)
    assert data._examples is None


def test_standardisation_is_the_mean_over_images_of_their_own_deviation():
    table = (np.arange(30 * 3 * 25).reshape(30, 3, 5, 5) ** 2 % 241).astype(np.uint8)
    for data, rows in ((images(table), slice(None)), (images(table), slice(3, 9)), (three_dots(examples=50), slice(7))):
        indices = np.arange(len(data))[rows]
        pixels = data.batch(indices) / 255
        mean, std = data.standardisation(None if rows == slice(None) else indices)
        assert np.allclose(mean, pixels.mean((0, 2, 3)), rtol=1e-12)
        assert np.allclose(std, pixels.std((2, 3), ddof=1).mean(0), rtol=1e-12)
        assert not np.allclose(std, pixels.std((0, 2, 3)), rtol=1e-6)


def test_standardisation_in_parts_changes_nothing(monkeypatch):
    data = three_dots(examples=50, size=16)
    whole = data.standardisation()
    # By its full name: `untwine.data.contract` as an attribute is the decorator.
    monkeypatch.setattr(importlib.import_module("untwine.data.contract"), "_CHUNK_BYTES", 5000)
    for one, other in zip(whole, data.standardisation(), strict=True):
        assert np.allclose(one, other, rtol=1e-13, atol=0)


def test_only_images_are_standardised():
    with pytest.raises(UntwineError, match="only images"):
        pinwheel().standardisation()
    with pytest.raises(UntwineError, match="at least one image"):
        xy_squares().standardisation([])
    with pytest.raises(UntwineError, match="no example"):
        xy_squares().standardisation([8**6])
