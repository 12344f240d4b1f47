"""How the CUDA kernels cut a layer into tiles, and which layers they can do at all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from untwine.kernels.geometry import Geometry

LARGEST = 232_448  # bytes of shared memory that a block can have on a GPU of the Hopper generation
ROOM = 115_712  # bytes that leave a multiprocessor room for two of them
WORDS = 9  # that a pixel's taps take where they are folded
LAST = Geometry(64, 64, 1, 32, 32, 32, 4, 2, 1)  # what the tail is made for: the last layer, and the one before
BEFORE = Geometry(32, 32, 32, 16, 16, 32, 4, 2, 1)


@dataclass(frozen=True)
class Cut:
    """A kernel, and its tiles: so many images by so many rows of the small image (of `up`: of half the big one)."""

    kernel: str
    many: int
    high: int
    bands: int  # of an image
    threads: int
    shared: int
    stages: int = 1
    resident: int = 2  # blocks that a multiprocessor is given

    def blocks(self, members: int, images: int, processors: int) -> int:
        """Blocks for each member, so that all of them run at once."""
        return min(-(-images // self.many) * self.bands, max(1, self.resident * processors // members))

    def balanced(self, members: int, images: int, processors: int) -> Cut:
        """With smaller tiles where these keep the blocks busy to the end."""

        def length(many: int) -> int:
            """Of the longest block; a tile takes the time of one image more than it has."""
            blocks = replace(self, many=many).blocks(members, images, processors)
            return -(-(-(-images // many) * self.bands) // blocks) * (many + 1)

        return replace(self, many=min((self.many >> by for by in range(self.many.bit_length())), key=length))


@functools.cache
def cut(g: Geometry, what: str, most: int = LARGEST) -> Cut | None:
    """The cut of `down`, `up`, `fold` (`up` and the next layer), `weight` or `tail`; None where no kernel serves."""
    if what == "tail":
        size = 2 * _small(g, 1, 16) + 32_768 + 1024 * (64 + 4 * WORDS) + 9088 + 2 * (16_384 + 4096 + 1024)
        return Cut("tail", 1, 16, 1, 256, size, 2, 1) if g == BEFORE and size <= most else None
    if g.kernel != 4 or g.stride != 2 or g.padding not in (0, 1) or g.cs not in (32, 64):
        return None
    if g.cb == 1:
        return _single(g, what, min(ROOM, most))
    if g.cb not in (32, 64):
        return None
    return {"down": _down, "up": _up, "fold": _fold, "weight": _weight}[what](g, most)


def _single(g: Geometry, what: str, room: int) -> Cut | None:
    """For a big image of one channel."""
    if what not in ("down", "weight") or g.wb % 8 or g.wb > 1024:
        return None
    high = min(g.hs, 16 if what == "down" else 8)
    lines = -(-(2 * high + 2) * (2 * g.ws + 4) * 2 // 128) * 128
    if what == "down":
        shared, resident = lines, 16
    else:
        shared, resident = max(lines + _padded(high * g.ws) * g.cs * 2, 4 * 64 * g.cs), 8  # or the sums of four warps
    return Cut(f"{what}1", 1, high, -(-g.hs // high), 128, shared, resident=resident) if shared <= room else None


def _down(g: Geometry, most: int) -> Cut | None:
    weights, room = 32 * g.cb * g.cs, min(ROOM, most)
    tile = _tile(g.hs, g.ws, 256 if g.cs == 32 else 128, lambda many, high: _big(g, many, high) + weights <= room)
    if tile is None:
        return None
    return Cut("down", *tile, _threads(tile, g.ws), _big(g, *tile[:2]) + weights)


def _up(g: Geometry, most: int) -> Cut | None:
    weights, broad = 32 * g.cs * g.cb, _half(g.wb)
    room, positions = min(ROOM, most), 256 if g.cb == g.cs == 32 else 128
    tile = _tile(_half(g.hb), broad, positions, lambda many, high: _small(g, many, high) + weights <= room)
    if tile is None:
        return None
    return _staged(Cut("up", *tile, _threads(tile, broad), weights), _small(g, *tile[:2]), room)


def _fold(g: Geometry, most: int) -> Cut | None:
    high, broad, room = _half(g.hb), _half(g.wb), min(ROOM, most)
    rest = 32 * g.cs * g.cb + g.hb * g.wb * WORDS * 4
    if g.cb != 32 or high * broad > 256 or _small(g, 1, high) + rest > room:
        return None
    tile = 1, high, 1
    return _staged(Cut("up", *tile, _threads(tile, broad), rest), _small(g, 1, high), room)


def _weight(g: Geometry, most: int) -> Cut | None:
    if g.cb != 32:
        return None
    room, resident = (min(ROOM, most), 2) if g.cs == 32 else (most, 1)

    def size(many: int, high: int) -> int:
        return _big(g, many, high) + _padded(many * high * g.ws) * g.cs * 2

    tile = _tile(g.hs, g.ws, 128 if g.cs == 32 else 256, lambda many, high: size(many, high) <= room)
    if tile is None:
        return None
    return _staged(Cut("weight", *tile, 256, 0, resident=resident), size(*tile[:2]), room)


def _tile(rows: int, columns: int, most: int, fits: Callable[[int, int], bool]) -> tuple[int, int, int] | None:
    """Images, rows and bands of the largest tile that has at most so many positions, and fits."""
    for bands in range(1, rows + 1):
        high, many = -(-rows // bands), 1
        if high * columns <= most and fits(1, high):
            while bands == 1 and 2 * many * high * columns <= most and fits(2 * many, high):
                many *= 2
            return many, high, -(-rows // high)
    return None


def _staged(made: Cut, tile: int, room: int) -> Cut:
    """With a second tile where there is room for it."""
    stages = 2 if 2 * tile + made.shared <= room else 1
    return replace(made, shared=made.shared + stages * tile, stages=stages)


def _threads(tile: tuple[int, int, int], columns: int) -> int:
    return 256 if tile[0] * tile[1] * columns > 128 else 128


def _half(size: int) -> int:
    return (size + 1) // 2


def _padded(positions: int) -> int:
    return -(-positions // 16) * 16


def _big(g: Geometry, many: int, high: int) -> int:
    """Bytes of a tile of the big image."""
    return many * (2 * high + 2) * 2 * (g.ws + 1) * g.cb * 2


def _small(g: Geometry, many: int, high: int) -> int:
    """Bytes of a tile of the small image with its border: the pixel behind a row is the one before the next."""
    return -(-(many * (high + 2) * max(_half(g.wb) + 1, g.ws + 1) + 1) * g.cs * 2 // 128) * 128
