"""Convolutions of a pack as matrix products, in Triton: every member has its own weights.

Images are `[members, images, height, width, channels]`, channels innermost. A convolution connects a big image
with a small one, `big[y, x] ~ small[i, j]` with `y = stride i + ky - padding`, by a weight for each (ky, kx):

- `conv_down` computes the small image from the big one: a convolution, or the gradient of a transposed one;
- `conv_up` computes the big one from the small one: a transposed convolution, or the gradient of a convolution;
- `weight_gradient` sums their products: the gradient of the weights.

The pixels of a row that one output needs are neighbours in memory, with their channels: runs of
`kernel * channels` numbers, so that matrix products are fed by long reads. The output of `conv_up` falls into
stride^2 phases, each of which is a small dense convolution (of kernel / stride taps a side).
What follows a product (bias, ReLU, masks: `epilogue.Behind`) is done before its result is written.
"""

from __future__ import annotations

from typing import no_type_check  # Triton reads functions as they are written: no checker may wrap them

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@no_type_check
@triton.jit
def _finish(
    acc, columns, bias, mask, mask_at, other, other_at, added, factor, at, valid,
    RELU: tl.constexpr, BIAS: tl.constexpr, MASK: tl.constexpr, OTHER: tl.constexpr, ADDED: tl.constexpr,
    FACTOR: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """An output after all that follows the product (`epilogue.Behind`), and the second result.

    The second result is what only the first of two masks lets through, minus what only the second does; with STEP a
    one where the input of the ReLU is positive after the step, else a zero; otherwise the input of the ReLU.
    """
    if BIAS:
        acc += bias[None, :]
    extra = acc
    if RELU:
        acc = tl.where(acc < 0.0, 0.0, acc)  # NaN stays NaN
    if MASK:
        relu = tl.load(mask + mask_at[:, None] + columns[None, :], mask=valid, other=0.0)
        if STEP:
            relu = relu.to(tl.float32)
            extra = tl.where(acc > -relu, 1.0, 0.0)
            acc = tl.where(acc < -relu, -relu, acc) + tl.where(relu < 0.0, relu, 0.0)
        else:
            acc = tl.where(relu > 0, acc, 0.0)
    if OTHER:
        second = tl.load(other + other_at[:, None] + columns[None, :], mask=valid, other=0.0)
        extra = acc - tl.where(second > 0, extra, 0.0)
    if ADDED:
        more = tl.load(added + at[:, None] + columns[None, :], mask=valid, other=0.0).to(tl.float32)
        acc += tl.load(factor) * more if FACTOR else more
    return acc, extra


@no_type_check
@triton.jit
def _patches(
    big, image, i, j, valid, k, HB: tl.constexpr, WB: tl.constexpr, CB: tl.constexpr,
    K: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
):  # fmt: skip
    """The numbers under the kernel at positions of the small image: rows of K runs of K * CB."""
    y = i[:, None] * STRIDE + (k // (K * CB))[None, :] - PAD
    run = (j * (STRIDE * CB) - PAD * CB)[:, None] + (k % (K * CB))[None, :]
    ok = valid[:, None] & (k < K * K * CB)[None, :] & (y >= 0) & (y < HB) & (run >= 0) & (run < WB * CB)
    return tl.load(big + (image.to(tl.int64)[:, None] * HB + y) * (WB * CB) + run, mask=ok, other=0.0)


@no_type_check
@triton.jit
def conv_down(
    big, weight, bias, mask, other, added, factor, out, extra, big_stride, images,
    masks, mask_member, mask_image, others, other_member, other_image,
    HB: tl.constexpr, WB: tl.constexpr, CB: tl.constexpr, HS: tl.constexpr, WS: tl.constexpr, CS: tl.constexpr,
    K: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
    RELU: tl.constexpr, BIAS: tl.constexpr, MASK: tl.constexpr, OTHER: tl.constexpr, ADDED: tl.constexpr,
    FACTOR: tl.constexpr, STEP: tl.constexpr, EXTRA: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, KW: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    valid = rows < images * HS * WS
    image, place = rows // (HS * WS), rows % (HS * WS)
    i, j = place // WS, place % WS
    columns = tl.arange(0, BN)
    big += member * big_stride
    weight += member * (K * K * CB * CS)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K * K * CB, KW):
        k = start + tl.arange(0, KW)
        a = _patches(big, image, i, j, valid, k, HB, WB, CB, K, STRIDE, PAD)
        b = tl.load(
            weight + k[:, None] * CS + columns[None, :],
            mask=(k < K * K * CB)[:, None] & (columns < CS)[None, :], other=0.0,
        )  # fmt: skip
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    bias_values = tl.load(bias + member * CS + columns, mask=columns < CS, other=0.0) if BIAS else columns
    ok = valid[:, None] & (columns < CS)[None, :]
    mask_at = member * mask_member + image % masks * mask_image + place * CS
    other_at = member * other_member + image % others * other_image + place * CS
    at = (member * images * (HS * WS) + rows) * CS
    acc, second = _finish(
        acc, columns, bias_values, mask, mask_at, other, other_at, added, factor + member, at, ok,
        RELU, BIAS, MASK, OTHER, ADDED, FACTOR, STEP,
    )  # fmt: skip
    tl.store(out + at[:, None] + columns[None, :], acc.to(out.dtype.element_ty), mask=ok)
    if EXTRA:
        tl.store(extra + at[:, None] + columns[None, :], second.to(out.dtype.element_ty), mask=ok)


@no_type_check
@triton.jit
def conv_up(
    small, weight, bias, mask, other, added, factor, head, out, extra, taps, small_stride, images,
    masks, mask_member, mask_image, others, other_member, other_image,
    HB: tl.constexpr, WB: tl.constexpr, CB: tl.constexpr, HS: tl.constexpr, WS: tl.constexpr, CS: tl.constexpr,
    T: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
    RELU: tl.constexpr, BIAS: tl.constexpr, MASK: tl.constexpr, OTHER: tl.constexpr, ADDED: tl.constexpr,
    FACTOR: tl.constexpr, STEP: tl.constexpr, EXTRA: tl.constexpr, HEAD: tl.constexpr,
    PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, KW: tl.constexpr, PHASES: tl.constexpr,
):  # fmt: skip
    H: tl.constexpr = (HB + STRIDE - 1) // STRIDE
    W: tl.constexpr = (WB + STRIDE - 1) // STRIDE
    GROUPS: tl.constexpr = STRIDE * STRIDE // PHASES
    member = tl.program_id(1).to(tl.int64)
    tile, group = tl.program_id(0) // GROUPS, tl.program_id(0) % GROUPS
    rows = tile * BM + tl.arange(0, BM)
    valid = rows < images * (H * W)
    image, place = rows // (H * W), rows % (H * W)
    i, j = place // W, place % W
    columns = tl.arange(0, BN)
    small += member * small_stride
    weight += member * (STRIDE * STRIDE * T * T * CS * CB)
    bias_values = tl.load(bias + member * CB + columns, mask=columns < CB, other=0.0) if BIAS else columns
    for within in range(PHASES):
        phase = group * PHASES + within
        py, px = phase // STRIDE, phase % STRIDE
        acc = tl.zeros((BM, BN), tl.float32)
        for piece in tl.static_range((T * T * CS + KW - 1) // KW):
            k = piece * KW + tl.arange(0, KW)
            y = (i + (py + PAD) // STRIDE)[:, None] - (k // (T * CS))[None, :]
            run = ((j + (px + PAD) // STRIDE - (T - 1)) * CS)[:, None] + (k % (T * CS))[None, :]
            ok = valid[:, None] & (k < T * T * CS)[None, :] & (y >= 0) & (y < HS) & (run >= 0) & (run < WS * CS)
            a = tl.load(small + (image.to(tl.int64)[:, None] * HS + y) * (WS * CS) + run, mask=ok, other=0.0)
            b = tl.load(
                weight + (phase * (T * T * CS) + k)[:, None] * CB + columns[None, :],
                mask=(k < T * T * CS)[:, None] & (columns < CB)[None, :], other=0.0,
            )  # fmt: skip
            acc = tl.dot(a, b, acc, input_precision=PRECISION)
        oy, ox = i * STRIDE + py, j * STRIDE + px
        fits = valid & (oy < HB) & (ox < WB)
        ok = fits[:, None] & (columns < CB)[None, :]
        pixel = oy * WB + ox
        mask_at = member * mask_member + image % masks * mask_image + pixel * CB
        other_at = member * other_member + image % others * other_image + pixel * CB
        pixels = (member * images + image) * (HB * WB) + pixel
        at = pixels * CB
        acc, second = _finish(
            acc, columns, bias_values, mask, mask_at, other, other_at, added, factor + member, at, ok,
            RELU, BIAS, MASK, OTHER, ADDED, FACTOR, STEP,
        )  # fmt: skip
        value = acc.to(small.dtype.element_ty)
        tl.store(out + at[:, None] + columns[None, :], value, mask=ok)
        if EXTRA:
            tl.store(extra + at[:, None] + columns[None, :], second.to(small.dtype.element_ty), mask=ok)
        if HEAD > 0:  # products with the next layer's weights, which `fold` sums
            t = tl.arange(0, HEAD)
            w = tl.load(
                head + (member * CB + columns)[:, None] * HEAD + t[None, :], mask=(columns < CB)[:, None], other=0.0
            )
            products = tl.dot(value, w, input_precision=PRECISION).to(taps.dtype.element_ty)
            tl.store(taps + (pixels * HEAD)[:, None] + t[None, :], products, mask=fits[:, None])


@no_type_check
@triton.jit
def weight_gradient(
    small, big, out, small_stride, big_stride, images, chunk,
    HB: tl.constexpr, WB: tl.constexpr, CB: tl.constexpr, HS: tl.constexpr, WS: tl.constexpr, CS: tl.constexpr,
    K: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, KW: tl.constexpr,
):  # fmt: skip
    """The sums over `chunk` positions each: `[parts, members, K * K * CB, CS]`."""
    GROUPS: tl.constexpr = (K * K * CB + KW - 1) // KW
    part, group = tl.program_id(0) // GROUPS, tl.program_id(0) % GROUPS
    member = tl.program_id(1).to(tl.int64)
    columns = tl.arange(0, BN)
    k = group * KW + tl.arange(0, KW)
    small += member * small_stride
    big += member * big_stride
    last = tl.minimum((part + 1) * chunk, images * (HS * WS))
    acc = tl.zeros((KW, BN), tl.float32)
    for start in range(part * chunk, last, BM):
        rows = start + tl.arange(0, BM)
        valid = rows < last
        image, place = rows // (HS * WS), rows % (HS * WS)
        a = _patches(big, image, place // WS, place % WS, valid, k, HB, WB, CB, K, STRIDE, PAD)
        b = tl.load(
            small + rows[:, None] * CS + columns[None, :], mask=valid[:, None] & (columns < CS)[None, :], other=0.0
        )
        acc = tl.dot(tl.trans(a), b, acc, input_precision=PRECISION)
    base = out + ((part * tl.num_programs(1) + member) * (K * K * CB) + k)[:, None] * CS + columns[None, :]
    tl.store(base, acc, mask=(k < K * K * CB)[:, None] & (columns < CS)[None, :])


@no_type_check
@triton.jit
def sum_parts(
    parts, out, count, CB: tl.constexpr, CS: tl.constexpr, KK: tl.constexpr,
    AT_ONCE: tl.constexpr, TAPS: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The sum of the parts of `weight_gradient`, in the layout of the weights: `[members, CS, CB, KK]`."""
    member, members = tl.program_id(1).to(tl.int64), tl.num_programs(1)
    c, tile = tl.program_id(0) % CB, tl.program_id(0) // CB
    part, tap = tl.arange(0, AT_ONCE), tile % ((KK + TAPS - 1) // TAPS) * TAPS + tl.arange(0, TAPS)
    columns = tile // ((KK + TAPS - 1) // TAPS) * BN + tl.arange(0, BN)
    inside = (tap < KK)[:, None] & (columns < CS)[None, :]
    place = ((member * KK + tap) * CB + c)[:, None] * CS + columns[None, :]
    acc = tl.zeros((AT_ONCE, TAPS, BN), tl.float32)
    for start in range(0, count, AT_ONCE):
        at = (start + part).to(tl.int64) * members * (KK * CB * CS)
        ok = ((start + part) < count)[:, None, None] & inside[None]
        acc += tl.load(parts + at[:, None, None] + place[None], mask=ok, other=0.0)
    to = ((member * CS + columns) * CB + c)[None, :] * KK + tap[:, None]
    tl.store(out + to, tl.sum(acc, 0), mask=inside)


@no_type_check
@triton.jit
def fold(
    taps, bias, out, images,
    HB: tl.constexpr, WB: tl.constexpr, CB: tl.constexpr, HS: tl.constexpr, WS: tl.constexpr, WIDE: tl.constexpr,
    K: tl.constexpr, T: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr, BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The last step of a `conv_up` whose products with all taps are known: `big[y, x]` is a sum of some of them."""
    image = tl.program_id(0).to(tl.int64)  # of all members
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    valid = at < HB * WB * CB
    c, x, y = at % CB, at // CB % WB, at // (CB * WB)
    taps += image * (HS * WS * WIDE)
    acc = tl.zeros((BLOCK,), tl.float32)
    for ty in tl.static_range(T):
        ky = (y + PAD) % STRIDE + STRIDE * ty
        i = (y + PAD) // STRIDE - ty
        for tx in tl.static_range(T):
            kx = (x + PAD) % STRIDE + STRIDE * tx
            j = (x + PAD) // STRIDE - tx
            ok = valid & (ky < K) & (kx < K) & (i >= 0) & (i < HS) & (j >= 0) & (j < WS)
            acc += tl.load(taps + (i * WS + j) * WIDE + (ky * K + kx) * CB + c, mask=ok, other=0.0).to(tl.float32)
    if BIAS:
        acc += tl.load(bias + image // images * CB + c, mask=valid, other=0.0)
    tl.store(out + image * (HB * WB * CB) + at, acc.to(out.dtype.element_ty), mask=valid)
