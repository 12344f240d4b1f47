// `conv_down` from a big image of one channel.

constexpr int WARPS = 4, P = TI * WS, TILES = (P + 15) / 16, NT = CS / 8, BANDS = (HS + TI - 1) / TI;

extern "C" __global__ void __launch_bounds__(128) conv_down_one_channel(
    const u16* __restrict__ big, const u16* __restrict__ weight, const float* __restrict__ bias,
    const void* __restrict__ mask, const void* __restrict__ other, const u16* __restrict__ added, const float* __restrict__ factor,
    u16* __restrict__ out, void* __restrict__ summary, u16* __restrict__ extra, i64 big_stride, int images,
    int masks, i64 mask_member, i64 mask_image, int others, i64 other_member, i64 other_image) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u16* lines = (u16*)shared;
    u32 b[NT][2];  // taps by channels
    for (int n = 0; n < NT; n++)
        for (int r = 0; r < 2; r++) {
            const u16* at = weight + ((i64)member * 16 + r * 8 + (lane & 3) * 2) * CS + n * 8 + (lane >> 2);
            b[n][r] = (u32)at[0] | (u32)at[CS] << 16;
        }
    clear(address(lines), LINES);
    big += member * big_stride;
    if (BIAS) bias += member * CS + (lane & 3) * 8;
    float times = FACTOR ? factor[member] : 1.f;
    float total[NT / 4][8] = {};
    for (int tile = blockIdx.x; tile < images * BANDS; tile += gridDim.x) {
        int number = tile / BANDS, i0 = tile % BANDS * TI;
        int there = (HS - i0) * WS < P ? (HS - i0) * WS : P;
        i64 kept = member * mask_member + (number % masks) * mask_image + (i64)i0 * WS * CS + (lane & 3) * 8;
        i64 second = member * other_member + (number % others) * other_image + (i64)i0 * WS * CS + (lane & 3) * 8;
        i64 first = (((i64)member * images + number) * (HS * WS) + i0 * WS) * CS + (lane & 3) * 8;
        __syncthreads();
        load_lines<128>(lines, big, number, i0);
        __syncthreads();
#pragma unroll 4
        for (int m = warp; m < TILES; m += WARPS) {
            u32 a[4];
            Mask k[2][NT / 4] = {};
            u32 o[2][NT / 4] = {};
            int place[2];
            for (int e = 0; e < 2; e++) {
                int p = m * 16 + (lane >> 2) + 8 * e;
                bool ok = p < there;
                place[e] = ok ? p * CS : -1;
                p = ok ? p : 0;
#if MASK
                for (int n = 0; n < NT / 4; n++) k[e][n] = load_mask(mask, kept + p * CS + n * 32);
#endif
#if OTHER
                for (int n = 0; n < NT / 4; n++) o[e][n] = load_other(other, second + p * CS + n * 32);
#endif
                int i = p / WS, j = p % WS;
                const u16* at = lines + (2 * i + ((lane & 3) >> 1)) * LC + 2 * j + 2 * (lane & 1);
                a[e] = *(const u32*)at;
                a[e + 2] = *(const u32*)(at + 2 * LC);
            }
            float c[NT][4] = {};
#pragma unroll
            for (int n = 0; n < NT; n++) multiply_add(c[n], a, b[n][0], b[n][1]);
            for (int e = 0; e < 2; e++)
                for (int n = 0; n < NT / 4; n++)
                    conclude(c + n * 4, e, bias + n * 32, k[e][n], o[e][n], added, times, out, summary, extra,
                             first + place[e] + n * 32, place[e] >= 0, total[n]);
        }
    }
    write_sums<NT / 4>(summary, total);
}
