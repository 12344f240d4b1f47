// A CUDA block on a CPU: its threads are coroutines, which take turns where they wait for each other.
// It replaces the few instructions that the kernels have as assembler, so that they run without a GPU.
// Each kernel compiles it again: it does without the containers and the mathematics of C++, which take longer than it.
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <utility>

extern "C" float expf(float);

#undef DEV
#define DEV inline
#define __global__
#define __launch_bounds__(...)
#define __align__(n)
#define __shared__

struct dim3 {
    int x, y, z;
};
struct uint4 {
    u32 x, y, z, w;
};
struct float2 {
    float x, y;
};
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }

dim3 threadIdx, blockIdx, blockDim, gridDim;
extern unsigned char shared[];
alignas(128) unsigned char shared[1 << 18];

// --- threads -----------------------------------------------------------------------------------------

constexpr int MOST_THREADS = 1024, MOST_COPIES = 512, STACK = 1 << 16;
struct Copy {
    u32 to;
    const void* from;
    bool ok;
    int group;
};
struct Thread {
    jmp_buf place;  // where it goes on, once it has begun
    bool begun, done;
    int warps, blocks;  // how often it has waited for its warp, and for the block
    int groups, first, last;  // groups of copies that were committed; copies that are made, and all of them
    Copy copies[MOST_COPIES];  // a ring
};
static Thread threads[MOST_THREADS];
static char stacks[MOST_THREADS][STACK];
static jmp_buf home;
static ucontext_t outside;
static int current, thread_count;
static int warp_arrivals[MOST_THREADS / 32];  // the total so far
static int block_arrivals;

// A context is entered once as such: later jumps do without its two calls of the system.
static void change() {
    if (!_setjmp(threads[current].place)) _longjmp(home, 1);
}

static void wait_for_warp() {
    int warp = current / 32, turn = ++threads[current].warps;
    warp_arrivals[warp]++;
    while (warp_arrivals[warp] < 32 * turn) change();
}

static void wait_for_block() {
    int turn = ++threads[current].blocks;
    block_arrivals++;
    while (block_arrivals < thread_count * turn) change();
}
inline void __syncthreads() { wait_for_block(); }

static void (*body)();
static void begin() {
    body();
    threads[current].done = true;
    change();
}

static void enter(Thread& thread) {
    thread.begun = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks[current];
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, begin, 0);
    swapcontext(&outside, &context);
}

static void go_on(Thread& thread) {
    if (_setjmp(home)) return;
    if (thread.begun) _longjmp(thread.place, 1);
    enter(thread);
}

static void run_block(int count) {
    if (count > MOST_THREADS) abort();
    thread_count = count;
    block_arrivals = 0;
    memset(warp_arrivals, 0, sizeof warp_arrivals);
    for (int n = 0; n < count; n++) {
        Thread& thread = threads[n];
        thread.begun = thread.done = false;
        thread.warps = thread.blocks = thread.groups = thread.first = thread.last = 0;
    }
    for (int left = count; left > 0;)
        for (int n = 0; n < count; n++) {
            if (threads[n].done) continue;
            current = n;
            threadIdx.x = n;
            go_on(threads[n]);
            left -= threads[n].done;
        }
}

// --- instructions ------------------------------------------------------------------------------------

// The values that the lanes of a warp exchange; two sets, since a lane may be one instruction ahead.
static u32 shown[32][2][32][6];
static u32 (*show(const u32* values, int count))[6] {
    int warp = current / 32, turn = threads[current].warps & 1;
    memcpy(shown[warp][turn][current % 32], values, 4 * count);
    wait_for_warp();
    return shown[warp][turn];
}

inline u32 address(const void* p) { return (u32)((const unsigned char*)p - shared); }

inline void copy16(u32 to, const void* from, bool ok) {
    if (to % 16 || to + 16 > sizeof shared || (ok && (size_t)from % 16)) abort();
    Thread& thread = threads[current];
    if (thread.last - thread.first == MOST_COPIES) abort();
    thread.copies[thread.last++ % MOST_COPIES] = {to, from, ok, thread.groups};
}
inline void commit_copies() { threads[current].groups++; }
template <int LATER> void wait_copies() {  // copies are made when they are waited for, and not before
    Thread& thread = threads[current];
    for (; thread.first < thread.last; thread.first++) {
        const Copy& copy = thread.copies[thread.first % MOST_COPIES];
        if (copy.group >= thread.groups - LATER) break;
        if (copy.ok)
            memcpy(shared + copy.to, copy.from, 16);
        else
            memset(shared + copy.to, 0, 16);
    }
    __syncthreads();
}

inline void load_matrix(u32 r[4], u32 at) {
    auto all = show(&at, 1);
    int lane = current % 32;
    for (int n = 0; n < 4; n++) memcpy(&r[n], shared + all[8 * n + lane / 4][0] + lane % 4 * 4, 4);
}

inline void load_transposed(u32 r[4], u32 at) {
    auto all = show(&at, 1);
    int lane = current % 32;
    for (int n = 0; n < 4; n++) {
        u16 half[2];
        for (int e = 0; e < 2; e++) memcpy(&half[e], shared + all[8 * n + lane % 4 * 2 + e][0] + lane / 4 * 2, 2);
        r[n] = half[0] | (u32)half[1] << 16;
    }
}

inline float __uint_as_float(u32 bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

inline void multiply_add(float c[4], const u32 a[4], u32 b0, u32 b1) {
    u32 mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    auto all = show(mine, 6);
    int lane = current % 32;
    auto half = [](u32 word, int k) { return __uint_as_float(k % 2 ? word & 0xffff0000u : word << 16); };
    for (int e = 0; e < 4; e++) {
        int row = lane / 4 + 8 * (e / 2), column = lane % 4 * 2 + e % 2;
        float sum = 0.f;
        for (int k = 0; k < 16; k++)
            sum += half(all[row % 8 * 4 + k % 8 / 2][k / 8 * 2 + row / 8], k) * half(all[column * 4 + k % 8 / 2][4 + k / 8], k);
        c[e] += sum;
    }
}

inline u32 rounded(float value) {  // to the nearest bfloat16, to even
    u32 bits;
    memcpy(&bits, &value, 4);
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}
inline u32 pack(float low, float high) { return rounded(low) | rounded(high) << 16; }

inline u32 pick_bytes(u32 a, u32 selector) {  // bytes of a; where a selector is 8 or more, the sign of the byte
    u32 found = 0;
    for (int n = 0; n < 4; n++) {
        int which = selector >> 4 * n & 15, byte = a >> 8 * (which & 3) & 255;
        found |= (u32)(which < 8 ? byte : byte & 128 ? 255 : 0) << 8 * n;
    }
    return found;
}

inline float shuffle(float v, int lane) {  // the value of another lane
    u32 mine;
    memcpy(&mine, &v, 4);
    return __uint_as_float(show(&mine, 1)[lane & 31][0]);
}

inline void store(u32 to, u32 v) { memcpy(shared + to, &v, 4); }
inline void store(u32 to, uint4 v) { memcpy(shared + to, &v, 16); }

// --- launches ----------------------------------------------------------------------------------------

template <class... A, size_t... I>
static void launch(void (*kernel)(A...), void** given, std::index_sequence<I...>, int x, int y, int count) {
    static void (*called)(A...);
    static void** arguments;
    called = kernel;
    arguments = given;
    body = [] { called(*(A*)arguments[I]...); };
    gridDim = {x, y, 1};
    blockDim = {count, 1, 1};
    for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++) {
            memset(shared, 0xff, sizeof shared);  // NaN unless it was written
            run_block(count);
        }
}

template <class... A> static void launch(void (*kernel)(A...), void** given, int x, int y, int count) {
    launch(kernel, given, std::index_sequence_for<A...>(), x, y, count);
}
