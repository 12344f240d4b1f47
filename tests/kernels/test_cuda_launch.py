"""Which layers the CUDA kernels do; their tiles cover the images and fit into shared memory. No GPU is needed."""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from expected import geometry
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import untwine as uw
from untwine.errors import UntwineError
from untwine.kernels import cuda_launch as cuda
from untwine.kernels import tiling
from untwine.kernels.chains.links import Link, Plan
from untwine.kernels.dispatch import Stage, fast, stages
from untwine.kernels.epilogue import Behind
from untwine.kernels.geometry import Geometry
from untwine.model.info import Info
from untwine.model.passes import flatten

OPERATIONS = ("conv_down", "conv_up", "conv_up_fold", "weight_gradient")
NETWORKS: dict[str, tuple[uw.Network, int]] = {
    "rhodes64": (uw.networks.rhodes64(), 64),
    "rhodes64, same": (uw.networks.rhodes64(padding="same"), 64),
    "michlo64": (uw.networks.michlo64(), 64),
    "mathieu_dsprites": (uw.networks.mathieu_dsprites(), 64),
    "locatello64": (uw.networks.locatello64(), 64),
    "locatello64, 4x4": (uw.networks.locatello64(kernels="4x4"), 64),
    **{f"conv, {size} px": (uw.networks.conv(), size) for size in (28, 32, 50, 64, 96, 100, 128)},
    "conv, other widths": (uw.networks.conv(channels=(32, 64, 32)), 128),
}
every_network = pytest.mark.parametrize(("name", "colours"), [*itertools.product(NETWORKS, (1, 3))])


def plans(name: str, colours: int) -> tuple[Plan, Plan]:
    """The convolutions of a network's encoder and decoder."""
    network, size = NETWORKS[name]
    encoder, decoder = network.build(Info(latents=3, shape=(colours, size, size)), 6)
    with fast():
        down, up = ([one for one in stages(flatten(part)) if isinstance(one, Stage)] for part in (encoder, decoder))
    [start] = [layer.unflattened_size for layer in flatten(decoder) if isinstance(layer, nn.Unflatten)]
    return down[0]._plan((size, size), False), up[0]._plan(start[1:], False)  # type: ignore[index]


def links(name: str, colours: int) -> list[Link]:
    return [link for plan in plans(name, colours) for link in plan.links]


def test_geometries_of_a_published_network() -> None:
    """rhodes2021, Table 1: the sides of all images."""
    down, up = plans("rhodes64", 1)
    assert [(g.hb, g.cb, g.hs, g.cs, g.padding) for g in (link.geometry for link in down.links)] == [
        *((64, 1, 31, 32, 0), (31, 32, 14, 32, 0), (14, 32, 6, 64, 0), (6, 64, 2, 64, 0)),
    ]
    assert [(g.hb, g.cb, g.hs, g.cs, g.padding) for g in (link.geometry for link in up.links)] == [
        *((8, 64, 4, 64, 1), (16, 32, 8, 64, 1), (32, 32, 16, 32, 1), (64, 1, 32, 32, 1)),
    ]
    assert up.folds and not down.folds


@pytest.mark.parametrize("name", ["rhodes64", "rhodes64, same", "michlo64", "locatello64, 4x4"])
def test_published_networks_are_served(name: str) -> None:
    """All passes forward and backward of the six layers that are not from 64 channels to 64, on images of 2 to 8 px."""
    down, up = (plan.links for plan in plans(name, 1))
    layers = [link.geometry for link in (*down, *up) if link.geometry.cb < 64]
    assert len(layers) == 6
    for g in layers:
        assert tiling.tiling_for(g, "conv_down") and tiling.tiling_for(g, "weight_gradient")
        # The gradient of images is not needed, and the last layer is folded.
        assert tiling.tiling_for(g, "conv_up") or g.cb == 1
    assert tiling.tiling_for(up[-2].geometry, "conv_up_fold")


@dataclass
class Launch:
    name: str
    macros: dict[str, int]
    shared: int
    grid: tuple[int, int]
    threads: int


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Launch]]:
    """The launches that would run on a GPU of 132 multiprocessors."""
    found: list[Launch] = []

    def kernel(name: str, macros: tuple[tuple[str, int], ...], shared: int, device: int) -> Any:
        return lambda grid, threads, *_: found.append(Launch(name, dict(macros), shared, grid, threads))

    monkeypatch.setattr(cuda, "kernel", kernel)
    monkeypatch.setattr(cuda, "_limits", lambda device: (132, tiling.MAX_SHARED))
    monkeypatch.setattr(cuda, "_has_compiler", lambda: True)
    with FakeTensorMode():
        yield found


def launch(g: Geometry, operation: str, images: int = 7) -> None:
    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(3, images, *shape, dtype=torch.bfloat16, device="cuda:0")

    big, small = empty(g.hb, g.wb, g.cb), empty(g.hs, g.ws, g.cs)
    if operation == "weight_gradient":
        assert cuda.weight_gradient(small, big, g).shape[1:] == (3, 16 * g.cb, g.cs)
    elif operation == "conv_down":
        assert cuda.conv_down(big, big, Behind(relu=True), g)[0].shape == small.shape
    else:
        head = small if operation == "conv_up_fold" else None
        assert cuda.conv_up(small, small, Behind(relu=True), g, head)[0].shape == big.shape


def bytes_needed(name: str, m: dict[str, int]) -> int:
    """The bytes of shared memory that a kernel uses."""
    wide, positions = (m["WB"] + 1) // 2, math.ceil(m["IM"] * m["TI"] * m["WS"] / 16) * 16
    pixels = m["IM"] * (2 * m["TI"] + 2) * 2 * (m["WS"] + 1) * m["CB"] * 2
    lines = math.ceil((2 * m["TI"] + 2) * (2 * m["WS"] + 4) * 2 / 128) * 128
    weights = 16 * m["CB"] * m["CS"] * 2
    around = math.ceil((m["IM"] * (m["TI"] + 2) * max(wide + 1, m["WS"] + 1) + 1) * m["CS"] * 2 / 128) * 128
    return {
        "conv_down": m["STAGES"] * pixels + weights,
        "conv_up": m["STAGES"] * around + weights + m["HEAD"] * m["HB"] * m["WB"] * 9 * 4,
        "weight_gradient": m["STAGES"] * (pixels + positions * m["CS"] * 2),
        "conv_down_one_channel": lines,
        "weight_gradient_one_channel": max(lines + positions * m["CS"] * 2, 4 * 16 * m["CS"] * 4),
    }[name]


def assert_covered(g: Geometry, operation: str, made: Launch) -> None:
    """Tiles of whole images, or of bands of one, none of them empty; and no more memory than there is."""
    rows = (g.hb + 1) // 2 if operation in ("conv_up", "conv_up_fold") else g.hs
    images, high = made.macros["IM"], made.macros["TI"]
    bands = math.ceil(rows / high)
    assert images >= 1 and high >= 1 and (bands == 1 or images == 1) and (bands - 1) * high < rows
    assert made.macros["THREADS"] == made.threads
    tiles = math.ceil(7 / images) * bands
    assert 1 <= made.grid[0] <= tiles and made.grid[1] == 3
    needed = bytes_needed(made.name, made.macros)
    assert needed <= made.shared <= tiling.MAX_SHARED and (operation == "weight_gradient" or needed == made.shared)
    if operation == "conv_up_fold":
        assert (images, bands) == (1, 1)


@every_network
def test_tiles_of_networks(name: str, colours: int, launches: list[Launch]) -> None:
    served = 0
    for link, operation in itertools.product(links(name, colours), OPERATIONS):
        tiles = tiling.tiling_for(link.geometry, operation)
        if tiles is not None:
            launch(link.geometry, operation)
            made = launches.pop()
            images = tiles.balanced(3, 7, 132).images if operation == "weight_gradient" else tiles.images
            assert (images, tiles.rows) == (made.macros["IM"], made.macros["TI"])
            assert made.shared <= (tiling.HALF_SHARED if tiles.resident > 1 else tiling.MAX_SHARED)
            assert_covered(link.geometry, operation, made)
            served += 1
    assert served > 0


def test_tiles_that_keep_blocks_busy() -> None:
    """64 images for 13 blocks: tiles of 2 images go in three rounds, those of 4 in two, which take longer."""
    made = tiling.tiling_for(geometry(16, 16, 32, 64, 4, 2, 1), "weight_gradient")
    assert made is not None and made.images == 4 and made.resident == 1
    assert made.balanced(10, 64, 132).images == 2
    assert made.balanced(10, 640, 132).images == 4
    assert made.balanced(1, 132 * 4, 132).images == 4


def test_tiles_of_whatever_is_served(launches: list[Launch]) -> None:
    served = dict.fromkeys(OPERATIONS, 0)
    sides = (4, 7, 16, 31, 64, 256, 1024)
    for height, width, cb, cs, padding in itertools.product(sides, sides, (1, 32, 64), (32, 64), (0, 1)):
        g = geometry(height, width, cb, cs, 4, 2, padding)
        for operation in OPERATIONS:
            if tiling.tiling_for(g, operation) is not None:
                launch(g, operation)
                assert_covered(g, operation, launches.pop())
                served[operation] += 1
    assert min(served.values()) > 10


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning comes once, and no operation is supported."""

    def missing() -> None:
        raise UntwineError("NVRTC was not found")

    monkeypatch.setattr(cuda, "libraries", missing)
    monkeypatch.setattr(cuda, "_has_compiler", functools.cache(cuda._has_compiler.__wrapped__))
    monkeypatch.setattr(cuda, "_limits", lambda device: (132, tiling.MAX_SHARED))
    with pytest.warns(UserWarning, match="NVRTC was not found; .* are left to Triton"):
        assert cuda.tiling_for(tiling.BEFORE_LAST, "conv_up", 0) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cuda.tiling_for(tiling.BEFORE_LAST, "tangent_norm", 0) is None


@pytest.mark.parametrize(
    "g",
    [
        geometry(16, 16, 32, 32, 3, 2, 1),
        geometry(16, 16, 32, 32, 4, 1, 1),
        geometry(16, 16, 32, 32, 4, 2, 2),
        geometry(16, 16, 32, 48, 4, 2, 1),
        geometry(16, 16, 32, 128, 4, 2, 1),
        geometry(64, 64, 3, 32, 4, 2, 1),
        geometry(28, 28, 1, 32, 4, 2, 1),  # rows of 28 pixels are not whole chunks of memory
    ],
    ids=str,
)
def test_what_is_left_to_others(g: Geometry) -> None:
    assert [tiling.tiling_for(g, operation) for operation in OPERATIONS] == [None] * 4
