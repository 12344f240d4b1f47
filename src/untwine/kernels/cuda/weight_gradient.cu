// Computes the gradient of the weights in parts: [parts, members, 16 * CB, CS] in float32.

constexpr int P = IM * TI * WS, STEPS = (P + 15) / 16, NT = CS / 8, MT = CB / 8;  // two taps of CB channels a warp
constexpr int CH = CB / 8, SCH = CS / 8, BANDS = (HS + TI - 1) / TI, BIG = IM * BR * 2 * BC * (CB * 2), TILE = BIG + STEPS * 16 * CS * 2;
static_assert(STAGES * TILE <= SHARED);

extern "C" __global__ void __launch_bounds__(256, CS == 32 ? 2 : 1) weight_gradient(
    const u16* __restrict__ small, const u16* __restrict__ big, float* __restrict__ out, i64 small_stride, i64 big_stride, int images) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32 start = address(shared);
    clear(start, STAGES * TILE);
    small += member * small_stride;
    big += member * big_stride;
    int count = (images + IM - 1) / IM * BANDS;
    int ky = warp >> 1, dx = warp & 1;  // taps 2 dx and 2 dx + 1: an even and an odd column
    auto load = [&](int tile, u32 to) {
        int image = tile / BANDS * IM, i0 = tile % BANDS * TI;
        load_big<CH, 256>(to, big, image, images, i0);
        int there = BANDS > 1 ? (HS - i0) * WS : (images - image) * (HS * WS);
        load_positions<SCH, STEPS * 16>(to + BIG, small + ((i64)image * HS + i0) * (WS * CS), there < P ? there : P);
    };
    float c[MT][NT][4] = {};
    if (STAGES == 2) {
        load(blockIdx.x, start);
        commit_copies();
    }
    for (int tile = blockIdx.x, turn = 0; tile < count; tile += gridDim.x, turn ^= 1) {
        __syncthreads();
        int next = STAGES == 1 ? tile : tile + gridDim.x;
        if (next < count) load(next, start + (STAGES == 1 ? 0 : turn ^ 1) * TILE);
        commit_copies();
        wait_copies<STAGES - 1>();
        u32 pixels = start + (STAGES == 1 ? 0 : turn) * TILE, smalls = pixels + BIG;
#pragma unroll 1
        for (int step = 0; step < STEPS; step++) {
            u32 b[NT / 2][4];
            int row = step * 16 + (lane & 15);
#pragma unroll
            for (int n = 0; n < NT / 2; n++)
                load_transposed(b[n], smalls + row * (CS * 2) + swizzle<SCH>(n * 2 + (lane >> 4), row) * 16);
            int p = step * 16 + (lane & 7) + 8 * (lane >> 4);
            p = p < P ? p : 0;
            int im = p / (TI * WS), i = p / WS % TI, j = p % WS;
#pragma unroll
            for (int m = 0; m < MT; m++) {  // 16 channels of a tap
                int odd = m / (CB / 16), chunk = m % (CB / 16) * 2 + ((lane >> 3) & 1);
                u32 a[4];
                load_transposed(a, pixels + big_pixel(im, 2 * i + ky, 2 * (j + dx) + odd) * (CB * 2) + swizzle<CH>(chunk, j + dx) * 16);
#pragma unroll
                for (int n = 0; n < NT / 2; n++) {
                    multiply_add(c[m][2 * n], a, b[n][0], b[n][1]);
                    multiply_add(c[m][2 * n + 1], a, b[n][2], b[n][3]);
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
