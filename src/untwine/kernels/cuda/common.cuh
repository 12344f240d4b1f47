// Convolutions of a pack on the tensor cores: 4x4 kernels of stride 2, bfloat16 in and out, float32 sums.
//
// Names are those of triton_kernels.py: a convolution connects a big image, channels innermost, with a small one by
// y = 2 i + ky - PAD. A block copies pixels to shared memory once, with the border that the kernel needs, and all taps
// read them there; each row of a matrix is a pixel, at any address. All sizes are macros:
//   HB WB CB, HS WS CS  height, width and channels of the big and of the small image
//   PAD                 padding
//   IM TI               images of a tile, and its rows of positions
//   RELU BIAS           what follows the product; for the gradient of weights RELU is what precedes the small image
//   MASK                1 for bits, 2 for the output or input of a ReLU; 3 for the input of one, which the product moves
//   OTHER               whether there is a second mask: 1 for bits, 2 for the output or input of a ReLU
//   ADDED               whether something is added in the end
//   FACTOR              whether that is multiplied by a number for each member
//   KEEP                whether the input of the ReLU is written, too; with HEAD it is written instead
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
