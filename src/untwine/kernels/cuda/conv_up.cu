// Computes the big image from the small one: [members, images, HB, WB, CB]; with HEAD also the output of the next
// layer, to one channel.

constexpr int WARPS = THREADS / 32, P = IM * TI * G2W, TILES = (P + 15) / 16, MT = (TILES + WARPS - 1) / WARPS;
constexpr int NT = CB / 8, CH = CS / 8, WCH = CB / 8, BANDS = (G2H + TI - 1) / TI, TILE = SMALL;
constexpr int WORDS = 9;  // for the 16 taps of a pixel: 8, and one that spreads the banks
static_assert(STAGES * TILE + 16 * CS * CB * 2 + HEAD * HB * WB * WORDS * 4 <= SHARED);

extern "C" __global__ void __launch_bounds__(THREADS) conv_up(
    const u16* __restrict__ small, const u16* __restrict__ weight, const float* __restrict__ bias,
    const void* __restrict__ mask, const void* __restrict__ other, const u16* __restrict__ added, const float* __restrict__ factor,
    const u16* __restrict__ head, const float* __restrict__ head_bias, u16* __restrict__ out, void* __restrict__ summary,
    u16* __restrict__ extra, void* __restrict__ folded, i64 small_stride, int images,
    int masks, i64 mask_member, i64 mask_image, int others, i64 other_member, i64 other_image) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 pixels = address(shared), weights = pixels + STAGES * TILE;
    load_rows<WCH>(weights, weight + (i64)member * 16 * CS * CB, 16 * CS);
    clear(pixels, STAGES * TILE);
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
    float times = FACTOR ? factor[member] : 1.f;
    int count = (images + IM - 1) / IM * BANDS;
    u32 start[MT][3], weight_at[2][NT / 2];  // where a lane reads; the next 16 channels are at an address ^ 32
    for (int m = 0; m < MT; m++) {
        int p = (warp * MT + m) * 16 + (lane & 15);
        p = p < P ? p : 0;
        int im = p / (TI * G2W), i = p / G2W % TI, j = p % G2W;
        for (int dx = 0; dx < 3; dx++)
            start[m][dx] = pixels + ((im * SR + i) * SC + j + dx) * (CS * 2) + swizzle<CH>(lane >> 4, j + dx) * 16;
    }
    weight_addresses<WCH>(weight_at, weights);
    int corner[MT][2];  // the first of the four pixels at a position, or far outside
    for (int m = 0; m < MT; m++)
        for (int e = 0; e < 2; e++) {
            int p = (warp * MT + m) * 16 + (lane >> 2) + 8 * e;
            int i = p / G2W % TI, j = p % G2W;
            corner[m][e] = p < P ? (p / (TI * G2W)) * (HB * WB) + 2 * i * WB + 2 * j : 1 << 29;
        }
    float total[NT / 4][8] = {};
    if (STAGES == 2) {
        load_small<CH, THREADS>(pixels, small, blockIdx.x / BANDS * IM, images, blockIdx.x % BANDS * TI);
        commit_copies();
    }
    for (int tile = blockIdx.x, turn = 0; tile < count; tile += gridDim.x, turn ^= 1) {
        int image = tile / BANDS * IM, i0 = tile % BANDS * TI;
        if (STAGES == 1) __syncthreads();
        int next = STAGES == 1 ? tile : tile + gridDim.x;
        if (next < count)
            load_small<CH, THREADS>(
                pixels + (STAGES == 1 ? 0 : turn ^ 1) * TILE, small, next / BANDS * IM, images, next % BANDS * TI);
        commit_copies();
        wait_copies<STAGES - 1>();
        u32 shift = STAGES == 1 ? 0 : turn * TILE;
        int end = BANDS > 1 ? HB * WB : (images - image < IM ? images - image : IM) * (HB * WB);
#pragma unroll 1
        for (int py = 0; py < 2; py++)
#pragma unroll
        for (int px = 0; px < 2; px++) {
            u32 rows = shift + ((py + PAD) / 2 + 1) * (SC * CS * 2), laid = py * (8 * CS * CB * 2);
            int pixel[MT][2];
            Mask kept[MT][2][NT / 4] = {};
            u32 second[MT][2][NT / 4] = {};
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
                    for (int n = 0; n < NT / 4; n++) kept[m][e][n] = load_mask(mask, from + n * 32);
#if OTHER
                    i64 also = member * other_member + ((image + number) % others) * other_image + (i64)place * CB + (lane & 3) * 8;
                    for (int n = 0; n < NT / 4; n++) second[m][e][n] = load_other(other, also + n * 32);
#endif
#endif
                }
            float c[MT][NT][4] = {};
#pragma unroll
            for (int tap = 0; tap < 4; tap++) {
                int dx = (px + PAD) / 2 + (tap & 1);
                u32 off = rows - (tap >> 1) * (SC * CS * 2);
#pragma unroll
                for (int kc = 0; kc < CS / 16; kc++) {
                    u32 a[MT][4], b[4];
#pragma unroll
                    for (int m = 0; m < MT; m++) load_matrix(a[m], start[m][dx] + off ^ kc * 32);
#pragma unroll
                    for (int n = 0; n < NT / 2; n++) {
                        load_transposed(b, weight_at[kc & 1][n] + laid + ((px * 4 + tap) * CS + kc * 16) * (CB * 2));
#pragma unroll
                        for (int m = 0; m < MT; m++) {
                            multiply_add(c[m][2 * n], a[m], b[0], b[1]);
                            multiply_add(c[m][2 * n + 1], a[m], b[2], b[3]);
                        }
                    }
                }
            }
            i64 first = ((i64)member * images + image) * (HB * WB * CB) + (lane & 3) * 8;
#pragma unroll
            for (int m = 0; m < MT; m++) {
                uint4 v[2][NT / 4];
                for (int e = 0; e < 2; e++)
                    for (int n = 0; n < NT / 4; n++)
                        v[e][n] = conclude(c[m] + n * 4, e, bias + n * 32, kept[m][e][n], second[m][e][n], added, times, out,
                                           summary, extra, first + pixel[m][e] * CB + n * 32, pixel[m][e] >= 0, total[n]);
#if HEAD
                float t[2][4] = {};
                u32 a[2][4] = {{v[0][0].x, v[1][0].x, v[0][0].y, v[1][0].y}, {v[0][0].z, v[1][0].z, v[0][0].w, v[1][0].w}};
                for (int s = 0; s < 2; s++)
                    for (int n = 0; n < 2; n++) multiply_add(t[n], a[s], h[s][n][0], h[s][n][1]);
                for (int e = 0; e < 2; e++)
                    if (pixel[m][e] >= 0)
                        for (int n = 0; n < 2; n++)
                            taps[pixel[m][e] * WORDS + n * 4 + (lane & 3)] = pack(t[n][2 * e], t[n][2 * e + 1]);
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
            u32 both = pack(odd, even);
            if (v > 0) ((u16*)folded)[at - 1] = (u16)both;
            if (v < WB) ((u16*)folded)[at] = (u16)(both >> 16);
#endif
        }
#endif
        if (STAGES == 2) __syncthreads();  // the next turn overwrites what was read here
    }
    write_sums<NT / 4>(summary, total);
}
