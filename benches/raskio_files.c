/* Reads or writes blocks of a file at random, or in order, with so many in flight, for so many seconds: what fio does with io_uring.
 *
 *   raskio_files FILE BLOCK DEPTH SECONDS direct|cached random|sequential reads|batches|writes [uring|pread|auto [CALLS]]
 *
 * reads: DEPTH calls of raskio_read in flight, each of which is followed by the next in its callback; writes: of raskio_write.
 * batches: raskio_read_batch of CALLS blocks (DEPTH, if not given), two in flight. In the environment: with RASKIO_FILES_DEVICE the
 * memory is that of the first GPU, with RASKIO_FILES_HUGE it is on huge pages. What was moved last is compared. One line of JSON:
 * blocks and bytes a second, CPU seconds, latency. */
#include "cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <raskio.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t block, blocks, depth, batch;
static int in_order, by_batch, writes, on_device;
static double ends;
static raskio_client *client;
static raskio_object *object;
static raskio_read_options options = {.struct_size = sizeof options, .memory = RASKIO_MEMORY_HOST};
static unsigned char *memory;
/* What a file is filled with by writes. */
enum { WRITTEN = 0x5a };
static atomic_uint_fast64_t finished, next_block;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static uint64_t running;

struct slot {
    uint64_t number, random, last;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what, const char *message)
{
    fprintf(stderr, "raskio_files: %s: %s\n", what, message);
    exit(1);
}

static uint64_t place(struct slot *slot)
{
    if (in_order)
        return slot->last = atomic_fetch_add(&next_block, 1) % blocks * block;
    slot->random ^= slot->random << 13;
    slot->random ^= slot->random >> 7;
    slot->random ^= slot->random << 17;
    return slot->last = slot->random % blocks * block;
}

static void start(struct slot *slot);

static void done(void *user_data, const raskio_result *result)
{
    struct slot *slot = user_data;
    if (result->status != RASKIO_OK)
        fail(writes ? "write" : "read", raskio_error_message(result->error));
    atomic_fetch_add(&finished, by_batch ? batch : 1);
    if (now() < ends) {
        start(slot);
        return;
    }
    pthread_mutex_lock(&lock);
    if (!--running)
        pthread_cond_signal(&ended);
    pthread_mutex_unlock(&lock);
}

static void start(struct slot *slot)
{
    raskio_error *error = NULL;
    raskio_status status;
    if (by_batch) {
        raskio_read_spec *specs = calloc(batch, sizeof *specs);
        raskio_batch_options how = {.struct_size = sizeof how, .coalesce_gap = RASKIO_COALESCE_NEVER, .read = &options};
        for (uint64_t i = 0; i < batch; i++)
            specs[i] = (raskio_read_spec){.object = object, .offset = place(slot), .size = block,
                                          .data = memory + (slot->number * batch + i) * block};
        status = raskio_read_batch(client, specs, batch, sizeof *specs, &how, done, slot, NULL, &error);
        free(specs);
    } else if (writes) {
        status = raskio_write(object, place(slot), memory + slot->number * block, block, &options, done, slot, NULL, &error);
    } else {
        status = raskio_read(object, place(slot), memory + slot->number * block, block, &options, done, slot, NULL, &error);
    }
    if (status != RASKIO_OK)
        fail("start", raskio_error_message(error));
}

/* Keeps every slot at work until then, and waits for the last. */
static void run_until(double end, struct slot *all, uint64_t slots)
{
    ends = end;
    running = slots;
    for (uint64_t i = 0; i < slots; i++)
        start(&all[i]);
    pthread_mutex_lock(&lock);
    while (running)
        pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
}

static void make_memory(uint64_t size)
{
    if (on_device) {
        CUdeviceptr device;
        cuda_start();
        CUDA(mem_alloc(&device, size));
        CUDA(set(device, WRITTEN, size));
        CUDA(context_synchronize());
        memory = (unsigned char *)(uintptr_t)device;
        options.memory = RASKIO_MEMORY_CUDA;
        return;
    }
    if (posix_memalign((void **)&memory, 2 << 20, size))
        fail("memory", strerror(ENOMEM));
    /* What lies together in memory is moved in fewer pieces. NumPy asks for it, and so KvikIO has it; fio does not. */
    madvise(memory, size, getenv("RASKIO_FILES_HUGE") ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(memory, WRITTEN, size);
}

/* Compares the block that a slot moved last with the file. A batch keeps that of its last item. */
static void check(const char *path, const struct slot *slot)
{
    unsigned char *want = malloc(block), *got = malloc(block);
    const unsigned char *mine = memory + (by_batch ? slot->number * batch + batch - 1 : slot->number) * block;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || !want || !got || pread(fd, want, block, (off_t)slot->last) != (ssize_t)block)
        fail("comparing", strerror(errno));
    close(fd);
    if (on_device)
        CUDA(to_host(got, (CUdeviceptr)(uintptr_t)mine, block));
    else
        memcpy(got, mine, block);
    if (memcmp(want, got, block) != 0)
        fail(path, "what was moved is not what is there");
    free(want);
    free(got);
}

int main(int argc, char **argv)
{
    raskio_client_options settings = {.struct_size = sizeof settings};
    raskio_object_options opening = {.struct_size = sizeof opening};
    raskio_error *error = NULL;
    uint64_t size = 0;
    if (argc < 8) {
        fprintf(stderr, "usage: %s FILE BLOCK DEPTH SECONDS direct|cached random|sequential reads|batches|writes [uring|pread|auto [CALLS]]\n",
                argv[0]);
        return 2;
    }
    block = strtoull(argv[2], NULL, 10);
    depth = strtoull(argv[3], NULL, 10);
    opening.flags = strcmp(argv[5], "direct") == 0 ? RASKIO_OBJECT_DIRECT : RASKIO_OBJECT_BUFFERED;
    in_order = strcmp(argv[6], "sequential") == 0;
    by_batch = strcmp(argv[7], "batches") == 0;
    writes = strcmp(argv[7], "writes") == 0;
    opening.flags |= writes ? RASKIO_OBJECT_WRITABLE : 0;
    on_device = getenv("RASKIO_FILES_DEVICE") != NULL;
    const char *backend = argc > 8 ? argv[8] : "uring";
    settings.local_backend = strcmp(backend, "pread") == 0  ? RASKIO_LOCAL_PREAD
                             : strcmp(backend, "auto") == 0 ? RASKIO_LOCAL_AUTO
                                                            : RASKIO_LOCAL_URING;
    batch = argc > 9 ? strtoull(argv[9], NULL, 10) : depth;
    settings.uring_queue_depth = (uint32_t)depth;
    settings.num_threads = (uint32_t)depth;
    if (raskio_client_new(&settings, &client, &error) != RASKIO_OK)
        fail("client", raskio_error_message(error));
    if (raskio_object_open(client, argv[1], &opening, &object, &error) != RASKIO_OK)
        fail("open", raskio_error_message(error));
    if (raskio_object_stat_sync(object, &size, &error) != RASKIO_OK)
        fail("stat", raskio_error_message(error));
    blocks = size / block;
    uint64_t slots = by_batch ? 2 : depth, pieces = by_batch ? 2 * batch : depth;
    struct slot *all = calloc(slots, sizeof *all);
    if (!all)
        fail("memory", strerror(errno));
    if (blocks == 0)
        fail(argv[1], "it is smaller than a block");
    make_memory(pieces * block);
    for (uint64_t i = 0; i < slots; i++)
        all[i] = (struct slot){i, 0x9e3779b97f4a7c15u * (i + 1), 0};
    /* Once each before the clock runs: buffers are pinned and registered then. */
    run_until(0, all, slots);
    finished = 0;
    double began = now(), cpu_began = cpu();
    run_until(began + strtod(argv[4], NULL), all, slots);
    double took = now() - began, used = cpu() - cpu_began;
    raskio_stats stats = {.struct_size = sizeof stats};
    raskio_client_stats(client, &stats);
    for (uint64_t i = 0; i < slots; i++)
        check(argv[1], &all[i]);
    double moved = (double)(stats.file_bytes_read + stats.file_bytes_written);
    printf("{\"iops\": %.0f, \"bytes_per_s\": %.0f, \"cpu_s\": %.3f, \"wall_s\": %.3f, \"p50_us\": %" PRIu64 ", \"p99_us\": %" PRIu64
           ", \"direct\": %.3f, \"uring\": %.3f}\n",
           (double)finished / took, (double)(finished * block) / took, used, took, stats.op_p50_us, stats.op_p99_us,
           (double)(stats.file_bytes_read_direct + stats.file_bytes_written_direct) / moved, (double)stats.file_bytes_uring / moved);
    return 0;
}
