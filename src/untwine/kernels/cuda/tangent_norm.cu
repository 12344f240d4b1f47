// Computes the last two transposed convolutions of tangents, their norm and its gradient, image by image.
//
// The norm is the sum of u |t|^P over the output t, with P of 1 or 2. Its gradient follows from t, so that the
// image between the two layers never leaves the multiprocessor. The small image has 16 x 16 x 32 numbers.
//
// With MASK 3 finite differences take the place of tangents, and a sigmoid follows: u are its inputs, the norm is the
// sum of |sigmoid(u + t) - sigmoid(u)|^P, `mask` are the inputs of the ReLU between the layers, and `other` is the mask
// of the ReLU before them without the step. Then gradients are written that reach the inputs of both ReLUs; in the place
// of t the gradient of u; and the norm in parts, one for each warp: [members, parts].

constexpr int WARPS = THREADS / 32, MT = 16 / WARPS, TW = 16 / WARPS;  // tiles of positions, and taps, of a warp
constexpr int TILE = SMALL, MID = 1024 * 64, TAPS = 1024 * 36, BIG = BR * 2 * BC * 64;
constexpr int WORDS = 9, LINE = 68, LINED = (66 * LINE * 2 + 127) / 128 * 128;
constexpr int REGION = MID + TAPS > BIG ? MID + TAPS : BIG;
#if MASK == 3
constexpr int GIVEN = 16384 + 1024 + 1024, STEPPED = 8192;  // bytes of each image: u, and the masks of the small image
#else
constexpr int GIVEN = 16384 + 4096 + 1024, STEPPED = 0;  // u, and the masks of the middle and of the small image
#endif
static_assert(2 * TILE + 32768 + REGION + LINED + 2 * GIVEN + STEPPED <= SHARED);

// sigmoid(x) and sigmoid(-x), both of them accurate where they are small.
DEV float2 sigmoids(float x) {
    float e = expf(-fabsf(x)), large = 1.f / (1.f + e), small = e * large;
    return x < 0.f ? make_float2(small, large) : make_float2(large, small);
}

// Adds |difference|^P to the total, for the difference that a step makes behind a sigmoid with input u; returns the
// gradients of that power by the step and by u.
DEV float2 sigmoid_slopes(float u, float step, float& total) {
    float2 start = sigmoids(u), end = sigmoids(u + step);
    // No two large numbers are subtracted, so that a small step needs no more precision.
    float size = -expm1f(-fabsf(step)) * (step < 0.f ? start.x * end.y : start.y * end.x);
    float slope = end.x * end.y, power = size;
#if POWER == 2
    slope *= 2.f * size;
    power *= size;
#endif
    total += power;
    return make_float2(step > 0.f ? slope : step < 0.f ? -slope : 0.f, POWER * power * (start.y - end.x));
}

DEV void load_bytes(u32 to, const void* from, int count) {
    for (int n = threadIdx.x * 16; n < count; n += THREADS * 16) copy16(to + n, (const char*)from + n, true);
}

DEV int channel_of_column(int column) { return 8 * ((column >> 1) & 3) + 2 * (column >> 3) + (column & 1); }

extern "C" __global__ void __launch_bounds__(THREADS) tangent_norm(
    const u16* __restrict__ small, const u16* __restrict__ weight, const u16* __restrict__ head,
    const void* __restrict__ mask, const unsigned char* __restrict__ before, const unsigned char* __restrict__ other,
    const float* __restrict__ u, u16* __restrict__ t, u16* __restrict__ slope, u16* __restrict__ middle_crossed,
    u16* __restrict__ small_crossed, float* __restrict__ parts, float* __restrict__ head_parts,
    float* __restrict__ sums, i64 small_stride, int images,
    int masks, i64 mask_member, i64 mask_image, int befores, i64 before_member, i64 before_image, i64 other_member, i64 other_image,
    i64 u_member, i64 u_image) {
    int member = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, four = lane & 3, eight = lane >> 2;
    u32 pixels = address(shared), weights = pixels + 2 * TILE, region = weights + 32768, mid = region;
    u32* taps = (u32*)(shared + 2 * TILE + 32768 + MID);
    u16* lines = (u16*)(shared + 2 * TILE + 32768 + REGION);
    const unsigned char* given = shared + 2 * TILE + 32768 + REGION + LINED;
    unsigned char* after = shared + 2 * TILE + 32768 + REGION + LINED + 2 * GIVEN + four;  // masks of the middle image: with the step, then without
    auto load = [&](int image, int turn) {
        int number = image % masks;
        u32 to = address(given) + turn * GIVEN;
        load_small<4, THREADS>(pixels + turn * TILE, small, image, images, 0);
        load_bytes(to, u + member * u_member + number * u_image, 16384);
        load_bytes(to + GIVEN - 1024, before + (member * before_member + image % befores * before_image) / 8, 1024);
#if MASK == 3
        load_bytes(to + 16384, other + (member * other_member + number * other_image) / 8, 1024);
#else
        load_bytes(to + 16384, (const unsigned char*)mask + (member * mask_member + number * mask_image) / 8, 4096);
#endif
        commit_copies();
    };
    load_rows<4>(weights, weight + (i64)member * 16384, 512);
    clear(pixels, 2 * TILE);
    clear(address(lines), LINED);
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
            b4[n][r] = *(const u32*)(head + ((i64)member * 32 + channel_of_column(n * 8 + eight)) * 16 + r * 8 + four * 2);
    u32 pixel_at[3][2], weight_at[2][2], back_at[2][2], big_at[2][2];  // offsets at which a lane reads
    for (int kc = 0; kc < 2; kc++) {
        for (int dx = 0; dx < 3; dx++) {
            int j = (lane & 15) + dx;
            pixel_at[dx][kc] = j * 64 + swizzle<4>(kc * 2 + (lane >> 4), j) * 16;
            if (dx < 2) big_at[dx][kc] = pixel_at[dx][kc];
        }
        for (int n = 0; n < 2; n++) {
            int row = kc * 16 + (lane & 15), across = channel_of_column((2 * n + (lane >> 4)) * 8 + (lane & 7));
            weight_at[kc][n] = (lane & 15) * 64 + swizzle<4>(n * 2 + (lane >> 4), swizzle_row(row)) * 16;
            back_at[kc][n] = across * 64 + swizzle<4>(kc * 2 + ((lane >> 3) & 1), swizzle_row(across)) * 16;
        }
    }
    float sum3[TW * 2][4][4] = {}, sum4[2][2][4] = {}, total = 0.f;
    load(blockIdx.x, 0);
    for (int image = blockIdx.x, turn = 0; image < images; image += gridDim.x, turn ^= 1) {
        if (image + gridDim.x < images) {
            load(image + gridDim.x, turn ^ 1);
            wait_copies<1>();
        } else {
            wait_copies<0>();
        }
        u32 now = pixels + turn * TILE;
        const float* weighed = (const float*)(given + turn * GIVEN);
        const unsigned char *was = given + turn * GIVEN + GIVEN - 1024 + four;
#if MASK == 3
        const unsigned char *bits = after, *was_other = given + turn * GIVEN + 16384 + four;
        i64 inputs = member * mask_member + (image % masks) * mask_image + four * 8;
#else
        const unsigned char* bits = given + turn * GIVEN + 16384 + four;
#endif

        // The middle image, and its products with the last layer's weights.
#pragma unroll 1
        for (int py = 0; py < 2; py++)
#pragma unroll
        for (int px = 0; px < 2; px++) {
            float c[MT][4][4] = {};
            u32 rows = now + (warp * MT + py + 1) * (SC * 64), laid = weights + py * 16384 + px * 8192;
            Mask kept[MT][2];
#pragma unroll
            for (int m = 0; m < MT; m++)
                for (int e = 0; e < 2; e++) {
                    int pixel = (2 * (warp * MT + m) + py) * 32 + 2 * (eight + 8 * e) + px;
#if MASK == 3
                    kept[m][e] = load_mask(mask, inputs + pixel * 32);
#else
                    kept[m][e] = bits[pixel * 4];
#endif
                }
#pragma unroll
            for (int tap = 0; tap < 4; tap++) {
                int dx = (px + 1) / 2 + (tap & 1);
#pragma unroll
                for (int kc = 0; kc < 2; kc++) {
                    u32 a[MT][4], b[4];
#pragma unroll
                    for (int m = 0; m < MT; m++) load_matrix(a[m], rows + pixel_at[dx][kc] + (m - (tap >> 1)) * (SC * 64));
#pragma unroll
                    for (int n = 0; n < 2; n++) {
                        load_transposed(b, laid + (tap * 2 + kc) * 1024 + weight_at[kc][n]);
#pragma unroll
                        for (int m = 0; m < MT; m++) {
                            multiply_add(c[m][2 * n], a[m], b[0], b[1]);
                            multiply_add(c[m][2 * n + 1], a[m], b[2], b[3]);
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
                    v[e] = finish(c[m], e, nullptr, kept[m][e]);
#if MASK == 3
                    after[pixel[e] * 4] = (unsigned char)moved_bits(c[m], e, kept[m][e]);
                    after[4096 + pixel[e] * 4] = (unsigned char)positive_bits(kept[m][e]);
#endif
                    u32 to = mid + pixel[e] * 64 + swizzle<4>(four, pixel[e]) * 16;
                    store(to, v[e]);
                }
                float made[2][4] = {};
                u32 a[2][4] = {{v[0].x, v[1].x, v[0].y, v[1].y}, {v[0].z, v[1].z, v[0].w, v[1].w}};
                for (int s = 0; s < 2; s++)
                    for (int n = 0; n < 2; n++) multiply_add(made[n], a[s], h[s][n][0], h[s][n][1]);
                for (int e = 0; e < 2; e++)
                    for (int n = 0; n < 2; n++)
                        taps[pixel[e] * WORDS + n * 4 + four] = pack(made[n][2 * e], made[n][2 * e + 1]);
            }
        }
        __syncthreads();

        // The output, and the norm's gradient there.
        u16* to = t + ((i64)member * images + image) * 4096;
#pragma unroll 2
        for (int y = warp; y < 64; y += WARPS) {  // a lane has pixels 2 j and 2 j + 1, and half of what its neighbours need
            float even = 0.f, odd = 0.f, right = 0.f, left = 0.f;
#pragma unroll
            for (int ty = 0; ty < 2; ty++) {
                int i = (y + 1) / 2 - ty, ky = (y + 1) % 2 + 2 * ty;
                if (i >= 0 && i < 32) {
                    const u32* at = taps + (i * 32 + lane) * WORDS + ky * 2;
                    u32 first = at[0], second = at[1];
                    even += high(first);
                    odd += low(second);
                    left += low(first);
                    right += high(second);
                }
            }
            right = shuffle(right, lane + 31);
            left = shuffle(left, lane + 1);
            u32 pair = pack(even + (lane > 0 ? right : 0.f), odd + (lane < 31 ? left : 0.f));
            float2 weigh = *(const float2*)(weighed + y * 64 + 2 * lane);
            float a = low(pair), b = high(pair);
#if MASK == 3
            float2 first = sigmoid_slopes(weigh.x, a, total), second = sigmoid_slopes(weigh.y, b, total);
            a = first.x;
            b = second.x;
            pair = pack(first.y, second.y);
#elif POWER == 1
            a = a > 0.f ? weigh.x : a < 0.f ? -weigh.x : 0.f;
            b = b > 0.f ? weigh.y : b < 0.f ? -weigh.y : 0.f;
#else
            a *= 2.f * weigh.x;
            b *= 2.f * weigh.y;
#endif
            *(u32*)(to + y * 64 + 2 * lane) = pair;
            pair = pack(a, b);
            lines[(y + 1) * LINE + 2 * lane + 1] = (u16)pair;
            lines[(y + 1) * LINE + 2 * lane + 2] = (u16)(pair >> 16);
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
                load_transposed(a, mid + row * 64 + swizzle<4>(m * 2 + ((lane >> 3) & 1), row) * 16);
                multiply_add(sum4[m][0], a, b[0][0], b[0][1]);
                multiply_add(sum4[m][1], a, b[1][0], b[1][1]);
            }
        }
        __syncthreads();

        // The gradient of the middle image, with a border, its channels in fragment order; it overwrites what is no longer needed.
        for (int n = threadIdx.x; n < 4 * 34 * 4; n += THREADS) {
            int side = n / (34 * 4), along = n / 4 % 34, r = side == 0 ? 0 : side == 1 ? 33 : along, x = side == 2 ? 0 : side == 3 ? 33 : along;
            store(region + big_pixel(0, r, x) * 64 + (n & 3) * 16, make_uint4(0, 0, 0, 0));
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
            for (int n = 0; n < 4; n++) multiply_add(c[n], a, b4[n][0], b4[n][1]);
            for (int e = 0; e < 2; e++) {
                int x = (m & 1) * 16 + eight + 8 * e + 1;
                uint4 whole = packed(c, e, nullptr), v = only(whole, kept[e]);
#if MASK == 3
                int pixel = i * 32 + x - 1;
                *(uint4*)(middle_crossed + (((i64)member * images + image) * 1024 + pixel) * 32 + four * 8) =
                    crossed(whole, kept[e], after[4096 + pixel * 4]);
#endif
                u32 at = region + big_pixel(0, i + 1, x) * 64 + four * 4, w[4] = {v.x, v.y, v.z, v.w};
                for (int q = 0; q < 4; q++) store(at + swizzle<4>(q, x >> 1) * 16, w[q]);
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
                    int place = ((ky & 1 ^ 1) * 2 + (kx & 1 ^ 1)) * 4 + (ky >> 1) * 2 + 1 - (kx >> 1);  // in the weights of `conv_up`
                    u32 rows = region + ((warp * MT * 2 + ky) * 2 + (kx & 1)) * (BC * 64);
#pragma unroll
                    for (int kc = 0; kc < 2; kc++) {
                        u32 a[MT][4], b[4];
#pragma unroll
                        for (int m = 0; m < MT; m++)
                            load_matrix(a[m], rows + big_at[kx >> 1][kc] + m * (4 * BC * 64));
#pragma unroll
                        for (int n = 0; n < 2; n++) {
                            load_matrix(b, weights + place * 2048 + back_at[kc][n]);
#pragma unroll
                            for (int m = 0; m < MT; m++) {
                                multiply_add(c[m][2 * n], a[m], b[0], b[1]);
                                multiply_add(c[m][2 * n + 1], a[m], b[2], b[3]);
                            }
                        }
                    }
                }
            }
            u16* back = slope + ((i64)member * images + image) * 8192 + four * 8;
#pragma unroll
            for (int m = 0; m < MT; m++)
                for (int e = 0; e < 2; e++) {
                    int pixel = (warp * MT + m) * 16 + eight + 8 * e;
                    uint4 whole = packed(c[m], e, nullptr);
                    *(uint4*)(back + pixel * 32) = only(whole, kept[m][e]);
#if MASK == 3
                    *(uint4*)(small_crossed + (((i64)member * images + image) * 256 + pixel) * 32 + four * 8) =
                        crossed(whole, kept[m][e], was_other[pixel * 4]);
#endif
                }
        }

        // The gradient of the weights between them.
#pragma unroll 1
        for (int i = 0; i < 16; i++) {
            u32 b[2][4];
            int j = (lane & 15) + 1;
#pragma unroll
            for (int n = 0; n < 2; n++)
                load_transposed(b[n], now + ((i + 1) * SC + j) * 64 + swizzle<4>(n * 2 + (lane >> 4), j) * 16);
            int place = (lane & 7) + 8 * (lane >> 4);
#pragma unroll
            for (int m = 0; m < TW * 2; m++) {
                int tap = warp * TW + m / 2, ky = tap >> 2, kx = tap & 3, x = place + (kx >> 1);
                u32 a[4];
                load_transposed(a, region + (((i * 2 + ky) * 2 + (kx & 1)) * BC + x) * 64 +
                                  swizzle<4>(m % 2 * 2 + ((lane >> 3) & 1), x) * 16);
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    multiply_add(sum3[m][2 * n], a, b[n][0], b[n][1]);
                    multiply_add(sum3[m][2 * n + 1], a, b[n][2], b[n][3]);
                }
            }
        }
        __syncthreads();
    }
    parts += ((i64)blockIdx.x * gridDim.y + member) * 16384;
    for (int m = 0; m < TW * 2; m++)
        for (int n = 0; n < 4; n++)
            for (int e = 0; e < 2; e++) {
                int row = (warp * TW + m / 2) * 32 + channel_of_column(m % 2 * 16 + eight + 8 * e);
                *(float2*)(parts + row * 32 + n * 8 + four * 2) = make_float2(sum3[m][n][2 * e], sum3[m][n][2 * e + 1]);
            }
#if MASK == 3
    for (int distance = 1; distance < 32; distance *= 2) total += shuffle(total, lane ^ distance);
    if (lane == 0) sums[(member * gridDim.x + blockIdx.x) * WARPS + warp] = total;
#endif
    head_parts += (((i64)blockIdx.x * WARPS + warp) * gridDim.y + member) * 512;
    for (int m = 0; m < 2; m++)
        for (int n = 0; n < 2; n++)
            for (int e = 0; e < 4; e++)
                head_parts[(n * 8 + four * 2 + (e & 1)) * 32 + m * 16 + eight + 8 * (e >> 1)] = sum4[m][n][e];
}
