"""Resized pictures against the filter's definition, and tables on disk."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from untwine.data.files.tables import broken, gathered, mapped, resized, save
from untwine.errors import Unavailable, UntwineError


def some(n: int, channels: int, height: int, width: int) -> np.ndarray:
    """Images with rough and smooth parts."""
    numbers = np.arange(n * channels * height * width, dtype=np.int64)
    rough = numbers * 2654435761 % 256
    smooth = numbers // 3 % 256
    return np.where(numbers % width < width // 2, rough, smooth).reshape(n, channels, height, width).astype(np.uint8)


def weights(before: int, after: int) -> np.ndarray:
    """The weight of each old pixel in each new one: a triangle two new pixels wide, or two old ones if it grows."""
    scale = before / after
    centres = (np.arange(after) + 0.5) * scale
    away = np.abs(np.arange(before) + 0.5 - centres[:, None]) / max(scale, 1.0)
    triangle = np.maximum(0.0, 1.0 - away)
    return triangle / triangle.sum(1, keepdims=True)


@pytest.mark.parametrize(("before", "after"), [(96, 64), (128, 64), (128, 32), (10, 7), (8, 16), (5, 1)])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_resizing_is_the_triangle_filter(before, after, channels):
    images = some(3, channels, before, before)
    found = resized(images, after)
    exact = weights(before, after) @ images.astype(np.float64) @ weights(before, after).T
    assert found.dtype == np.uint8 and found.shape == (3, channels, after, after)
    assert np.abs(found - exact).max() <= 1.01  # it rounds twice: after the rows, and after the columns


def test_shrinking_averages():
    checks = np.indices((128, 128)).sum(0) % 2 * 255
    small = resized(checks[None, None].astype(np.uint8), 64).astype(int)
    assert (
        np.abs(small - 127.5).max() <= 3 and np.abs(small[..., 1:-1, 1:-1] - 127.5).max() <= 1
    )  # picking pixels would give 0 or 255


def test_channels_are_resized_as_colours():
    from PIL import Image

    images = some(2, 3, 20, 20)
    colours = [Image.fromarray(one).resize((9, 9), Image.Resampling.BILINEAR) for one in images.transpose(0, 2, 3, 1)]
    assert np.array_equal(resized(images, 9), np.stack([np.asarray(one).transpose(2, 0, 1) for one in colours]))


def test_the_same_size_changes_nothing():
    images = some(2, 1, 12, 12)
    assert np.array_equal(resized(images, 12), images)
    assert resized(images[:0], 5).shape == (0, 1, 5, 5)
    assert resized(some(1, 1, 6, 9), 6).shape == (1, 1, 6, 6)
    with pytest.raises(UntwineError, match="at least 1"):
        resized(images, 0)


# --- tables on disk -------------------------------------------------------------------------------------


def test_a_table_is_what_its_parts_were(tmp_path):
    images = some(7, 3, 4, 5)
    path = tmp_path / "table.npy"
    save(path, images.shape, [images[:2], images[2:3].tobytes(), images[3:].transpose(0, 1, 2, 3)])
    assert np.array_equal(np.load(path, allow_pickle=False), images)
    table = mapped(path, images.shape)
    assert np.array_equal(table, images) and not table.flags.writeable
    assert type(table[np.array([3, 1])]) is np.ndarray  # what is picked from it is in memory


def test_parts_that_do_not_add_up_are_refused(tmp_path):
    with pytest.raises(UntwineError, match="24 in all; there were 12"):
        save(tmp_path / "table.npy", (2, 3, 4), [np.zeros((1, 3, 4), np.uint8)])


def test_a_table_that_is_something_else_is_refused(tmp_path):
    path = tmp_path / "table.npy"
    save(path, (2, 3), [bytes(6)])
    with pytest.raises(UntwineError, match=re.escape("uint8 [2, 3] instead of uint8 [3, 2]; delete it")):
        mapped(path, (3, 2))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UntwineError, match="delete it"):
        mapped(path, (2, 3))
    np.save(path, np.zeros((2, 3)))
    with pytest.raises(UntwineError, match="float64"):
        mapped(path, (2, 3))
    np.save(path, np.asfortranarray(np.zeros((2, 3), np.uint8)))
    with pytest.raises(UntwineError, match="delete it"):
        mapped(path, (2, 3))
    path.write_bytes(b"")
    with pytest.raises(UntwineError, match="delete it"):
        mapped(path, (2, 3))
    np.save(path, np.array([None, {}]), allow_pickle=True)
    with pytest.raises(UntwineError, match="delete it"):
        mapped(path, (2,))


def test_a_table_that_cannot_be_read_is_said_to_be_so(tmp_path):
    with pytest.raises(Unavailable, match=f"{tmp_path} cannot be read: Is a directory"):
        mapped(tmp_path, (2, 3))
    with pytest.raises(Unavailable, match=r"none\.npy cannot be read: No such file"):
        mapped(tmp_path / "none.npy", (2, 3))


def test_a_broken_file_says_why_on_its_own():
    error = broken(Path("a.mat"), "it is cut off")
    assert error.why == "it is cut off" and re.match("a.mat does not hold .*: it is cut off; delete it", str(error))


@pytest.mark.parametrize("offset", [0, 5000, 8192])
def test_gathering_is_indexing(tmp_path, offset):
    """At any offset of a table in its file: rows of 1,000 bytes do not align with pages of 4096."""
    content = (np.arange(offset + 60_000) % 251).astype(np.uint8)
    content.tofile(tmp_path / "table")
    table = np.memmap(tmp_path / "table", np.uint8, "r", offset, (60, 10, 100))
    for numbers in ([], [59], [0, 59, 0], [7, 8, 9, 3, 41], list(range(60))):
        chosen = np.array(numbers, np.int64)
        found = gathered(table, chosen)
        assert np.array_equal(found, content[offset:].reshape(60, 10, 100)[chosen]) and type(found) is np.ndarray
