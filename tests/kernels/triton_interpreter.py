"""The Triton kernels in Triton's interpreter, which must be asked for before Triton is imported: a process of its own.

Prints the error of each kernel for each geometry as JSON. The interpreter has no products of bfloat16: float16
stands in, for numbers of two bytes.
"""

import itertools
import json
import sys

import torch
from expected import GEOMETRIES, big_image, error, followed, numbers, small_image, weight_gradient
from torch import Tensor

from untwine.kernels.epilogue import Behind
from untwine.kernels.geometry import Geometry

MEMBERS, IMAGES = 2, 4


def rounded(kind: torch.dtype, *shape: int, seed: int) -> Tensor:
    """Numbers that a dtype can represent, in float64."""
    return numbers(*shape, seed=seed).to(kind).double()


def errors(g: Geometry, kind: torch.dtype) -> dict[str, float]:
    from untwine.kernels import triton_launch as launch

    big, small = (
        rounded(kind, MEMBERS, IMAGES, *size, seed=seed)
        for seed, size in enumerate([(g.hb, g.wb, g.cb), (g.hs, g.ws, g.cs)])
    )
    w = rounded(kind, MEMBERS, g.cs, g.cb, g.kernel, g.kernel, seed=2)
    mask = rounded(kind, MEMBERS, IMAGES, g.hs, g.ws, g.cs, seed=3).relu()[:, ::2]  # of every other image
    bias, few = (rounded(torch.float32, MEMBERS, count, seed=count) for count in (g.cb, g.cs))
    head = rounded(kind, MEMBERS, g.cb, 16, seed=4)
    low = [one.to(kind) for one in (big, small, w, mask, head)]
    one = slice(0, 1)
    laid_out = g.down_weight(low[2], kind)
    down, kept = launch.conv_down(low[0], laid_out, Behind(few.float(), relu=True, keep=True), g)
    masked = launch.conv_down(low[0], laid_out, Behind(mask=low[3]), g)[0]
    factor = torch.tensor([0.5, -3.0])
    more = launch.conv_down(low[0], laid_out, Behind(added=low[1], factor=factor), g)[0]
    shared = launch.conv_down(low[0][one].expand_as(low[0]), laid_out, Behind(), g)[0]
    up, _, taps = launch.conv_up(low[1], g.up_weight(low[2], kind), Behind(bias.float(), relu=True), g, low[4])
    turns = torch.arange(IMAGES) % 2
    a, other = rounded(kind, MEMBERS, 2, g.hb, g.wb, g.cb, seed=5), rounded(kind, MEMBERS, 1, g.hb, g.wb, g.cb, seed=6)
    product, both = big_image(small, w, g), (a[:, turns] > 0).double() - (other > 0).double()
    behind = Behind(mask=a.to(kind), difference=True)
    steps, moved, _ = launch.conv_up(low[1], g.up_weight(low[2], kind), behind, g)
    behind = Behind(mask=a.to(kind), other=other.to(kind), added=low[0])
    added, crossed, _ = launch.conv_up(low[1], g.up_weight(low[2], kind), behind, g)
    products = torch.einsum("snijc,sct->snijt", small, g.head_weight(w, torch.float64))
    weight = launch.weight_gradient(low[1], low[0], g)
    found = {
        "down": (down, followed(small_image(big, w, g), few, None, True)),
        "down, the input of the ReLU": (kept, followed(small_image(big, w, g), few, None, False)),
        "up, steps": (steps, (a[:, turns] + product).relu() - a[:, turns].relu()),
        "up, where steps end": (moved, (a[:, turns] + product > 0).double()),
        "up, masked, and added": (added, product * (a[:, turns] > 0) + big),
        "up, crossed": (crossed, product * both),
        "down, added with factors": (more, small_image(big, w, g) + factor.double()[:, None, None, None, None] * small),
        "down, masked": (masked, followed(small_image(big, w, g), None, mask, False)),
        "down, of one image for all": (shared, small_image(big[one].expand_as(big), w, g)),
        "up": (up, followed(big_image(small, w, g), bias, None, True)),
        "head": (taps, torch.einsum("snijc,sct->snijt", up.double(), head)),
        "weight": (launch.sum_parts(weight, g), weight_gradient(small, big, w, g)),
        "fold": (
            launch.fold(products.to(kind).contiguous(), bias.float(), g, True),
            followed(big_image(small, w, g), bias, None, False),
        ),
    }
    return {name: error(*pair) for name, pair in found.items()}


if __name__ == "__main__":
    kinds = {"float32": torch.float32, "float16": torch.float16}
    cases = itertools.product(GEOMETRIES.items(), kinds.items())
    json.dump({f"{name}, {precision}": errors(g, kind) for (name, g), (precision, kind) in cases}, sys.stdout)
