// Convolutions of a pack on the tensor cores: 4x4 kernels of stride 2, bfloat16 in and out, float32 sums.
//
// Names are those of triton_kernels.py: a convolution connects a big image, channels innermost, with a small one by
// y = 2 i + ky - PAD. A block copies pixels to shared memory once, with the border that the kernel needs, and all taps
// read them there; each row of a matrix is a pixel, at any address. All sizes are macros:
//   HB WB CB, HS WS CS  height, width and channels of the big and of the small image
//   PAD                 padding
//   IM TI               images of a tile, and its rows of positions
//   RELU BIAS           what follows the product
//   MASK                1 for bits, 2 for the output of a ReLU; 3 for the input of one, which the product moves
//   OTHER               whether there is a second mask: 1 for bits, 2 for the output of a ReLU
//   ADDED               whether something is added in the end
//   KEEP                whether the input of the ReLU is written, too
//   HEAD                whether the next layer is computed, too
//   OUT32               whether the output of the next layer is float32
//   SUMS                whether the channels of the output are summed
//   STAGES              1, or 2 to copy the next tile while this one is computed
//   THREADS SHARED      threads and bytes of shared memory of a block

typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;

#define DEV __device__ __forceinline__

#ifdef EMULATED  // the same functions on a CPU, for tests
#include "cuda_emulator.h"
#else
DEV u32 address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

DEV void copy16(u32 to, const void* from, bool ok) {
    int bytes = ok ? 16 : 0;  // the rest is filled with zeros
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

DEV void commit_copies() { asm volatile("cp.async.commit_group;"); }

template <int LATER> DEV void wait_copies() {  // all but the last LATER groups
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER));
    __syncthreads();
}

DEV void load_matrix(u32 r[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

DEV void load_transposed(u32 r[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

DEV void multiply_add(float c[4], const u32 a[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEV u32 pack(float low, float high) {
    u32 d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}

DEV u32 pick_bytes(u32 a, u32 selector) {  // bytes of a; where a selector is 8 or more, the sign of the byte
    u32 d;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(d) : "r"(a), "r"(selector));
    return d;
}

DEV float shuffle(float v, int lane) { return __shfl_sync(~0u, v, lane); }  // the value of another lane

DEV void store(u32 to, u32 v) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(v)); }

DEV void store(u32 to, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));
}
#endif

DEV float low(u32 d) { return __uint_as_float(d << 16); }
DEV float high(u32 d) { return __uint_as_float(d & 0xffff0000u); }

// The place of a chunk of 8 channels in its pixel, such that eight neighbours never share a bank.
template <int CHUNKS> DEV int swizzle(int chunk, int column) {
    return CHUNKS >= 8 ? chunk ^ (column & 7) : chunk ^ ((column >> 1) & (CHUNKS - 1));
}

// The number that a row of weights is swizzled by: neither neighbours nor rows in fragment order share banks.
DEV int swizzle_row(int row) { return row ^ row >> 2; }

// Copies rows of CHUNKS chunks from global memory.
template <int CHUNKS> DEV void load_rows(u32 to, const u16* from, int count) {
    for (int n = threadIdx.x; n < count * CHUNKS; n += blockDim.x) {
        int row = n / CHUNKS, chunk = n % CHUNKS;
        copy16(to + row * (CHUNKS * 16) + swizzle<CHUNKS>(chunk, swizzle_row(row)) * 16, from + (i64)n * 8, true);
    }
}

// Copies positions that are contiguous in memory, and zeros behind the last.
template <int CHUNKS, int COUNT> DEV void load_positions(u32 to, const u16* from, int there) {
#pragma unroll 4
    for (int n = threadIdx.x; n < COUNT * CHUNKS; n += blockDim.x) {
        int row = n / CHUNKS;
        bool ok = row < there;
        copy16(to + row * (CHUNKS * 16) + swizzle<CHUNKS>(n % CHUNKS, row) * 16, ok ? from + n * 8 : from, ok);
    }
}

// The addresses at which a lane reads weights, from row 0 or (odd) 16 on; the pattern repeats every 32 rows.
template <int CHUNKS> DEV void weight_addresses(u32 at[2][CHUNKS / 2], u32 weights) {
    int lane = threadIdx.x & 31;
    for (int odd = 0; odd < 2; odd++)
        for (int n = 0; n < CHUNKS / 2; n++)
            at[odd][n] = weights + (lane & 15) * (CHUNKS * 16) +
                         swizzle<CHUNKS>(n * 2 + (lane >> 4), swizzle_row(odd * 16 + (lane & 15))) * 16;
}

constexpr int G2H = (HB + 1) / 2, G2W = (WB + 1) / 2;  // positions of `conv_up`

// --- tiles of pixels --------------------------------------------------------------------------------

// Copies rows of pixels from global to shared memory. A thread keeps its place in a row, so that addresses only grow.
// Rows outside of the image become zeros; columns outside of it were set to zero by `clear`.
template <int ROWS, int LENGTH, int PITCH, int CHUNKS, int STEP> struct Loader {
    static constexpr int WIDE = LENGTH * CHUNKS, AT_ONCE = WIDE < STEP ? STEP / WIDE : 1;
    int row, place;
    DEV Loader() : row(WIDE < STEP ? threadIdx.x / WIDE : 0), place(WIDE < STEP ? threadIdx.x % WIDE : threadIdx.x) {}

    // `to(r, x, chunk)` is where a chunk goes; rows [first, last) are in the image, whose row 0 `from` points to.
    template <class To> DEV void operator()(To to, const u16* from, int first, int last) const {
        if (row >= AT_ONCE) return;
#pragma unroll 4
        for (int r = row; r < ROWS; r += AT_ONCE) {
            bool ok = r >= first && r < last;
            const u16* line = ok ? from + (i64)(r - first) * (PITCH * CHUNKS * 8) : from;
#pragma unroll
            for (int n = place; n < WIDE; n += STEP) copy16(to(r, n / CHUNKS, n % CHUNKS), line + n * 8, ok);
        }
    }
};

DEV void clear(u32 from, int bytes) {
    for (int n = threadIdx.x * 16; n < bytes; n += blockDim.x * 16)
        store(from + n, make_uint4(0, 0, 0, 0));
    __syncthreads();
}

// The big image under TI rows of small positions; even and odd columns are stored apart.
constexpr int BR = 2 * TI + 2, BC = WS + 1, SEEN = WB < 2 * BC - PAD ? WB : 2 * BC - PAD;
DEV int big_pixel(int im, int r, int x) { return ((im * BR + r) * 2 + (x & 1)) * BC + (x >> 1); }

template <int CHUNKS, int STEP> DEV void load_big(u32 to, const u16* from, int image, int images, int i0) {
    Loader<BR, SEEN, WB, CHUNKS, STEP> loader;
    for (int im = 0; im < IM; im++) {
        int first = PAD - 2 * i0, last = image + im < images ? HB + first : 0;
        const u16* row = from + ((i64)(image + im) * HB + (first < 0 ? -first : 0)) * (WB * CB);
        loader([&](int r, int x, int chunk) {
            return to + big_pixel(im, r, x + PAD) * (CHUNKS * 16) + swizzle<CHUNKS>(chunk, (x + PAD) >> 1) * 16;
        }, row, first > 0 ? first : 0, last);
    }
}

// The small image around TI rows of the positions of `conv_up`, with a border of one pixel, which rows share.
constexpr int SR = TI + 2, SC = (G2W + 1 > WS + 1 ? G2W + 1 : WS + 1), SMALL = ((IM * SR * SC + 1) * (CS * 2) + 127) / 128 * 128;
template <int CHUNKS, int STEP> DEV void load_small(u32 to, const u16* from, int image, int images, int i0) {
    Loader<SR, WS, WS, CHUNKS, STEP> loader;
    for (int im = 0; im < IM; im++) {
        int first = 1 - i0, last = image + im < images ? HS + first : 0;
        const u16* row = from + ((i64)(image + im) * HS + (first < 0 ? -first : 0)) * (WS * CS);
        loader([&](int r, int x, int chunk) {
            return to + ((im * SR + r) * SC + x + 1) * (CHUNKS * 16) + swizzle<CHUNKS>(chunk, x + 1) * 16;
        }, row, first > 0 ? first : 0, last);
    }
}

// --- what follows a product ---------------------------------------------------------------------------

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
DEV u32 as_bits(uint4 mask) { return nonzero_bits(mask); }

// The bits of a second mask.
DEV u32 load_other(const void* other, i64 at) {
#if OTHER == 2
    return nonzero_bits(*(const uint4*)((const u16*)other + at));
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
#if MASK == 2  // each half is zero or positive
    u32 w[4] = {v.x, v.y, v.z, v.w}, m[4] = {mask.x, mask.y, mask.z, mask.w};
    for (int q = 0; q < 4; q++) w[q] &= (((m[q] & 0x7fff7fffu) + 0x7fff7fffu) >> 15 & 0x10001u) * 0xffffu;
    v = make_uint4(w[0], w[1], w[2], w[3]);
#elif MASK
    v = only(v, mask);
#endif
    return v;
#endif
}

// Writes 8 channels of a row: the output; its bits after a ReLU, or its sums; and the input of the ReLU, or what crossed.
// Returns the output.
DEV uint4 conclude(
    const float c[4][4], int lower, const float* bias, Mask mask, u32 other, const u16* added, u16* out, void* summary,
    u16* extra, i64 at, bool there, float total[8]) {
    uint4 v = finish(c, lower, bias, mask);
    if (!there) return v;
#if ADDED
    uint4 more = *(const uint4*)(added + at);
    v = make_uint4(
        pack(low(v.x) + low(more.x), high(v.x) + high(more.x)), pack(low(v.y) + low(more.y), high(v.y) + high(more.y)),
        pack(low(v.z) + low(more.z), high(v.z) + high(more.z)), pack(low(v.w) + low(more.w), high(v.w) + high(more.w)));
#endif
    *(uint4*)(out + at) = v;
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

extern __shared__ __align__(128) unsigned char shared[];

// --- a big image of one channel -----------------------------------------------------------------------------

// Copies the image with a border of zeros; a pair of pixels that begins at an even column is a word.
constexpr int LR = 2 * TI + 2, LC = 2 * WS + 4, LINES = (LR * LC * 2 + 127) / 128 * 128;
template <int STEP> DEV void load_lines(u16* to, const u16* from, int number, int i0) {
    constexpr int WIDE = WB / 8, AT_ONCE = STEP / WIDE;
    int row = threadIdx.x / WIDE, x = threadIdx.x % WIDE * 8;
    for (int r = row; r < LR; r += AT_ONCE) {
        int y = 2 * i0 + r - PAD;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (y >= 0 && y < HB) v = *(const uint4*)(from + ((i64)number * HB + y) * WB + x);
        u16* at = to + r * LC + x + PAD;
        u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int n = 0; n < 8; n++)
            if (x + n + PAD < LC) at[n] = (u16)(w[n / 2] >> (n % 2 * 16));
    }
}
