// `weight_gradient` for a big image of one channel.

constexpr int WARPS = 4, P = TI * WS, STEPS = (P + 15) / 16, MT = CS / 16, SCH = CS / 8, BANDS = (HS + TI - 1) / TI;
static_assert(LINES + STEPS * 16 * CS * 2 <= SHARED && WARPS * 16 * CS * 4 <= SHARED);

extern "C" __global__ void __launch_bounds__(128) weight_gradient_one_channel(
    const u16* __restrict__ small, const u16* __restrict__ big, float* __restrict__ out, i64 small_stride, i64 big_stride, int images) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u16* lines = (u16*)shared;
    u32 smalls = address(shared) + LINES;
    clear(address(lines), LINES);
    small += member * small_stride;
    big += member * big_stride;
    float c[MT][2][4] = {};  // channels by taps
    int tap = lane >> 2;
    for (int tile = blockIdx.x; tile < images * BANDS; tile += gridDim.x) {
        int number = tile / BANDS, i0 = tile % BANDS * TI;
        __syncthreads();
        int there = (HS - i0) * WS < P ? (HS - i0) * WS : P;
        load_positions<SCH, STEPS * 16>(smalls, small + ((i64)number * HS + i0) * (WS * CS), there);
        load_lines<128>(lines, big, number, i0);
        commit_copies();
        wait_copies<0>();
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
                load_transposed(a, smalls + row * (CS * 2) + swizzle<SCH>(m * 2 + ((lane >> 3) & 1), row) * 16);
                if (RELU)
                    for (int r = 0; r < 4; r++) a[r] = rectified(a[r]);
                multiply_add(c[m][0], a, b[0][0], b[0][1]);
                multiply_add(c[m][1], a, b[1][0], b[1][1]);
            }
        }
    }
    float* sums = (float*)shared;
    __syncthreads();
    for (int m = 0; m < MT; m++)
        for (int n = 0; n < 2; n++)
            for (int e = 0; e < 4; e++)
                sums[(warp * 16 + n * 8 + (lane & 3) * 2 + (e & 1)) * CS + m * 16 + (lane >> 2) + 8 * (e >> 1)] = c[m][n][e];
    __syncthreads();
    out += ((i64)blockIdx.x * gridDim.y + member) * (16 * CS);
    for (int n = threadIdx.x; n < 16 * CS; n += blockDim.x) {
        float sum = 0.f;
        for (int w = 0; w < WARPS; w++) sum += sums[w * 16 * CS + n];
        out[n] = sum;
    }
}
