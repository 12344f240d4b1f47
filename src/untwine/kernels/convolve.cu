// Convolutions of a pack on the tensor cores: 4x4 kernels of stride 2, bfloat16 in and out, float32 sums.
//
// Names are those of tiles.py: a big image, channels innermost, is tied to a small one by
// y = 2 i + ky - PAD. Pixels are brought to shared memory once, with the border that the kernel needs, and
// every tap reads them there; a row of a matrix is a pixel, at whatever address it has. All sizes are macros:
//   HB WB CB, HS WS CS  the images        PAD            padding
//   IM TI               images, and rows of the grid of positions, of a tile
//   RELU BIAS MASK HEAD what follows      OUT32          whether the folded output is float32
//   STAGES              1, or 2: the next tile comes while this one is worked on

typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;

#define DEV __device__ __forceinline__

DEV u32 address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

DEV void copy16(u32 to, const void* from, bool ok) {
    int bytes = ok ? 16 : 0;  // the rest is filled with zeros
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

DEV void sent() { asm volatile("cp.async.commit_group;"); }

template <int LATER> DEV void arrived() {  // all but the last groups that were sent
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER));
    __syncthreads();
}

DEV void matrix(u32 r[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

DEV void transposed(u32 r[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

DEV void multiply(float c[4], const u32 a[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEV u32 packed(float low, float high) {
    u32 d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}

DEV float low(u32 d) { return __uint_as_float(d << 16); }
DEV float high(u32 d) { return __uint_as_float(d & 0xffff0000u); }

// Where a chunk of 8 channels lies in its pixel, so that eight neighbours never share a bank.
template <int CHUNKS> DEV int swizzled(int chunk, int column) {
    return CHUNKS >= 8 ? chunk ^ (column & 7) : chunk ^ ((column >> 1) & (CHUNKS - 1));
}

// What the rows of weights are swizzled by: neither rows side by side nor those of `mixed` columns share banks.
DEV int spread(int row) { return row ^ row >> 2; }

// Rows of `chunks` chunks from global memory.
template <int CHUNKS> DEV void rows_in(u32 to, const u16* from, int count) {
    for (int n = threadIdx.x; n < count * CHUNKS; n += blockDim.x) {
        int row = n / CHUNKS, chunk = n % CHUNKS;
        copy16(to + row * (CHUNKS * 16) + swizzled<CHUNKS>(chunk, spread(row)) * 16, from + (i64)n * 8, true);
    }
}

// Positions that follow each other in memory, and zeros behind the last.
template <int CHUNKS, int COUNT> DEV void positions_in(u32 to, const u16* from, int there) {
#pragma unroll 4
    for (int n = threadIdx.x; n < COUNT * CHUNKS; n += blockDim.x) {
        int row = n / CHUNKS;
        bool ok = row < there;
        copy16(to + row * (CHUNKS * 16) + swizzled<CHUNKS>(n % CHUNKS, row) * 16, ok ? from + n * 8 : from, ok);
    }
}

constexpr int G2H = (HB + 1) / 2, G2W = (WB + 1) / 2;  // positions of `up`

// --- tiles of pixels --------------------------------------------------------------------------------

// Rows of pixels from global to shared memory. A thread keeps its place in a row, so that addresses only grow;
// rows outside of the image become zeros, columns outside of it are zeros from the start (`cleared`).
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

DEV void cleared(u32 from, int bytes) {
    for (int n = threadIdx.x * 16; n < bytes; n += blockDim.x * 16)
        asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(from + n), "r"(0));
    __syncthreads();
}

// The big image under TI rows of small positions: even and odd columns apart.
constexpr int BR = 2 * TI + 2, BC = WS + 1, SEEN = WB < 2 * BC - PAD ? WB : 2 * BC - PAD;
DEV int big_pixel(int im, int r, int x) { return ((im * BR + r) * 2 + (x & 1)) * BC + (x >> 1); }

template <int CHUNKS, int STEP> DEV void big_in(u32 to, const u16* from, int image, int images, int i0) {
    Loader<BR, SEEN, WB, CHUNKS, STEP> loader;
    for (int im = 0; im < IM; im++) {
        int first = PAD - 2 * i0, last = image + im < images ? HB + first : 0;
        const u16* row = from + ((i64)(image + im) * HB + (first < 0 ? -first : 0)) * (WB * CB);
        loader([&](int r, int x, int chunk) {
            return to + big_pixel(im, r, x + PAD) * (CHUNKS * 16) + swizzled<CHUNKS>(chunk, (x + PAD) >> 1) * 16;
        }, row, first > 0 ? first : 0, last);
    }
}

// The small image around TI rows of the positions of `up`, with a border of one.
constexpr int SR = TI + 2, SC = (G2W + 2 > WS + 1 ? G2W + 2 : WS + 1);
template <int CHUNKS, int STEP> DEV void small_in(u32 to, const u16* from, int image, int images, int i0) {
    Loader<SR, WS, WS, CHUNKS, STEP> loader;
    for (int im = 0; im < IM; im++) {
        int first = 1 - i0, last = image + im < images ? HS + first : 0;
        const u16* row = from + ((i64)(image + im) * HS + (first < 0 ? -first : 0)) * (WS * CS);
        loader([&](int r, int x, int chunk) {
            return to + ((im * SR + r) * SC + x + 1) * (CHUNKS * 16) + swizzled<CHUNKS>(chunk, x + 1) * 16;
        }, row, first > 0 ? first : 0, last);
    }
}

// --- what follows a product ---------------------------------------------------------------------------

// The columns of the weights come in an order such that the 8 numbers of a row that a thread ends up with, 2 in
// each of 4 fragments, are 8 channels side by side: column 8 q + 2 t + e is channel 8 t + 2 q + e (of 32).

// A mask has a bit for each channel, so a byte for the 8 of a thread; or it is the output of a ReLU itself.
#if MASK == 2
typedef uint4 Mask;
DEV Mask masked(const void* mask, i64 at) { return *(const uint4*)((const u16*)mask + at); }
#else
typedef u32 Mask;
DEV Mask masked(const void* mask, i64 at) { return ((const unsigned char*)mask)[at / 8]; }
#endif

// Bias, ReLU and mask on 8 channels of a row (the upper or lower one of the fragments), as bfloat16.
DEV uint4 finished(float c[4][4], int lower, const float* bias, Mask mask) {
    u32 v[4];
    for (int q = 0; q < 4; q++) {
        float a = c[q][2 * lower], b = c[q][2 * lower + 1];
#if BIAS
        a += bias[2 * q];
        b += bias[2 * q + 1];
#endif
#if RELU
        a = fmaxf(a, 0.f);
        b = fmaxf(b, 0.f);
#endif
        v[q] = packed(a, b);
    }
#if MASK == 2  // a half is zero, or positive
    u32 m[4] = {mask.x, mask.y, mask.z, mask.w};
    for (int q = 0; q < 4; q++) v[q] &= (((m[q] & 0x7fff7fffu) + 0x7fff7fffu) >> 15 & 0x10001u) * 0xffffu;
#elif MASK
    for (int q = 0; q < 4; q++) v[q] &= (mask >> 2 * q & 1) * 0xffffu + (mask >> 2 * q & 2) * 0x7fff8000u;
#endif
    return make_uint4(v[0], v[1], v[2], v[3]);
}

// Which of 8 numbers, none of them negative, are not zero.
DEV unsigned char signs(uint4 v) {
    u32 w[4] = {v.x, v.y, v.z, v.w}, bits = 0;
    for (int q = 0; q < 4; q++) {
        u32 some = ((w[q] & 0x7fff7fffu) + 0x7fff7fffu) >> 15 & 0x10001u;
        bits |= (some | some >> 15) << 2 * q & 3u << 2 * q;
    }
    return (unsigned char)bits;
}

DEV void written(u16* out, unsigned char* bits, i64 at, uint4 v) {
    *(uint4*)(out + at) = v;
#if RELU
    bits[at / 8] = signs(v);
#endif
}

extern __shared__ __align__(128) unsigned char shared[];

// --- down: [members, images, HS, WS, CS] ----------------------------------------------------------------

#ifdef DOWN
constexpr int WARPS = THREADS / 32, P = IM * TI * WS, TILES = (P + 15) / 16, MT = (TILES + WARPS - 1) / WARPS;
constexpr int NT = CS / 8, CH = CB / 8, WCH = CS / 8, BANDS = (HS + TI - 1) / TI, TILE = IM * BR * 2 * BC * (CB * 2);

extern "C" __global__ void __launch_bounds__(THREADS) down(
    const u16* __restrict__ big, const u16* __restrict__ weight, const float* __restrict__ bias,
    const void* __restrict__ mask, u16* __restrict__ out, unsigned char* __restrict__ bits,
    i64 big_stride, int images, int masks, i64 mask_member, i64 mask_image) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 pixels = address(shared), weights = pixels + TILE;
    rows_in<WCH>(weights, weight + (i64)member * 16 * CB * CS, 16 * CB);
    cleared(pixels, TILE);
    big += member * big_stride;
    if (BIAS) bias += member * CS + (lane & 3) * 8;
    int count = (images + IM - 1) / IM * BANDS;
    u32 base[MT];
    int key[MT];
    for (int m = 0; m < MT; m++) {
        int p = (warp * MT + m) * 16 + (lane & 15);
        p = p < P ? p : 0;
        int im = p / (TI * WS), i = p / WS % TI, j = p % WS;
        base[m] = pixels + big_pixel(im, 2 * i, 2 * j) * (CB * 2);
        key[m] = j;
    }
    for (int tile = blockIdx.x; tile < count; tile += gridDim.x) {
        int image = tile / BANDS * IM, i0 = tile % BANDS * TI;
        __syncthreads();
        big_in<CH, THREADS>(pixels, big, image, images, i0);
        // Positions of a tile follow each other in memory.
        int there = BANDS > 1 ? (HS - i0) * WS : (images - image) * (HS * WS);
        Mask kept[MT][2][NT / 4] = {};
#if MASK
#pragma unroll
        for (int m = 0; m < MT; m++)
            for (int e = 0; e < 2; e++) {
                int p = (warp * MT + m) * 16 + (lane >> 2) + 8 * e;
                p = p < P && p < there ? p : 0;
                int number = IM > 1 ? image + p / (TI * WS) : image, place = IM > 1 ? p % (TI * WS) : i0 * WS + p;
                i64 at = member * mask_member + (number % masks) * mask_image + (i64)place * CS + (lane & 3) * 8;
                for (int n = 0; n < NT / 4; n++) kept[m][e][n] = masked(mask, at + n * 32);
            }
#endif
        sent();
        arrived<0>();
        float c[MT][NT][4] = {};
#pragma unroll 1
        for (int ky = 0; ky < 4; ky++) {
#pragma unroll
            for (int kx = 0; kx < 4; kx++) {
                int off = ((ky * 2 + (kx & 1)) * BC + (kx >> 1)) * (CB * 2);
#pragma unroll
                for (int kc = 0; kc < CB / 16; kc++) {
                    u32 a[MT][4], b[4];
#pragma unroll
                    for (int m = 0; m < MT; m++)
                        matrix(a[m], base[m] + off + swizzled<CH>(kc * 2 + (lane >> 4), key[m] + (kx >> 1)) * 16);
                    int row = ((ky * 4 + kx) * CB + kc * 16) + (lane & 15);
#pragma unroll
                    for (int n = 0; n < NT / 2; n++) {
                        transposed(b, weights + row * (CS * 2) + swizzled<WCH>(n * 2 + (lane >> 4), spread(row)) * 16);
#pragma unroll
                        for (int m = 0; m < MT; m++) {
                            multiply(c[m][2 * n], a[m], b[0], b[1]);
                            multiply(c[m][2 * n + 1], a[m], b[2], b[3]);
                        }
                    }
                }
            }
        }
        i64 first = (((i64)member * images + image) * (HS * WS) + i0 * WS) * CS + (lane & 3) * 8;
#pragma unroll
        for (int m = 0; m < MT; m++)
            for (int e = 0; e < 2; e++) {
                int p = (warp * MT + m) * 16 + (lane >> 2) + 8 * e;
                for (int n = 0; n < NT / 4; n++) {
                    uint4 v = finished(c[m] + n * 4, e, bias + n * 32, kept[m][e][n]);
                    if (p < P && p < there) written(out, bits, first + p * CS + n * 32, v);
                }
            }
    }
}
#endif

// --- up: [members, images, HB, WB, CB], and, folded, the next layer's output of one channel ------------------

#ifdef UP
constexpr int WARPS = THREADS / 32, P = IM * TI * G2W, TILES = (P + 15) / 16, MT = (TILES + WARPS - 1) / WARPS;
constexpr int NT = CB / 8, CH = CS / 8, WCH = CB / 8, BANDS = (G2H + TI - 1) / TI, TILE = IM * SR * SC * (CS * 2);
constexpr int WORDS = 9;  // that a pixel's 16 taps take: 8, and one to spread the banks

extern "C" __global__ void __launch_bounds__(THREADS) up(
    const u16* __restrict__ small, const u16* __restrict__ weight, const float* __restrict__ bias,
    const void* __restrict__ mask, const u16* __restrict__ head, const float* __restrict__ head_bias,
    u16* __restrict__ out, unsigned char* __restrict__ bits, void* __restrict__ folded, i64 small_stride, int images, int masks, i64 mask_member, i64 mask_image) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 pixels = address(shared), weights = pixels + STAGES * TILE;
    rows_in<WCH>(weights, weight + (i64)member * 16 * CS * CB, 16 * CS);
    cleared(pixels, STAGES * TILE);
#if HEAD
    u32* taps = (u32*)(shared + STAGES * TILE + 16 * CS * CB * 2);
    u32 h[CB / 16][2][2];  // the head's weights: channels by taps
    for (int s = 0; s < CB / 16; s++)
        for (int n = 0; n < 2; n++)
            for (int r = 0; r < 2; r++) {
                const u16* at = head + ((i64)member * CB + (lane & 3) * 8 + 2 * (2 * s + r)) * 16 + n * 8 + (lane >> 2);
                h[s][n][r] = (u32)at[0] | (u32)at[16] << 16;
            }
#endif
    small += member * small_stride;
    if (BIAS) bias += member * CB + (lane & 3) * 8;
    int count = (images + IM - 1) / IM * BANDS;
    u32 base[MT];
    int key[MT];
    for (int m = 0; m < MT; m++) {
        int p = (warp * MT + m) * 16 + (lane & 15);
        p = p < P ? p : 0;
        int im = p / (TI * G2W), i = p / G2W % TI, j = p % G2W;
        base[m] = pixels + ((im * SR + i) * SC + j) * (CS * 2);
        key[m] = j;
    }
    int corner[MT][2];  // of the four pixels at a position, or far outside
    for (int m = 0; m < MT; m++)
        for (int e = 0; e < 2; e++) {
            int p = (warp * MT + m) * 16 + (lane >> 2) + 8 * e;
            int i = p / G2W % TI, j = p % G2W;
            corner[m][e] = p < P ? (p / (TI * G2W)) * (HB * WB) + 2 * i * WB + 2 * j : 1 << 29;
        }
    if (STAGES == 2) {
        small_in<CH, THREADS>(pixels, small, blockIdx.x / BANDS * IM, images, blockIdx.x % BANDS * TI);
        sent();
    }
    for (int tile = blockIdx.x, turn = 0; tile < count; tile += gridDim.x, turn ^= 1) {
        int image = tile / BANDS * IM, i0 = tile % BANDS * TI;
        if (STAGES == 1) __syncthreads();
        int next = STAGES == 1 ? tile : tile + gridDim.x;
        if (next < count)
            small_in<CH, THREADS>(
                pixels + (STAGES == 1 ? 0 : turn ^ 1) * TILE, small, next / BANDS * IM, images, next % BANDS * TI);
        sent();
        arrived<STAGES - 1>();
        u32 shift = STAGES == 1 ? 0 : turn * TILE;
        int end = BANDS > 1 ? HB * WB : (images - image < IM ? images - image : IM) * (HB * WB);
#pragma unroll 1
        for (int phase = 0; phase < 4; phase++) {
            int py = phase >> 1, px = phase & 1;
            int oy = (py + PAD) / 2 + 1, ox = (px + PAD) / 2;  // of the first row and, from the left, column of taps
            int pixel[MT][2];
            Mask kept[MT][2][NT / 4] = {};
#pragma unroll
            for (int m = 0; m < MT; m++)
                for (int e = 0; e < 2; e++) {
                    int at = corner[m][e] + (2 * i0 + py) * WB + px;
                    bool ok = at < end;
                    if (HB % 2) ok = ok && corner[m][e] / WB % HB + py + 2 * i0 < HB;
                    if (WB % 2) ok = ok && corner[m][e] % WB + px < WB;
                    pixel[m][e] = ok ? at : -1;
#if MASK
                    int number = ok && IM > 1 ? at / (HB * WB) : 0, place = ok ? (IM > 1 ? at % (HB * WB) : at) : 0;
                    i64 from = member * mask_member + ((image + number) % masks) * mask_image + (i64)place * CB + (lane & 3) * 8;
                    for (int n = 0; n < NT / 4; n++) kept[m][e][n] = masked(mask, from + n * 32);
#endif
                }
            float c[MT][NT][4] = {};
#pragma unroll
            for (int tap = 0; tap < 4; tap++) {
                int dy = oy - (tap >> 1), dx = ox + (tap & 1);
                u32 off = shift + (dy * SC + dx) * (CS * 2);
#pragma unroll
                for (int kc = 0; kc < CS / 16; kc++) {
                    u32 a[MT][4], b[4];
#pragma unroll
                    for (int m = 0; m < MT; m++)
                        matrix(a[m], base[m] + off + swizzled<CH>(kc * 2 + (lane >> 4), key[m] + dx) * 16);
                    int row = (phase * 4 + tap) * CS + kc * 16 + (lane & 15);
#pragma unroll
                    for (int n = 0; n < NT / 2; n++) {
                        transposed(b, weights + row * (CB * 2) + swizzled<WCH>(n * 2 + (lane >> 4), spread(row)) * 16);
#pragma unroll
                        for (int m = 0; m < MT; m++) {
                            multiply(c[m][2 * n], a[m], b[0], b[1]);
                            multiply(c[m][2 * n + 1], a[m], b[2], b[3]);
                        }
                    }
                }
            }
            i64 first = ((i64)member * images + image) * (HB * WB * CB) + (lane & 3) * 8;
#pragma unroll
            for (int m = 0; m < MT; m++) {
                uint4 v[2][NT / 4];
                for (int e = 0; e < 2; e++)
                    for (int n = 0; n < NT / 4; n++) {
                        v[e][n] = finished(c[m] + n * 4, e, bias + n * 32, kept[m][e][n]);
                        if (pixel[m][e] >= 0) written(out, bits, first + pixel[m][e] * CB + n * 32, v[e][n]);
                    }
#if HEAD
                float t[2][4] = {};
                u32 a[2][4] = {{v[0][0].x, v[1][0].x, v[0][0].y, v[1][0].y}, {v[0][0].z, v[1][0].z, v[0][0].w, v[1][0].w}};
                for (int s = 0; s < 2; s++)
                    for (int n = 0; n < 2; n++) multiply(t[n], a[s], h[s][n][0], h[s][n][1]);
                for (int e = 0; e < 2; e++)
                    if (pixel[m][e] >= 0)
                        for (int n = 0; n < 2; n++)
                            taps[pixel[m][e] * WORDS + n * 4 + (lane & 3)] = packed(t[n][2 * e], t[n][2 * e + 1]);
#endif
            }
        }
#if HEAD  // a tile is an image: pixels 2 v - 1 and 2 v of a row take pairs of taps at v and v - 1
        __syncthreads();
        float added = head_bias ? head_bias[member] : 0.f;
        i64 first = ((i64)member * images + image) * (4 * HB * WB);
        for (int n = threadIdx.x; n < 2 * HB * (WB + 1); n += blockDim.x) {
            int v = n % (WB + 1), y = n / (WB + 1);
            float odd = added, even = added;
#pragma unroll
            for (int ty = 0; ty < 2; ty++) {
                int i = (y + 1) / 2 - ty, ky = (y + 1) % 2 + 2 * ty;
#pragma unroll
                for (int tx = 0; tx < 2; tx++) {
                    int j = v - tx;
                    if (i >= 0 && i < HB && j >= 0 && j < WB) {
                        u32 pair = taps[(i * WB + j) * WORDS + ky * 2 + tx];
                        odd += low(pair);
                        even += high(pair);
                    }
                }
            }
            i64 at = first + (i64)y * (2 * WB) + 2 * v;
#if OUT32
            if (v > 0) ((float*)folded)[at - 1] = odd;
            if (v < WB) ((float*)folded)[at] = even;
#else
            u32 both = packed(odd, even);
            if (v > 0) ((u16*)folded)[at - 1] = (u16)both;
            if (v < WB) ((u16*)folded)[at] = (u16)(both >> 16);
#endif
        }
#endif
        if (STAGES == 2) __syncthreads();  // the next turn fills what was read here
    }
}
#endif

// --- weight: [parts, members, 16 * CB, CS] in float32 ------------------------------------------------------

#ifdef WEIGHT
constexpr int P = IM * TI * WS, STEPS = (P + 15) / 16, NT = CS / 8, MT = CB / 8;  // two taps of CB channels a warp
constexpr int CH = CB / 8, SCH = CS / 8, BANDS = (HS + TI - 1) / TI, BIG = IM * BR * 2 * BC * (CB * 2), TILE = BIG + STEPS * 16 * CS * 2;

extern "C" __global__ void __launch_bounds__(256, CS == 32 ? 2 : 1) weight(
    const u16* __restrict__ small, const u16* __restrict__ big, float* __restrict__ out, i64 small_stride, i64 big_stride, int images) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 start = address(shared);
    cleared(start, STAGES * TILE);
    small += member * small_stride;
    big += member * big_stride;
    int count = (images + IM - 1) / IM * BANDS;
    int ky = warp >> 1, dx = warp & 1;  // taps 2 dx and 2 dx + 1: an even and an odd column
    auto load = [&](int tile, u32 to) {
        int image = tile / BANDS * IM, i0 = tile % BANDS * TI;
        big_in<CH, 256>(to, big, image, images, i0);
        int there = BANDS > 1 ? (HS - i0) * WS : (images - image) * (HS * WS);
        positions_in<SCH, STEPS * 16>(to + BIG, small + ((i64)image * HS + i0) * (WS * CS), there < P ? there : P);
    };
    float c[MT][NT][4] = {};
    if (STAGES == 2) {
        load(blockIdx.x, start);
        sent();
    }
    for (int tile = blockIdx.x, turn = 0; tile < count; tile += gridDim.x, turn ^= 1) {
        __syncthreads();
        int next = STAGES == 1 ? tile : tile + gridDim.x;
        if (next < count) load(next, start + (STAGES == 1 ? 0 : turn ^ 1) * TILE);
        sent();
        arrived<STAGES - 1>();
        u32 pixels = start + (STAGES == 1 ? 0 : turn) * TILE, smalls = pixels + BIG;
#pragma unroll 1
        for (int step = 0; step < STEPS; step++) {
            u32 b[NT / 2][4];
            int row = step * 16 + (lane & 15);
#pragma unroll
            for (int n = 0; n < NT / 2; n++)
                transposed(b[n], smalls + row * (CS * 2) + swizzled<SCH>(n * 2 + (lane >> 4), row) * 16);
            int p = step * 16 + (lane & 7) + 8 * (lane >> 4);
            p = p < P ? p : 0;
            int im = p / (TI * WS), i = p / WS % TI, j = p % WS;
#pragma unroll
            for (int m = 0; m < MT; m++) {  // 16 channels of a tap
                int odd = m / (CB / 16), chunk = m % (CB / 16) * 2 + ((lane >> 3) & 1);
                u32 a[4];
                transposed(a, pixels + big_pixel(im, 2 * i + ky, 2 * (j + dx) + odd) * (CB * 2) + swizzled<CH>(chunk, j + dx) * 16);
#pragma unroll
                for (int n = 0; n < NT / 2; n++) {
                    multiply(c[m][2 * n], a, b[n][0], b[n][1]);
                    multiply(c[m][2 * n + 1], a, b[n][2], b[n][3]);
                }
            }
        }
    }
    out += ((i64)blockIdx.x * gridDim.y + member) * (16 * CB * CS);
    for (int m = 0; m < MT; m++)
        for (int n = 0; n < NT; n++)
            for (int e = 0; e < 2; e++) {
                int row = ((ky * 4 + dx * 2) * CB) + m * 16 + (lane >> 2) + 8 * e;
                *(float2*)(out + row * CS + n * 8 + (lane & 3) * 2) = make_float2(c[m][n][2 * e], c[m][n][2 * e + 1]);
            }
}
#endif

// --- a big image of one channel -----------------------------------------------------------------------------

// The image as it is, with a border of zeros: pairs of pixels from an even column are words.
constexpr int LR = 2 * TI + 2, LC = 2 * WS + 4, LINES = (LR * LC * 2 + 127) / 128 * 128;
template <int STEP> DEV void lines_in(u16* to, const u16* from, int number, int i0) {
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

#ifdef DOWN1
constexpr int WARPS = 4, P = TI * WS, TILES = (P + 15) / 16, NT = CS / 8, BANDS = (HS + TI - 1) / TI;

extern "C" __global__ void __launch_bounds__(128) down1(
    const u16* __restrict__ big, const u16* __restrict__ weight, const float* __restrict__ bias,
    const void* __restrict__ mask, u16* __restrict__ out, unsigned char* __restrict__ bits,
    i64 big_stride, int images, int masks, i64 mask_member, i64 mask_image) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u16* lines = (u16*)shared;
    u32 b[NT][2];  // taps by channels
    for (int n = 0; n < NT; n++)
        for (int r = 0; r < 2; r++) {
            const u16* at = weight + ((i64)member * 16 + r * 8 + (lane & 3) * 2) * CS + n * 8 + (lane >> 2);
            b[n][r] = (u32)at[0] | (u32)at[CS] << 16;
        }
    cleared(address(lines), LINES);
    big += member * big_stride;
    if (BIAS) bias += member * CS + (lane & 3) * 8;
    for (int tile = blockIdx.x; tile < images * BANDS; tile += gridDim.x) {
        int number = tile / BANDS, i0 = tile % BANDS * TI;
        int there = (HS - i0) * WS < P ? (HS - i0) * WS : P;
        i64 kept = member * mask_member + (number % masks) * mask_image + (i64)i0 * WS * CS + (lane & 3) * 8;
        i64 first = (((i64)member * images + number) * (HS * WS) + i0 * WS) * CS + (lane & 3) * 8;
        __syncthreads();
        lines_in<128>(lines, big, number, i0);
        __syncthreads();
#pragma unroll 4
        for (int m = warp; m < TILES; m += WARPS) {
            u32 a[4];
            Mask k[2][NT / 4] = {};
            int place[2];
            for (int e = 0; e < 2; e++) {
                int p = m * 16 + (lane >> 2) + 8 * e;
                bool ok = p < there;
                place[e] = ok ? p * CS : -1;
                p = ok ? p : 0;
#if MASK
                for (int n = 0; n < NT / 4; n++) k[e][n] = masked(mask, kept + p * CS + n * 32);
#endif
                int i = p / WS, j = p % WS;
                const u16* at = lines + (2 * i + ((lane & 3) >> 1)) * LC + 2 * j + 2 * (lane & 1);
                a[e] = *(const u32*)at;
                a[e + 2] = *(const u32*)(at + 2 * LC);
            }
            float c[NT][4] = {};
#pragma unroll
            for (int n = 0; n < NT; n++) multiply(c[n], a, b[n][0], b[n][1]);
            for (int e = 0; e < 2; e++)
                for (int n = 0; n < NT / 4; n++) {
                    uint4 v = finished(c + n * 4, e, bias + n * 32, k[e][n]);
                    if (place[e] >= 0) written(out, bits, first + place[e] + n * 32, v);
                }
        }
    }
}
#endif

#ifdef WEIGHT1
constexpr int WARPS = 4, P = TI * WS, STEPS = (P + 15) / 16, MT = CS / 16, SCH = CS / 8, BANDS = (HS + TI - 1) / TI;

extern "C" __global__ void __launch_bounds__(128) weight1(
    const u16* __restrict__ small, const u16* __restrict__ big, float* __restrict__ out, i64 small_stride, i64 big_stride, int images) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u16* lines = (u16*)shared;
    u32 smalls = address(shared) + LINES;
    cleared(address(lines), LINES);
    small += member * small_stride;
    big += member * big_stride;
    float c[MT][2][4] = {};  // channels by taps
    int tap = lane >> 2;
    for (int tile = blockIdx.x; tile < images * BANDS; tile += gridDim.x) {
        int number = tile / BANDS, i0 = tile % BANDS * TI;
        __syncthreads();
        int there = (HS - i0) * WS < P ? (HS - i0) * WS : P;
        positions_in<SCH, STEPS * 16>(smalls, small + ((i64)number * HS + i0) * (WS * CS), there);
        lines_in<128>(lines, big, number, i0);
        sent();
        arrived<0>();
        for (int step = warp; step < STEPS; step += WARPS) {
            u32 b[2][2];  // positions by taps
#pragma unroll
            for (int r = 0; r < 2; r++) {
                u32 v[2][2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    int p = step * 16 + r * 8 + (lane & 3) * 2 + e;
                    p = p < P ? p : 0;
                    const u16* at = lines + (2 * (p / WS) + (tap >> 2)) * LC + 2 * (p % WS) + (tap & 3);
                    v[0][e] = at[0];
                    v[1][e] = at[2 * LC];
                }
                b[0][r] = v[0][0] | v[0][1] << 16;
                b[1][r] = v[1][0] | v[1][1] << 16;
            }
            int row = step * 16 + (lane & 7) + 8 * (lane >> 4);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                u32 a[4];
                transposed(a, smalls + row * (CS * 2) + swizzled<SCH>(m * 2 + ((lane >> 3) & 1), row) * 16);
                multiply(c[m][0], a, b[0][0], b[0][1]);
                multiply(c[m][1], a, b[1][0], b[1][1]);
            }
        }
    }
    out += (((i64)blockIdx.x * WARPS + warp) * gridDim.y + member) * (16 * CS);  // every warp has a part of its own
    for (int m = 0; m < MT; m++)
        for (int n = 0; n < 2; n++)
            for (int e = 0; e < 4; e++)
                out[(n * 8 + (lane & 3) * 2 + (e & 1)) * CS + m * 16 + (lane >> 2) + 8 * (e >> 1)] = c[m][n][e];
}
#endif

// --- tail: the last two transposed convolutions of tangents, their norm, and its gradient, image by image ----------
//
// The norm is the sum of u |t|^P over the output t, with P of 1 or 2. Its gradient is known as soon as t is, so that
// what lies between the two layers never leaves the multiprocessor. The small image has 16 x 16 x 32 numbers.

#ifdef TAIL
constexpr int WARPS = THREADS / 32, MT = 16 / WARPS, TW = 16 / WARPS;  // tiles of positions, and taps, of a warp
constexpr int TILE = SR * SC * 64, MID = 1024 * 64, TAPS = 1024 * 36, BIG = BR * 2 * BC * 64;
constexpr int WORDS = 9, LINE = 68, LINED = (66 * LINE * 2 + 127) / 128 * 128;
constexpr int REGION = MID + TAPS > BIG ? MID + TAPS : BIG;
constexpr int GIVEN = 16384 + 4096 + 1024;  // of each image: u, and the masks of the middle and of the small one

DEV void bytes_in(u32 to, const void* from, int count) {
    for (int n = threadIdx.x * 16; n < count; n += THREADS * 16) copy16(to + n, (const char*)from + n, true);
}

DEV int mixed(int column) { return 8 * ((column >> 1) & 3) + 2 * (column >> 3) + (column & 1); }

extern "C" __global__ void __launch_bounds__(THREADS) tail(
    const u16* __restrict__ small, const u16* __restrict__ weight, const u16* __restrict__ head,
    const unsigned char* __restrict__ mask, const unsigned char* __restrict__ before, const float* __restrict__ u,
    u16* __restrict__ t, u16* __restrict__ slope, float* __restrict__ parts, float* __restrict__ head_parts,
    i64 small_stride, int images, int masks, i64 mask_member, i64 mask_image, i64 before_member, i64 before_image,
    i64 u_member, i64 u_image) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, four = lane & 3, eight = lane >> 2;
    u32 pixels = address(shared), weights = pixels + 2 * TILE, region = weights + 32768, mid = region;
    u32* taps = (u32*)(shared + 2 * TILE + 32768 + MID);
    u16* lines = (u16*)(shared + 2 * TILE + 32768 + REGION);
    const unsigned char* given = shared + 2 * TILE + 32768 + REGION + LINED;
    auto load = [&](int image, int turn) {
        int number = image % masks;
        u32 to = address(given) + turn * GIVEN;
        small_in<4, THREADS>(pixels + turn * TILE, small, image, images, 0);
        bytes_in(to, u + member * u_member + number * u_image, 16384);
        bytes_in(to + 16384, mask + (member * mask_member + number * mask_image) / 8, 4096);
        bytes_in(to + 20480, before + (member * before_member + number * before_image) / 8, 1024);
        sent();
    };
    rows_in<4>(weights, weight + (i64)member * 16384, 512);
    cleared(pixels, 2 * TILE);
    cleared(address(lines), LINED);
    small += member * small_stride;
    u32 h[2][2][2], b4[4][2];  // the last layer's weights: channels by taps, and taps by channels
    for (int s = 0; s < 2; s++)
        for (int n = 0; n < 2; n++)
            for (int r = 0; r < 2; r++) {
                const u16* at = head + ((i64)member * 32 + four * 8 + 2 * (2 * s + r)) * 16 + n * 8 + eight;
                h[s][n][r] = (u32)at[0] | (u32)at[16] << 16;
            }
    for (int n = 0; n < 4; n++)
        for (int r = 0; r < 2; r++)
            b4[n][r] = *(const u32*)(head + ((i64)member * 32 + mixed(n * 8 + eight)) * 16 + r * 8 + four * 2);
    float sum3[TW * 2][4][4] = {}, sum4[2][2][4] = {};
    load(blockIdx.x, 0);
    for (int image = blockIdx.x, turn = 0; image < images; image += gridDim.x, turn ^= 1) {
        if (image + gridDim.x < images) {
            load(image + gridDim.x, turn ^ 1);
            arrived<1>();
        } else {
            arrived<0>();
        }
        u32 now = pixels + turn * TILE;
        const float* weighed = (const float*)(given + turn * GIVEN);
        const unsigned char *bits = given + turn * GIVEN + 16384 + four, *was = bits + 4096;

        // The middle image, and its products with the last layer's weights.
#pragma unroll 1
        for (int phase = 0; phase < 4; phase++) {
            int py = phase >> 1, px = phase & 1;
            float c[MT][4][4] = {};
            u32 kept[MT][2];
#pragma unroll
            for (int m = 0; m < MT; m++)
                for (int e = 0; e < 2; e++)
                    kept[m][e] = bits[((2 * (warp * MT + m) + py) * 32 + 2 * (eight + 8 * e) + px) * 4];
#pragma unroll
            for (int tap = 0; tap < 4; tap++) {
                int dy = (py + 1) / 2 + 1 - (tap >> 1), dx = (px + 1) / 2 + (tap & 1);
#pragma unroll
                for (int kc = 0; kc < 2; kc++) {
                    u32 a[MT][4], b[4];
                    int j = (lane & 15) + dx;
#pragma unroll
                    for (int m = 0; m < MT; m++)
                        matrix(a[m], now + ((warp * MT + m + dy) * SC + j) * 64 + swizzled<4>(kc * 2 + (lane >> 4), j) * 16);
                    int row = (phase * 4 + tap) * 32 + kc * 16 + (lane & 15);
#pragma unroll
                    for (int n = 0; n < 2; n++) {
                        transposed(b, weights + row * 64 + swizzled<4>(n * 2 + (lane >> 4), spread(row)) * 16);
#pragma unroll
                        for (int m = 0; m < MT; m++) {
                            multiply(c[m][2 * n], a[m], b[0], b[1]);
                            multiply(c[m][2 * n + 1], a[m], b[2], b[3]);
                        }
                    }
                }
            }
#pragma unroll
            for (int m = 0; m < MT; m++) {
                uint4 v[2];
                int pixel[2];
                for (int e = 0; e < 2; e++) {
                    pixel[e] = (2 * (warp * MT + m) + py) * 32 + 2 * (eight + 8 * e) + px;
                    v[e] = finished(c[m], e, nullptr, kept[m][e]);
                    u32 to = mid + pixel[e] * 64 + swizzled<4>(four, pixel[e]) * 16;
                    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v[e].x), "r"(v[e].y), "r"(v[e].z), "r"(v[e].w));
                }
                float made[2][4] = {};
                u32 a[2][4] = {{v[0].x, v[1].x, v[0].y, v[1].y}, {v[0].z, v[1].z, v[0].w, v[1].w}};
                for (int s = 0; s < 2; s++)
                    for (int n = 0; n < 2; n++) multiply(made[n], a[s], h[s][n][0], h[s][n][1]);
                for (int e = 0; e < 2; e++)
                    for (int n = 0; n < 2; n++)
                        taps[pixel[e] * WORDS + n * 4 + four] = packed(made[n][2 * e], made[n][2 * e + 1]);
            }
        }
        __syncthreads();

        // The output, and the norm's gradient there.
        u16* to = t + ((i64)member * images + image) * 4096;
        for (int n = threadIdx.x; n < 64 * 33; n += THREADS) {
            int v = n % 33, y = n / 33;
            float both[2] = {0.f, 0.f};
#pragma unroll
            for (int ty = 0; ty < 2; ty++) {
                int i = (y + 1) / 2 - ty, ky = (y + 1) % 2 + 2 * ty;
#pragma unroll
                for (int tx = 0; tx < 2; tx++) {
                    int j = v - tx;
                    if (i >= 0 && i < 32 && j >= 0 && j < 32) {
                        u32 pair = taps[(i * 32 + j) * WORDS + ky * 2 + tx];
                        both[0] += low(pair);
                        both[1] += high(pair);
                    }
                }
            }
            u32 rounded = packed(both[0], both[1]);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int x = 2 * v - 1 + e;
                if (x >= 0 && x < 64) {
                    float value = e ? high(rounded) : low(rounded), weigh = weighed[y * 64 + x];
                    to[y * 64 + x] = (u16)(e ? rounded >> 16 : rounded);
                    float g = POWER == 1 ? (value > 0.f ? weigh : value < 0.f ? -weigh : 0.f) : 2.f * value * weigh;
                    lines[(y + 1) * LINE + x + 1] = (u16)packed(g, 0.f);
                }
            }
        }
        __syncthreads();

        // The gradient of the last layer's weights: middle channels by taps.
        int tap = eight;
#pragma unroll 2
        for (int step = warp; step < 64; step += WARPS) {
            u32 b[2][2];
            int i = step >> 1, j0 = (step & 1) * 16;
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const u16* at = lines + (2 * i + (tap >> 2)) * LINE + 2 * (j0 + r * 8 + four * 2) + (tap & 3);
                b[0][r] = (u32)at[0] | (u32)at[2] << 16;
                b[1][r] = (u32)at[2 * LINE] | (u32)at[2 * LINE + 2] << 16;
            }
            int row = step * 16 + (lane & 7) + 8 * (lane >> 4);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                u32 a[4];
                transposed(a, mid + row * 64 + swizzled<4>(m * 2 + ((lane >> 3) & 1), row) * 16);
                multiply(sum4[m][0], a, b[0][0], b[0][1]);
                multiply(sum4[m][1], a, b[1][0], b[1][1]);
            }
        }
        __syncthreads();

        // The gradient of the middle image, with a border, its channels mixed; over what is no longer needed.
        for (int n = threadIdx.x; n < 4 * 34 * 4; n += THREADS) {
            int side = n / (34 * 4), along = n / 4 % 34, r = side == 0 ? 0 : side == 1 ? 33 : along, x = side == 2 ? 0 : side == 3 ? 33 : along;
            asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(region + big_pixel(0, r, x) * 64 + (n & 3) * 16), "r"(0));
        }
#pragma unroll 2
        for (int m = warp; m < 64; m += WARPS) {
            u32 a[4], kept[2];
            int i = m >> 1;
            for (int e = 0; e < 2; e++) {
                int j = (m & 1) * 16 + eight + 8 * e;
                kept[e] = bits[(i * 32 + j) * 4];
                const u16* at = lines + (2 * i + (four >> 1)) * LINE + 2 * j + 2 * (four & 1);
                a[e] = *(const u32*)at;
                a[e + 2] = *(const u32*)(at + 2 * LINE);
            }
            float c[4][4] = {};
#pragma unroll
            for (int n = 0; n < 4; n++) multiply(c[n], a, b4[n][0], b4[n][1]);
            for (int e = 0; e < 2; e++) {
                int x = (m & 1) * 16 + eight + 8 * e + 1;
                uint4 v = finished(c, e, nullptr, kept[e]);
                u32 at = region + big_pixel(0, i + 1, x) * 64 + four * 4, w[4] = {v.x, v.y, v.z, v.w};
                for (int q = 0; q < 4; q++)
                    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + swizzled<4>(q, x >> 1) * 16), "r"(w[q]));
            }
        }
        __syncthreads();

        // The gradient of the small image.
        {
            float c[MT][4][4] = {};
            u32 kept[MT][2];
#pragma unroll
            for (int m = 0; m < MT; m++)
                for (int e = 0; e < 2; e++) kept[m][e] = was[((warp * MT + m) * 16 + eight + 8 * e) * 4];
#pragma unroll 1
            for (int ky = 0; ky < 4; ky++) {
#pragma unroll
                for (int kx = 0; kx < 4; kx++) {
                    int j = (lane & 15) + (kx >> 1);
                    int place = ((ky & 1 ^ 1) * 2 + (kx & 1 ^ 1)) * 4 + (ky >> 1) * 2 + 1 - (kx >> 1);  // in the weights of `up`
#pragma unroll
                    for (int kc = 0; kc < 2; kc++) {
                        u32 a[MT][4], b[4];
#pragma unroll
                        for (int m = 0; m < MT; m++)
                            matrix(a[m], region + ((((warp * MT + m) * 2 + ky) * 2 + (kx & 1)) * BC + j) * 64 +
                                             swizzled<4>(kc * 2 + (lane >> 4), j) * 16);
#pragma unroll
                        for (int n = 0; n < 2; n++) {
                            int row = place * 32 + mixed((2 * n + (lane >> 4)) * 8 + (lane & 7));
                            matrix(b, weights + row * 64 + swizzled<4>(kc * 2 + ((lane >> 3) & 1), spread(row)) * 16);
#pragma unroll
                            for (int m = 0; m < MT; m++) {
                                multiply(c[m][2 * n], a[m], b[0], b[1]);
                                multiply(c[m][2 * n + 1], a[m], b[2], b[3]);
                            }
                        }
                    }
                }
            }
            u16* back = slope + ((i64)member * images + image) * 8192 + four * 8;
#pragma unroll
            for (int m = 0; m < MT; m++)
                for (int e = 0; e < 2; e++)
                    *(uint4*)(back + ((warp * MT + m) * 16 + eight + 8 * e) * 32) = finished(c[m], e, nullptr, kept[m][e]);
        }

        // The gradient of the weights between them.
#pragma unroll 1
        for (int i = 0; i < 16; i++) {
            u32 b[2][4];
            int j = (lane & 15) + 1;
#pragma unroll
            for (int n = 0; n < 2; n++)
                transposed(b[n], now + ((i + 1) * SC + j) * 64 + swizzled<4>(n * 2 + (lane >> 4), j) * 16);
            int place = (lane & 7) + 8 * (lane >> 4);
#pragma unroll
            for (int m = 0; m < TW * 2; m++) {
                int tap = warp * TW + m / 2, ky = tap >> 2, kx = tap & 3, x = place + (kx >> 1);
                u32 a[4];
                transposed(a, region + (((i * 2 + ky) * 2 + (kx & 1)) * BC + x) * 64 +
                                  swizzled<4>(m % 2 * 2 + ((lane >> 3) & 1), x) * 16);
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    multiply(sum3[m][2 * n], a, b[n][0], b[n][1]);
                    multiply(sum3[m][2 * n + 1], a, b[n][2], b[n][3]);
                }
            }
        }
        __syncthreads();
    }
    parts += ((i64)blockIdx.x * gridDim.y + member) * 16384;
    for (int m = 0; m < TW * 2; m++)
        for (int n = 0; n < 4; n++)
            for (int e = 0; e < 2; e++) {
                int row = (warp * TW + m / 2) * 32 + mixed(m % 2 * 16 + eight + 8 * e);
                *(float2*)(parts + row * 32 + n * 8 + four * 2) = make_float2(sum3[m][n][2 * e], sum3[m][n][2 * e + 1]);
            }
    head_parts += (((i64)blockIdx.x * WARPS + warp) * gridDim.y + member) * 512;
    for (int m = 0; m < 2; m++)
        for (int n = 0; n < 2; n++)
            for (int e = 0; e < 4; e++)
                head_parts[(n * 8 + four * 2 + (e & 1)) * 32 + m * 16 + eight + 8 * (e >> 1)] = sum4[m][n][e];
}
#endif
