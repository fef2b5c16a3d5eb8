/* RaskIO's own client, over the C API. How its reads are handed over is part of what is measured:
 *
 *   all     every read of the plan at once, then wait for the last callback (large reads, batches of small ones)
 *   window  BUDGET reads in flight, the next one started by the callback of the one that ended
 *   batch   every read of the plan by one call of raskio_read_batch; GAP says what may share a request
 *   one     a read, wait for its callback, the next read
 *   sync    raskio_read_sync, one after the other
 *
 * The destination is host memory, or memory of the first GPU. */
#include "bench.h"
#include "cuda.h"

#include <pthread.h>
#include <raskio.h>
#include <stdatomic.h>

static struct job job;
static unsigned char *destination; /* where the check sum is taken */
static CUdeviceptr device;         /* where device reads go; 0: none */
static raskio_read_options read_options;
static raskio_object **objects; /* one for each read; reads of one path share it */
static double *started;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static size_t reads_left;
static atomic_size_t next_read;
static int by_window;

static void fail(const char *what, raskio_status status, const raskio_error *error)
{
    fprintf(stderr, "raskio_read: %s: %s: %s\n", what, raskio_status_name(status),
            error ? raskio_error_message(error) : "no message");
    exit(1);
}

static void start_read(size_t i);

static void done(void *user_data, const raskio_result *result)
{
    size_t i = (size_t)user_data;
    if (result->status != RASKIO_OK)
        fail("read", result->status, result->error);
    job.latencies[i] = (wall_seconds() - started[i]) * 1e6;
    if (by_window) {
        size_t next = atomic_fetch_add(&next_read, 1);
        if (next < job.count)
            start_read(next);
    }
    pthread_mutex_lock(&lock);
    if (!--reads_left)
        pthread_cond_signal(&ended);
    pthread_mutex_unlock(&lock);
}

static void *place(const struct span *read)
{
    return device ? (void *)(uintptr_t)(device + read->at) : destination + read->at;
}

static void start_read(size_t i)
{
    const struct span *read = &job.reads[i];
    raskio_error *error = NULL;
    started[i] = wall_seconds();
    raskio_status status = raskio_read(objects[i], read->first, place(read), read->length, &read_options, done,
                                       (void *)i, NULL, &error);
    if (status != RASKIO_OK)
        fail("raskio_read", status, error);
}

static void expect(size_t reads)
{
    pthread_mutex_lock(&lock);
    reads_left = reads;
    pthread_mutex_unlock(&lock);
}

static void batch_done(void *user_data, const raskio_result *result)
{
    (void)user_data;
    if (result->status != RASKIO_OK)
        fail("batch", result->status, result->error);
    pthread_mutex_lock(&lock);
    reads_left = 0;
    pthread_cond_signal(&ended);
    pthread_mutex_unlock(&lock);
}

static void start_batch(raskio_client *client, const char *gap)
{
    raskio_read_spec *specs = make(job.count, sizeof *specs);
    for (size_t i = 0; i < job.count; i++) {
        const struct span *read = &job.reads[i];
        specs[i] = (raskio_read_spec){.object = objects[i], .offset = read->first, .data = place(read), .size = read->length};
    }
    raskio_batch_options options = {.struct_size = sizeof options, .read = &read_options};
    if (!strcmp(gap, "never"))
        options.coalesce_gap = RASKIO_COALESCE_NEVER;
    else if (strcmp(gap, "default"))
        options.coalesce_gap = parse_number(gap, "GAP");
    raskio_error *error = NULL;
    raskio_status status =
        raskio_read_batch(client, specs, job.count, sizeof *specs, &options, batch_done, NULL, NULL, &error);
    if (status != RASKIO_OK)
        fail("raskio_read_batch", status, error);
    free(specs);
}

static void wait_for_all(void)
{
    pthread_mutex_lock(&lock);
    while (reads_left)
        pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
}

static void read_all(raskio_client *client, const char *submit, size_t window, const char *gap)
{
    if (!strcmp(submit, "batch")) {
        expect(1);
        start_batch(client, gap);
        wait_for_all();
        return;
    }
    if (!strcmp(submit, "all") || by_window) {
        size_t first = by_window && window < job.count ? window : job.count;
        expect(job.count);
        atomic_store(&next_read, first);
        for (size_t i = 0; i < first; i++)
            start_read(i);
        wait_for_all();
        return;
    }
    int sync = !strcmp(submit, "sync");
    for (size_t i = 0; i < job.count; i++) {
        if (!sync) {
            expect(1);
            start_read(i);
            wait_for_all();
            continue;
        }
        const struct span *read = &job.reads[i];
        raskio_error *error = NULL;
        started[i] = wall_seconds();
        raskio_status status =
            raskio_read_sync(objects[i], read->first, place(read), read->length, &read_options, NULL, &error);
        if (status != RASKIO_OK)
            fail("raskio_read_sync", status, error);
        job.latencies[i] = (wall_seconds() - started[i]) * 1e6;
    }
}

static raskio_client *make_client(const char *backend, uint32_t threads, uint32_t budget, const char *concurrency,
                                  size_t task_size)
{
    raskio_client_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.task_size = task_size;
    options.max_concurrent_requests = budget;
    if (!strcmp(backend, "MULTI_POLL")) {
        options.backend = RASKIO_BACKEND_MULTI_POLL;
        options.num_reactors = threads;
        options.concurrency = !strcmp(concurrency, "fixed") ? RASKIO_CONCURRENCY_FIXED : RASKIO_CONCURRENCY_ADAPTIVE;
    } else {
        options.backend = RASKIO_BACKEND_EASY_THREADPOOL;
        options.num_threads = threads;
    }
    raskio_client *client = NULL;
    raskio_error *error = NULL;
    raskio_status status = raskio_client_new(&options, &client, &error);
    if (status != RASKIO_OK)
        fail("raskio_client_new", status, error);
    return client;
}

static void open_objects(raskio_client *client)
{
    objects = make(job.count, sizeof(raskio_object *));
    for (size_t i = 0; i < job.count; i++) {
        if (i && job.reads[i].path == job.reads[i - 1].path) {
            objects[i] = raskio_object_acquire(objects[i - 1]);
            continue;
        }
        char url[512];
        raskio_error *error = NULL;
        snprintf(url, sizeof url, "%s%s", job.base, job.reads[i].path);
        raskio_status status = raskio_object_open(client, url, NULL, &objects[i], &error);
        if (status != RASKIO_OK)
            fail("raskio_object_open", status, error);
    }
}

static int one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(word, *words))
        words++;
    return *words != NULL;
}

int main(int argc, char **argv)
{
    if (argc != 12 || !one_of(argv[5], (const char *const[]){"MULTI_POLL", "EASY_THREADPOOL", NULL}) ||
        !one_of(argv[8], (const char *const[]){"adaptive", "fixed", NULL}) ||
        !one_of(argv[9], (const char *const[]){"all", "window", "batch", "one", "sync", NULL}) ||
        !one_of(argv[10], (const char *const[]){"host", "device", NULL})) {
        fprintf(stderr, "usage: raskio_read BASE PLAN REQUEST REPS MULTI_POLL|EASY_THREADPOOL THREADS BUDGET\n"
                        "                   adaptive|fixed all|window|batch|one|sync host|device never|default|GAP\n"
                        "THREADS: reactors of MULTI_POLL, threads of EASY_THREADPOOL; 0 leaves the default\n"
                        "BUDGET: most requests in flight; 0 leaves the default\n");
        return 2;
    }
    job = parse_job(argv);
    uint32_t budget = (uint32_t)parse_number(argv[7], "BUDGET");
    by_window = !strcmp(argv[9], "window");
    started = make(job.count, sizeof *started);
    read_options.struct_size = sizeof read_options;
    read_options.memory = RASKIO_MEMORY_HOST;
    destination = make_destination(&job);
    if (!strcmp(argv[10], "device")) {
        read_options.memory = RASKIO_MEMORY_CUDA;
        cuda_start();
        CUDA(mem_alloc(&device, job.total));
    }
    raskio_client *client = NULL;
    uint64_t requests_before = 0;
    for (int rep = 0; rep < job.reps; rep++) {
        memset(destination, 1, job.total);
        if (device) {
            CUDA(set(device, 1, job.total));
            CUDA(context_synchronize());
        }
        double cpu = cpu_seconds(), start = wall_seconds();
        if (!client) {
            /* The first repetition has everything that a fresh process has to do. */
            client = make_client(argv[5], (uint32_t)parse_number(argv[6], "THREADS"), budget, argv[8],
                                 strcmp(argv[9], "batch") ? job.request : 0);
            open_objects(client);
        }
        read_all(client, argv[9], budget, argv[11]);
        double seconds = wall_seconds() - start;
        cpu = cpu_seconds() - cpu;
        /* The callback has said that the bytes are there: nothing is waited for. */
        if (device)
            CUDA(to_host(destination, device, job.total));

        raskio_stats stats;
        memset(&stats, 0, sizeof stats);
        stats.struct_size = sizeof stats;
        raskio_client_stats(client, &stats);
        char extra[64], version[64];
        snprintf(extra, sizeof extra, ", \"requests_sent\": %llu",
                 (unsigned long long)(stats.requests_started - requests_before));
        snprintf(version, sizeof version, "RaskIO %s", raskio_version());
        requests_before = stats.requests_started;
        /* Of reads that are all handed over at once, most of the time is spent waiting for their turn. */
        report("raskio", version, &job, seconds, cpu, destination, strcmp(argv[9], "all") && strcmp(argv[9], "batch"), extra);
    }
    hold_if_asked();
    for (size_t i = 0; i < job.count; i++)
        raskio_object_release(objects[i]);
    raskio_error *error = NULL;
    raskio_status status = raskio_client_shut_down(client, 10000, &error);
    if (status != RASKIO_OK)
        fail("raskio_client_shut_down", status, error);
    raskio_client_release(client);
    return 0;
}
