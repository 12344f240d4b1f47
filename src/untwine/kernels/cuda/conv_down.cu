// Computes the small image from the big one: [members, images, HS, WS, CS].

constexpr int WARPS = THREADS / 32, P = IM * TI * WS, TILES = (P + 15) / 16, MT = (TILES + WARPS - 1) / WARPS;
constexpr int NT = CS / 8, CH = CB / 8, WCH = CS / 8, BANDS = (HS + TI - 1) / TI, TILE = IM * BR * 2 * BC * (CB * 2);
static_assert(TILE + 16 * CB * CS * 2 <= SHARED);

extern "C" __global__ void __launch_bounds__(THREADS) conv_down(
    const u16* __restrict__ big, const u16* __restrict__ weight, const float* __restrict__ bias,
    const void* __restrict__ mask, const void* __restrict__ other, const u16* __restrict__ added, const float* __restrict__ factor,
    u16* __restrict__ out, void* __restrict__ summary, u16* __restrict__ extra, i64 big_stride, int images,
    int masks, i64 mask_member, i64 mask_image, int others, i64 other_member, i64 other_image) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 pixels = address(shared), weights = pixels + TILE;
    load_rows<WCH>(weights, weight + (i64)member * 16 * CB * CS, 16 * CB);
    clear(pixels, TILE);
    big += member * big_stride;
    if (BIAS) bias += member * CS + (lane & 3) * 8;
    float times = FACTOR ? factor[member] : 1.f;
    int count = (images + IM - 1) / IM * BANDS;
    u32 start[MT][2], weight_at[2][NT / 2];  // where a lane reads; the next 16 channels are at an address ^ 32
    for (int m = 0; m < MT; m++) {
        int p = (warp * MT + m) * 16 + (lane & 15);
        p = p < P ? p : 0;
        int im = p / (TI * WS), i = p / WS % TI, j = p % WS;
        for (int dx = 0; dx < 2; dx++)
            start[m][dx] = pixels + (big_pixel(im, 2 * i, 2 * j) + dx) * (CB * 2) + swizzle<CH>(lane >> 4, j + dx) * 16;
    }
    weight_addresses<WCH>(weight_at, weights);
    float total[NT / 4][8] = {};
    for (int tile = blockIdx.x; tile < count; tile += gridDim.x) {
        int image = tile / BANDS * IM, i0 = tile % BANDS * TI;
        __syncthreads();
        load_big<CH, THREADS>(pixels, big, image, images, i0);
        // The positions of a tile are contiguous in memory.
        int there = BANDS > 1 ? (HS - i0) * WS : (images - image) * (HS * WS);
        Mask kept[MT][2][NT / 4] = {};
        u32 second[MT][2][NT / 4] = {};
#if MASK
#pragma unroll
        for (int m = 0; m < MT; m++)
            for (int e = 0; e < 2; e++) {
                int p = (warp * MT + m) * 16 + (lane >> 2) + 8 * e;
                p = p < P && p < there ? p : 0;
                int number = IM > 1 ? image + p / (TI * WS) : image, place = IM > 1 ? p % (TI * WS) : i0 * WS + p;
                i64 at = member * mask_member + (number % masks) * mask_image + (i64)place * CS + (lane & 3) * 8;
                for (int n = 0; n < NT / 4; n++) kept[m][e][n] = load_mask(mask, at + n * 32);
#if OTHER
                i64 from = member * other_member + (number % others) * other_image + (i64)place * CS + (lane & 3) * 8;
                for (int n = 0; n < NT / 4; n++) second[m][e][n] = load_other(other, from + n * 32);
#endif
            }
#endif
        commit_copies();
        wait_copies<0>();
        float c[MT][NT][4] = {};
#pragma unroll 1
        for (int ky = 0; ky < 4; ky++) {
#pragma unroll
            for (int kx = 0; kx < 4; kx++) {
                u32 off = (ky * 2 + (kx & 1)) * (BC * CB * 2);
#pragma unroll
                for (int kc = 0; kc < CB / 16; kc++) {
                    u32 a[MT][4], b[4];
#pragma unroll
                    for (int m = 0; m < MT; m++) load_matrix(a[m], start[m][kx >> 1] + off ^ kc * 32);
#pragma unroll
                    for (int n = 0; n < NT / 2; n++) {
                        load_transposed(b, weight_at[kc & 1][n] + ((ky * 4 + kx) * CB + kc * 16) * (CS * 2));
#pragma unroll
                        for (int m = 0; m < MT; m++) {
                            multiply_add(c[m][2 * n], a[m], b[0], b[1]);
                            multiply_add(c[m][2 * n + 1], a[m], b[2], b[3]);
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
                for (int n = 0; n < NT / 4; n++)
                    conclude(c[m] + n * 4, e, bias + n * 32, kept[m][e][n], second[m][e][n], added, times, out, summary,
                             extra, first + p * CS + n * 32, p < P && p < there, total[n]);
            }
    }
    write_sums<NT / 4>(summary, total);
}
