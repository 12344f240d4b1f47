"""Three-dots against a plain drawing at ten times the size."""

from __future__ import annotations

import numpy as np
import pytest

from untwine.datasets import three_dots
from untwine.errors import UntwineError


def brute_force(state: np.ndarray, size: int, positions: int, radius: float) -> np.ndarray:
    """The definition, word for word: 10x the size, a subpixel counts by its centre, area average."""
    fine = 10 * size
    centres = np.arange(fine) + 0.5
    white = np.ones((fine, fine))
    for x, y in fine * state.reshape(-1, 2) / (positions - 1):
        white[(centres[None, :] - x) ** 2 + (centres[:, None] - y) ** 2 <= (radius * fine) ** 2] = 0
    white = white.reshape(size, 10, size, 10).sum((1, 3))
    return np.round(255 * white / 100).astype(np.uint8)


def awkward(positions: int, dots: int) -> np.ndarray:
    """States that are hard to draw: equal positions, neighbours, borders, corners."""
    last, middle = positions - 1, positions // 2
    rows = [
        [middle, middle] * dots,
        [0, 0] * dots,
        [last, last] * dots,
        [0, last] * dots,
        [last, middle] * dots,
    ]
    for shift in range(1, 8):
        line = [[min(middle + shift * dot, last), middle] for dot in range(dots)]
        diagonal = [[min(shift * dot, last), min(shift * dot, last)] for dot in range(dots)]
        edge = [[last, max(last - shift * dot, 0)] for dot in range(dots)]
        rows += [np.ravel(line), np.ravel(diagonal), np.ravel(edge)]
    return np.array(rows)


SETTINGS = [
    dict(),
    dict(size=32, positions=32),
    dict(size=32, positions=64, dots=1),
    dict(size=20, positions=7, dots=5, radius=0.2),
    dict(size=4, positions=17, dots=2, radius=0.125),  # many subpixels lie exactly on the circle
    dict(size=9, positions=2, dots=2, radius=0.7),  # dots larger than the picture
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_drawing_is_the_supersampled_drawing(settings):
    data = three_dots(examples=30, **settings)
    size, dots, positions, radius = (data.spec[key] for key in ("size", "dots", "positions", "radius"))
    states = np.concatenate([data.factors_of(np.arange(30)), awkward(positions, dots)])
    drawn = data.observe(states)
    assert drawn.dtype == np.uint8 and drawn.shape == (len(states), 1, size, size)
    for state, picture in zip(states, drawn, strict=True):
        assert np.array_equal(picture[0], brute_force(state, size, positions, radius)), state


def test_the_awkward_states_do_need_the_exact_union():
    """Neither the product nor the minimum of separately drawn dots would pass the test above."""
    one, two = three_dots(dots=1, examples=1), three_dots(dots=2, examples=1)
    left, right = np.array([[30, 30]]), np.array([[35, 32]])
    exact = two.observe(np.concatenate([left, right], axis=1)).astype(int)
    first, second = one.observe(left).astype(int), one.observe(right).astype(int)
    assert (exact != np.minimum(first, second)).any()
    assert (exact != np.round(first * second / 255)).any()


def test_x_goes_right_and_y_goes_down():
    picture = three_dots(dots=1, examples=1).observe([[63, 20]])[0, 0]
    row, column = np.argwhere(picture == 0).mean(axis=0)
    assert column > 58 and abs(row - (64 * 20 / 63 - 0.5)) < 0.5


def test_the_order_of_identical_dots_does_not_matter():
    data = three_dots(examples=200)
    states = data.factors_of(np.arange(200))
    assert np.array_equal(data.observe(states), data.observe(states[:, [4, 5, 0, 1, 2, 3]]))


def test_area_of_a_dot():
    picture = three_dots(dots=1, examples=1).observe([[31, 31]])[0, 0]
    assert abs((255.0 - picture).sum() / 255 / (np.pi * 5.12**2) - 1) < 0.005


def test_examples_are_the_sampled_states():
    data = three_dots(examples=5000, seed=4)
    assert np.array_equal(data.factors_of(np.arange(5000)), data.factors.sample(5000, seed=4))
    indices = np.array([4999, 0, 17, 17])
    assert np.array_equal(data.examples()[indices], data.observe(data.factors_of(indices)))


OPENCV = [dict(style="opencv"), dict(style="opencv", size=20, positions=7, dots=5, radius=0.2)]


@pytest.mark.parametrize("settings", [*SETTINGS, *OPENCV], ids=str)
def test_torch_draws_the_same_pixels(settings):
    import torch

    data = three_dots(examples=300, **settings)
    states = np.concatenate([data.factors_of(np.arange(300)), awkward(data.spec["positions"], data.spec["dots"])])
    drawn = data.draw(torch.from_numpy(states))
    assert drawn.dtype == torch.uint8
    assert np.array_equal(drawn.numpy(), data.observe(states))
    assert data.draw(torch.from_numpy(states[:0])).shape == (0, *data.shape)


@pytest.mark.gpu
def test_a_gpu_draws_the_same_pixels():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    data = three_dots(examples=20_000)
    states = np.concatenate([data.factors_of(np.arange(20_000)), awkward(64, 3)])
    drawn = data.draw(torch.from_numpy(states).cuda())
    assert drawn.is_cuda and np.array_equal(drawn.cpu().numpy(), data.observe(states))


def test_drawing_in_chunks_changes_nothing():
    import torch

    data = three_dots(examples=6000, size=32)
    states = data.factors_of(np.arange(6000))
    whole = data.observe(states)
    assert np.array_equal(whole[5990:], data.observe(states[5990:]))
    assert np.array_equal(whole, data.draw(torch.from_numpy(states)).numpy())


@pytest.mark.parametrize("rows", [[[0, 0, 0, 0, 0, 64]], [[-1, 0, 0, 0, 0, 0]], [[0, 0, 0]]])
def test_torch_refuses_factors_off_the_grid(rows):
    import torch

    data = three_dots(examples=1)
    with pytest.raises(UntwineError, match="draw needs"):
        data.draw(torch.tensor(rows))
    with pytest.raises(UntwineError, match="draw needs int64"):
        data.draw(torch.zeros(1, 6))


@pytest.mark.parametrize(
    "arguments",
    [{"size": 0}, {"dots": 0}, {"positions": 1}, {"examples": 0}, {"radius": 0.0}, {"radius": 1.5}],
)
def test_settings_that_make_no_sense_are_refused(arguments):
    with pytest.raises(UntwineError, match=next(iter(arguments))):
        three_dots(**arguments)
