"""Own pictures that a program holds: tensors, lists, and torch Datasets."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, IterableDataset, Subset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

import untwine as uw
from untwine.datasets import images

RANDOM = np.random.default_rng(0)
GREY = RANDOM.integers(0, 256, (5, 8, 8), np.uint8)
COLOUR = RANDOM.integers(0, 256, (5, 8, 8, 3), np.uint8)


class Items(TorchDataset):
    """A map-style dataset that counts how often each item was asked for."""

    def __init__(self, items: Any) -> None:
        self.items, self.asked = items, [0] * len(items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        self.asked[index] += 1
        return self.items[index]


def table(source: Any, **options: Any) -> np.ndarray:
    return images(source, **options).examples()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_tensors_are_as_arrays(dtype: torch.dtype) -> None:
    tensor = torch.from_numpy(COLOUR).permute(0, 3, 1, 2)
    tensor = tensor if dtype == torch.uint8 else (tensor / 255).to(dtype).requires_grad_()
    array = tensor.detach().float().numpy() if dtype == torch.bfloat16 else tensor.detach().numpy()
    assert images(tensor).spec == images(array).spec
    np.testing.assert_array_equal(table(tensor), table(array))
    assert images(torch.rand(4, 6)).shape == (6,)


@pytest.mark.parametrize(
    "items",
    [
        list(COLOUR),
        tuple(COLOUR),
        [picture.transpose(2, 0, 1) for picture in COLOUR],
        [torch.from_numpy(picture) for picture in COLOUR],
        [torch.from_numpy(picture).permute(2, 0, 1) / 255 for picture in COLOUR],
        [Image.fromarray(picture) for picture in COLOUR],
        [picture.tolist() for picture in COLOUR],
        [(picture, 3) for picture in COLOUR],
        Items(COLOUR),
        Items([(Image.fromarray(picture), "a label", 7) for picture in COLOUR]),
        TensorDataset(torch.from_numpy(COLOUR)),
        TensorDataset(torch.from_numpy(COLOUR), torch.arange(5)),
        ConcatDataset([Subset(Items(list(COLOUR)), [0, 1, 2]), Subset(Items(list(COLOUR)), [3, 4])]),
    ],
)
def test_lists_and_datasets_are_as_the_array_of_their_pictures(items: Any) -> None:
    np.testing.assert_array_equal(table(items), COLOUR.transpose(0, 3, 1, 2))
    assert images(items).factors is None and images(items).spec == images(COLOUR).spec


def test_every_item_is_read_once() -> None:
    items = Items(list(GREY))
    images(items)
    assert items.asked == [1] * 5


def test_paths_are_read_as_a_folder_is(tmp_path: Path) -> None:
    for i, picture in enumerate(COLOUR):
        Image.fromarray(picture).save(tmp_path / f"{i}.png")
    paths = sorted(tmp_path.iterdir())
    np.testing.assert_array_equal(table(paths), table(tmp_path))
    np.testing.assert_array_equal(table([str(path) for path in paths], size=8), COLOUR.transpose(0, 3, 1, 2))
    with pytest.raises(uw.UntwineError, match=r"item 1, '.*nowhere\.png', cannot be read"):
        images([paths[0], tmp_path / "nowhere.png"])


def test_one_coloured_picture_makes_all_of_them_coloured() -> None:
    mixed = [GREY[0], GREY[1][..., None], COLOUR[2], GREY[3]]
    expected = np.stack([np.repeat(GREY[i][..., None], 3, 2) if i != 2 else COLOUR[2] for i in range(4)])
    np.testing.assert_array_equal(table(mixed), expected.transpose(0, 3, 1, 2))
    assert images(mixed, channels=1).shape == (1, 8, 8)


def test_sizes_must_agree_or_be_given() -> None:
    with pytest.raises(uw.UntwineError, match="item 1 has 6 x 8 pixels, and item 0 has 8 x 8: with size=64"):
        images([GREY[0], GREY[1][:6]])
    np.testing.assert_array_equal(table([GREY[0], GREY[1][:6]], size=4)[0], table(GREY[:1], size=4)[0])
    np.testing.assert_array_equal(table([GREY[1][:, 1:7]], size=4), table(GREY[1:2, :, 1:7], size=4))


def test_zeros_and_ones_mean_what_they_mean_in_an_array() -> None:
    """Integers that are all 0 or 1 are black and white, in all pictures together; floats never are."""
    bits = (GREY > 127).astype(np.uint8)
    for items in (
        list(bits),
        [picture.astype(bool) for picture in bits],
        [Image.fromarray(bits[i] * 255) for i in range(5)],
    ):
        np.testing.assert_array_equal(table(items), bits[:, None] * 255)
    dark = [bits[0], GREY[1]]  # one picture of zeros and ones beside others is almost black, not white
    np.testing.assert_array_equal(table(dark), np.stack(dark)[:, None])
    np.testing.assert_array_equal(table(list(bits / 255)), bits[:, None])
    np.testing.assert_array_equal(table(bits / 255), bits[:, None])


def test_vectors() -> None:
    rows = RANDOM.random((4, 6))
    assert images(list(rows)).spec["source"]["shape"] == [4, 6]
    np.testing.assert_array_equal(table(list(rows)), rows.astype(np.float32))


def test_labels_are_factors_if_asked_for() -> None:
    by_class = images([(GREY[i], i % 3) for i in range(5)], labels=True)
    assert by_class.factors is not None
    assert (by_class.factors.names, by_class.factors.kinds, by_class.factors.sizes) == (
        ("label",),
        ("categorical",),
        (3,),
    )
    assert by_class.factors_of(range(5))[:, 0].tolist() == [0, 1, 2, 0, 1]
    assert "labels" not in by_class.spec and by_class.spec["kinds"] == ["label=categorical"]
    several = images(TensorDataset(torch.from_numpy(GREY), torch.tensor([[i, i % 2] for i in range(5)])), labels=True)
    assert several.factors is not None
    assert (several.factors.names, several.factors.kinds) == (("label0", "label1"), ("ordered", "ordered"))
    words = [(GREY[i], {"toy": "duck" if i else "car", "angle": torch.tensor(35 * i)}) for i in range(5)]
    named = images(words, labels=True, kinds=("angle=cyclic",))
    assert named.factors is not None and named.factors.names == ("toy", "angle")
    assert named.factors.kinds == ("categorical", "cyclic")
    beside = images(list(GREY), factors={"toy": ["duck"] * 4 + ["car"]})
    assert beside.factors is not None and beside.factors.sizes == (2,)


class Endless(IterableDataset):
    def __iter__(self) -> Any:
        yield GREY[0]


class Broken(Items):
    def __getitem__(self, index: int) -> Any:
        return GREY[0] if index < 2 else {}["no such picture"]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ([], {}, "this list has no pictures"),
        ({"images": GREY}, {}, "which this dict is not"),
        (Endless(), {}, r"which this Endless is not; if it yields pictures, use list\(\.\.\.\)"),
        (3, {}, "which this int is not"),
        (Broken([0, 1, 2]), {}, "item 2 cannot be read: KeyError: 'no such picture'"),
        ([GREY[0], None], {}, "item 1 is NoneType, object .* and no picture; pictures are arrays, tensors"),
        ([3, 4], {}, r"item 0 is int, int64 \[\], and no picture"),
        ([[[1, 2], [3]]], {}, "item 0 is no picture"),
        ([GREY[0], GREY[1] * 2.0], {}, r"item 1 holds floats from .* must be in \[0, 1\]"),
        ([GREY[0], np.full((8, 8), np.nan)], {}, "item 1 holds NaN"),
        ([GREY[0], GREY[1].astype(int) * 9], {}, "item 1 holds integers from .* from 0 to 255"),
        ([RANDOM.random((4, 4, 4, 4))], {}, r"item 0 is ndarray, float64 \[4, 4, 4, 4\], and no picture"),
        ([RANDOM.random((5, 8, 8))], {}, "item 0 has shape"),
        (list(GREY), {"labels": True}, "an item has none"),
        (GREY, {"labels": True}, "labels are those of a torch Dataset"),
        ([(GREY[0], 1)], {"labels": True, "factors": [[1]]}, "give one"),
    ],
)
def test_what_makes_no_sense_is_refused(source: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(uw.UntwineError, match=message):
        images(source, **options)


def test_memory_is_that_of_the_bytes() -> None:
    """Float pictures of a Dataset are eight times the table, and never in memory together."""

    class Made(Items):
        def __getitem__(self, index: int) -> Any:
            return np.full((64, 64), index / 400)

    tracemalloc.start()
    try:
        data = images(Made([0] * 400))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert data.nbytes == 400 * 64 * 64
    assert peak < 3.5 * data.nbytes  # the table, its hash and a few copies of it, but not 8 times as much


def test_a_run_on_a_torch_dataset_is_scored(tmp_path: Path) -> None:
    grid = [(np.full((8, 8), 0.2 * x + 0.05 * y), (x, y)) for x in range(4) for y in range(4)]
    data = images(Items(grid), labels=True)
    ensemble = uw.fit(uw.Run("vae", data, latents=2, network="mlp", steps=2, batch_size=4), tmp_path)
    assert ensemble.dataset() is data and data.complete
    with pytest.raises(uw.UntwineError, match="pass the array again"):
        uw.load(tmp_path).dataset()
    assert len(uw.evaluate(tmp_path, ["mig"], dataset=images(Items(grid), labels=True))["mig"].values) == 1
