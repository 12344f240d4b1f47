"""How the CUDA kernels divide a layer into tiles, and which layers they support."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from untwine.kernels.geometry import Geometry

MAX_SHARED = 232_448  # bytes of shared memory that a block can have on a Hopper GPU
HALF_SHARED = 115_712  # bytes of shared memory with which two blocks fit on a multiprocessor
TAP_WORDS = 9  # 32-bit words for the 16 taps of a pixel in `fold`: 8, and one that spreads the banks
# The two layers that `tangent_norm` is written for.
LAST = Geometry(64, 64, 1, 32, 32, 32, 4, 2, 1)
BEFORE_LAST = Geometry(32, 32, 32, 16, 16, 32, 4, 2, 1)


@dataclass(frozen=True)
class Tiling:
    """A kernel and its tiles, whose rows are rows of the small image (of half the big one for `conv_up`)."""

    kernel: str
    images: int  # of a tile
    rows: int  # of a tile
    bands: int  # tiles that cover an image
    threads: int  # of a block
    shared: int  # bytes of shared memory of a block
    stages: int = 1  # tiles that a block holds at once
    resident: int = 2  # blocks that run on a multiprocessor at once

    def blocks(self, members: int, images: int, processors: int) -> int:
        """The number of blocks for each member, such that all of them run at once.

        Args:
            members: Members of the pack.
            images: Images of each member.
            processors: Multiprocessors of the GPU.
        """
        return min(-(-images // self.images) * self.bands, max(1, self.resident * processors // members))

    def balanced(self, members: int, images: int, processors: int) -> Tiling:
        """The tiling with fewer images per tile where that shares the work out more evenly.

        Args:
            members: Members of the pack.
            images: Images of each member.
            processors: Multiprocessors of the GPU.
        """

        def longest(tile_images: int) -> int:
            """The time of the longest block; a tile takes the time of one image more than it has."""
            blocks = replace(self, images=tile_images).blocks(members, images, processors)
            return -(-(-(-images // tile_images) * self.bands) // blocks) * (tile_images + 1)

        sizes = (self.images >> halvings for halvings in range(self.images.bit_length()))
        return replace(self, images=min(sizes, key=longest))


@functools.cache
def tiling_for(g: Geometry, operation: str, max_shared: int = MAX_SHARED) -> Tiling | None:
    """The tiling of an operation; None where the CUDA kernels do not support it.

    Args:
        g: The sizes of the layer.
        operation: `conv_down`, `conv_up`, `conv_up_fold`, `weight_gradient` or `tangent_norm`.
        max_shared: Bytes of shared memory that a block can have.
    """
    if operation == "tangent_norm":
        size = 2 * _small_bytes(g, 1, 16) + 32_768 + 1024 * (64 + 4 * TAP_WORDS) + 9088 + 2 * (16_384 + 2048) + 8192
        return Tiling("tangent_norm", 1, 16, 1, 256, size, 2, 1) if g == BEFORE_LAST and size <= max_shared else None
    if g.kernel != 4 or g.stride != 2 or g.padding not in (0, 1) or g.cs not in (32, 64):
        return None
    if g.cb == 1:
        return _one_channel(g, operation, min(HALF_SHARED, max_shared))
    if g.cb not in (32, 64):
        return None
    choose = {"conv_down": _down, "conv_up": _up, "conv_up_fold": _up_fold, "weight_gradient": _weight_gradient}
    return choose[operation](g, max_shared)


def _one_channel(g: Geometry, operation: str, room: int) -> Tiling | None:
    """The tiling for a big image of one channel."""
    if operation not in ("conv_down", "weight_gradient") or g.wb % 8 or g.wb > 1024:
        return None
    rows = min(g.hs, 16 if operation == "conv_down" else 8)
    lines = -(-(2 * rows + 2) * (2 * g.ws + 4) * 2 // 128) * 128
    if operation == "conv_down":
        shared, resident = lines, 16
    else:
        warp_sums = 4 * 64 * g.cs  # overwrite the images at the end
        shared, resident = max(lines + _padded(rows * g.ws) * g.cs * 2, warp_sums), 8
    if shared > room:
        return None
    return Tiling(f"{operation}_one_channel", 1, rows, -(-g.hs // rows), 128, shared, resident=resident)


def _down(g: Geometry, max_shared: int) -> Tiling | None:
    weights, room = 32 * g.cb * g.cs, min(HALF_SHARED, max_shared)
    positions = 256 if g.cs == 32 else 128
    tile = _largest_tile(g.hs, g.ws, positions, lambda images, rows: _big_bytes(g, images, rows) + weights <= room)
    if tile is None:
        return None
    return Tiling("conv_down", *tile, _threads(tile, g.ws), _big_bytes(g, *tile[:2]) + weights)


def _up(g: Geometry, max_shared: int) -> Tiling | None:
    weights, columns = 32 * g.cs * g.cb, _half(g.wb)
    room, positions = min(HALF_SHARED, max_shared), 256 if g.cb == g.cs == 32 else 128

    def fits(images: int, rows: int) -> bool:
        return _small_bytes(g, images, rows) + weights <= room

    tile = _largest_tile(_half(g.hb), columns, positions, fits)
    if tile is None:
        return None
    return _with_stages(Tiling("conv_up", *tile, _threads(tile, columns), weights), _small_bytes(g, *tile[:2]), room)


def _up_fold(g: Geometry, max_shared: int) -> Tiling | None:
    rows, columns, room = _half(g.hb), _half(g.wb), min(HALF_SHARED, max_shared)
    weights_and_taps = 32 * g.cs * g.cb + g.hb * g.wb * TAP_WORDS * 4
    if g.cb != 32 or rows * columns > 256 or _small_bytes(g, 1, rows) + weights_and_taps > room:
        return None
    tile = 1, rows, 1
    tiling = Tiling("conv_up", *tile, _threads(tile, columns), weights_and_taps)
    return _with_stages(tiling, _small_bytes(g, 1, rows), room)


def _weight_gradient(g: Geometry, max_shared: int) -> Tiling | None:
    if g.cb != 32:
        return None
    room, resident = (min(HALF_SHARED, max_shared), 2) if g.cs == 32 else (max_shared, 1)

    def size(images: int, rows: int) -> int:
        return _big_bytes(g, images, rows) + _padded(images * rows * g.ws) * g.cs * 2

    positions = 128 if g.cs == 32 else 256
    tile = _largest_tile(g.hs, g.ws, positions, lambda images, rows: size(images, rows) <= room)
    if tile is None:
        return None
    return _with_stages(Tiling("weight_gradient", *tile, 256, 0, resident=resident), size(*tile[:2]), room)


def _largest_tile(
    height: int, width: int, positions: int, fits: Callable[[int, int], bool]
) -> tuple[int, int, int] | None:
    """Images, rows and bands of the largest tile with at most so many positions that fits."""
    for bands in range(1, height + 1):
        rows, images = -(-height // bands), 1
        if rows * width <= positions and fits(1, rows):
            while bands == 1 and 2 * images * rows * width <= positions and fits(2 * images, rows):
                images *= 2
            return images, rows, -(-height // rows)
    return None


def _with_stages(tiling: Tiling, tile_bytes: int, room: int) -> Tiling:
    """The tiling with memory for two tiles where there is room for them, else for one."""
    stages = 2 if 2 * tile_bytes + tiling.shared <= room else 1
    return replace(tiling, shared=tiling.shared + stages * tile_bytes, stages=stages)


def _threads(tile: tuple[int, int, int], columns: int) -> int:
    return 256 if tile[0] * tile[1] * columns > 128 else 128


def _half(size: int) -> int:
    return (size + 1) // 2


def _padded(positions: int) -> int:
    return -(-positions // 16) * 16


def _big_bytes(g: Geometry, images: int, rows: int) -> int:
    """Bytes of a tile of the big image."""
    return images * (2 * rows + 2) * 2 * (g.ws + 1) * g.cb * 2


def _small_bytes(g: Geometry, images: int, rows: int) -> int:
    """Bytes of a tile of the small image with its border: the pixel behind a row is the one before the next."""
    return -(-(images * (rows + 2) * max(_half(g.wb) + 1, g.ws + 1) + 1) * g.cs * 2 // 128) * 128
