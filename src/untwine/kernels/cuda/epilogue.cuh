// What follows a product, before its result is written (`epilogue.Behind`).

// The columns of the weights are in fragment order: the 8 numbers of a row that a thread computes, 2 in each of 4
// fragments, are 8 neighbouring channels. Column 8 q + 2 t + e is channel 8 t + 2 q + e (of 32).

// A mask has a bit for each channel, so a byte for the 8 channels of a thread; or it is the output (or input) of a ReLU.
#if MASK >= 2
typedef uint4 Mask;
DEV Mask load_mask(const void* mask, i64 at) { return *(const uint4*)((const u16*)mask + at); }
#else
typedef u32 Mask;
DEV Mask load_mask(const void* mask, i64 at) { return ((const unsigned char*)mask)[at / 8]; }
#endif

// A bit for each of 8 numbers, none of them negative, that is not zero.
DEV u32 nonzero_bits(uint4 v) {
    u32 w[4] = {v.x, v.y, v.z, v.w}, bits = 0;
    for (int q = 0; q < 4; q++) {
        u32 some = ((w[q] & 0x7fff7fffu) + 0x7fff7fffu) >> 15 & 0x10001u;
        bits |= (some | some >> 15) << 2 * q & 3u << 2 * q;
    }
    return bits;
}

// A bit for each of 8 numbers that is positive.
DEV u32 positive_bits(uint4 v) {
    u32 w[4] = {v.x, v.y, v.z, v.w}, bits = 0;
    for (int q = 0; q < 4; q++) bits |= (u32)(low(w[q]) > 0.f) << 2 * q | (u32)(high(w[q]) > 0.f) << (2 * q + 1);
    return bits;
}

DEV u32 as_bits(u32 mask) { return mask; }
DEV u32 as_bits(uint4 mask) { return positive_bits(mask); }

// The bits of a second mask.
DEV u32 load_other(const void* other, i64 at) {
#if OTHER == 2
    return positive_bits(*(const uint4*)((const u16*)other + at));
#else
    return ((const unsigned char*)other)[at / 8];
#endif
}

// 8 channels of a row (the upper or lower one of the fragments), with their bias, as bfloat16; perhaps after a ReLU.
template <bool RECTIFIED = false> DEV uint4 packed(const float c[4][4], int lower, const float* bias) {
    u32 v[4];
    for (int q = 0; q < 4; q++) {
        float a = c[q][2 * lower], b = c[q][2 * lower + 1];
#if BIAS
        a += bias[2 * q];
        b += bias[2 * q + 1];
#endif
        if (RECTIFIED) {
            a = a < 0.f ? 0.f : a;  // NaN stays NaN
            b = b < 0.f ? 0.f : b;
        }
        v[q] = pack(a, b);
    }
    return make_uint4(v[0], v[1], v[2], v[3]);
}

// A pair of bfloat16 after a ReLU.
DEV u32 rectified(u32 v) { return v & ~((v >> 15 & 0x10001u) * 0xffffu); }

// The numbers whose bit is set, and zeros.
DEV uint4 only(uint4 v, u32 bits) {
    u32 w[4] = {v.x, v.y, v.z, v.w};
    for (int half = 0; half < 2; half++) {  // four bits as the signs of four bytes, and these as two words
        u32 four = (bits >> 4 * half & 15) * 0x10204080u & 0x80808080u;
        w[2 * half] &= pick_bytes(four, 0x9988);
        w[2 * half + 1] &= pick_bytes(four, 0xbbaa);
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

// The numbers that only the first mask lets through, and minus those that only the second does.
DEV uint4 crossed(uint4 v, u32 bits, u32 other) {
    uint4 some = only(v, bits ^ other), sign = only(make_uint4(0x80008000u, 0x80008000u, 0x80008000u, 0x80008000u), other & ~bits);
    return make_uint4(some.x ^ sign.x, some.y ^ sign.y, some.z ^ sign.z, some.w ^ sign.w);
}

// What a ReLU makes of steps of its input: 8 channels as bfloat16.
DEV uint4 moved(const float c[4][4], int lower, uint4 inputs) {
    u32 from[4] = {inputs.x, inputs.y, inputs.z, inputs.w}, v[4];
    for (int q = 0; q < 4; q++) {
        float a = low(from[q]), b = high(from[q]), x = c[q][2 * lower], y = c[q][2 * lower + 1];
        v[q] = pack((x < -a ? -a : x) + (a < 0.f ? a : 0.f), (y < -b ? -b : y) + (b < 0.f ? b : 0.f));  // NaN stays NaN
    }
    return make_uint4(v[0], v[1], v[2], v[3]);
}

// A bit for each of 8 inputs of a ReLU that is positive after the step.
DEV u32 moved_bits(const float c[4][4], int lower, uint4 inputs) {
    u32 from[4] = {inputs.x, inputs.y, inputs.z, inputs.w}, bits = 0;
    for (int q = 0; q < 4; q++)
        bits |= (u32)(c[q][2 * lower] > -low(from[q])) << 2 * q | (u32)(c[q][2 * lower + 1] > -high(from[q])) << (2 * q + 1);
    return bits;
}

// Applies bias, ReLU and mask to 8 channels of a row, as bfloat16.
DEV uint4 finish(const float c[4][4], int lower, const float* bias, Mask mask) {
#if MASK == 3
    return moved(c, lower, mask);
#else
    uint4 v = packed<RELU>(c, lower, bias);
#if MASK == 2
    u32 w[4] = {v.x, v.y, v.z, v.w}, m[4] = {mask.x, mask.y, mask.z, mask.w};
    for (int q = 0; q < 4; q++) w[q] &= (((m[q] & 0x7fff7fffu) + 0x7fff7fffu) >> 15 & ~(m[q] >> 15) & 0x10001u) * 0xffffu;
    v = make_uint4(w[0], w[1], w[2], w[3]);
#elif MASK
    v = only(v, mask);
#endif
    return v;
#endif
}

// Pairs of bfloat16: v + factor * more.
DEV u32 sum(u32 v, float factor, u32 more) {
    return pack(low(v) + factor * low(more), high(v) + factor * high(more));
}

// Writes 8 channels of a row: the output; its bits after a ReLU, or its sums; and the input of the ReLU, or what crossed.
// Returns the output.
DEV uint4 conclude(
    const float c[4][4], int lower, const float* bias, Mask mask, u32 other, const u16* added, float factor, u16* out,
    void* summary, u16* extra, i64 at, bool there, float total[8]) {
    uint4 v = finish(c, lower, bias, mask);
    if (!there) return v;
#if ADDED
    uint4 more = *(const uint4*)(added + at);
    v = make_uint4(sum(v.x, factor, more.x), sum(v.y, factor, more.y), sum(v.z, factor, more.z), sum(v.w, factor, more.w));
#endif
#if !(KEEP && HEAD)  // with the next layer nobody reads what the ReLU's input gives
    *(uint4*)(out + at) = v;
#endif
#if KEEP
    *(uint4*)(extra + at) = packed(c, lower, bias);
#elif OTHER
    *(uint4*)(extra + at) = crossed(packed(c, lower, bias), as_bits(mask), other);
#endif
#if RELU
    ((unsigned char*)summary)[at / 8] = (unsigned char)nonzero_bits(v);
#elif MASK == 3
    ((unsigned char*)summary)[at / 8] = (unsigned char)moved_bits(c, lower, mask);
#elif SUMS
    u32 w[4] = {v.x, v.y, v.z, v.w};
    for (int q = 0; q < 4; q++) {
        total[2 * q] += low(w[q]);
        total[2 * q + 1] += high(w[q]);
    }
#endif
    return v;
}

// Writes the sums of a warp: [members, parts, channels], a part for each warp of a block.
template <int GROUPS> DEV void write_sums(void* summary, float total[GROUPS][8]) {
#if SUMS
    int lane = threadIdx.x & 31, warps = blockDim.x / 32;
    int part = (blockIdx.y * gridDim.x + blockIdx.x) * warps + (threadIdx.x >> 5);
    float* to = (float*)summary + (i64)part * (GROUPS * 32) + (lane & 3) * 8;
    for (int n = 0; n < GROUPS; n++)
        for (int e = 0; e < 8; e++) {
            float sum = total[n][e];
            for (int distance = 4; distance < 32; distance *= 2) sum += shuffle(sum, lane ^ distance);
            if (lane < 4) to[n * 32 + e] = sum;
        }
#endif
}
