/* RaskIO's own client, over the C API: one large read, into host or GPU memory, or many small ones submitted together. */
#include "bench.h"
#include "cuda.h"

#include <pthread.h>
#include <raskio.h>

static struct job job;
static unsigned char *destination; /* where the check sum is taken */
static CUdeviceptr device;         /* where a device read goes; 0: none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_done = PTHREAD_COND_INITIALIZER;
static size_t reads_left;

static void fail(const char *what, raskio_status status, const raskio_error *error)
{
    fprintf(stderr, "raskio_read: %s: %s: %s\n", what, raskio_status_name(status),
            error ? raskio_error_message(error) : "no message");
    exit(1);
}

static void done(void *user_data, const raskio_result *result)
{
    (void)user_data;
    if (result->status != RASKIO_OK)
        fail("read", result->status, result->error);
    pthread_mutex_lock(&lock);
    if (!--reads_left)
        pthread_cond_signal(&all_done);
    pthread_mutex_unlock(&lock);
}

static void read_range(raskio_object *object, uint64_t offset, unsigned char *data, uint64_t size)
{
    raskio_error *error = NULL;
    raskio_read_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.memory = device ? RASKIO_MEMORY_CUDA : RASKIO_MEMORY_HOST;
    raskio_status status = raskio_read(object, offset, data, size, &options, done, NULL, NULL, &error);
    if (status != RASKIO_OK)
        fail("raskio_read", status, error);
}

static void read_all(raskio_object *object, int large)
{
    size_t reads = large ? 1 : job_requests(&job);
    pthread_mutex_lock(&lock);
    reads_left = reads;
    pthread_mutex_unlock(&lock);
    if (large)
        /* Split by the client's task_size. */
        read_range(object, 0, device ? (unsigned char *)(uintptr_t)device : destination, job.total);
    for (size_t i = 0; !large && i < reads; i++)
        read_range(object, i * job.stride, destination + i * job.request, job_length(&job, i));
    pthread_mutex_lock(&lock);
    while (reads_left)
        pthread_cond_wait(&all_done, &lock);
    pthread_mutex_unlock(&lock);
}

static raskio_client *make_client(const char *backend, uint32_t threads, uint32_t budget)
{
    raskio_client_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.task_size = job.request;
    options.max_concurrent_requests = budget;
    if (!strcmp(backend, "MULTI_POLL")) {
        options.backend = RASKIO_BACKEND_MULTI_POLL;
        options.num_reactors = threads;
    } else if (!strcmp(backend, "EASY_THREADPOOL")) {
        options.backend = RASKIO_BACKEND_EASY_THREADPOOL;
        options.num_threads = threads;
    } else {
        fprintf(stderr, "BACKEND is \"%s\"; it must be MULTI_POLL or EASY_THREADPOOL\n", backend);
        exit(2);
    }
    raskio_client *client = NULL;
    raskio_error *error = NULL;
    raskio_status status = raskio_client_new(&options, &client, &error);
    if (status != RASKIO_OK)
        fail("raskio_client_new", status, error);
    return client;
}

int main(int argc, char **argv)
{
    if (argc != 10 || (strcmp(argv[6], "large") && strcmp(argv[6], "small") && strcmp(argv[6], "device"))) {
        fprintf(stderr, "usage: raskio_read URL TOTAL REQUEST STRIDE REPS large|small|device BACKEND THREADS BUDGET\n"
                        "THREADS: reactors of MULTI_POLL, threads of EASY_THREADPOOL; 0 leaves the default\n"
                        "BUDGET: most requests in flight; 0 leaves the default\n");
        return 2;
    }
    job = parse_job(argv);
    int large = strcmp(argv[6], "small") != 0;
    if (large && job.stride != job.request) {
        fprintf(stderr, "one large read has no gaps: STRIDE must be REQUEST\n");
        return 2;
    }
    raskio_client *client = make_client(argv[7], (uint32_t)parse_number(argv[8], "THREADS"),
                                        (uint32_t)parse_number(argv[9], "BUDGET"));
    raskio_object *object = NULL;
    raskio_error *error = NULL;
    raskio_status status = raskio_object_open(client, job.url, NULL, &object, &error);
    if (status != RASKIO_OK)
        fail("raskio_object_open", status, error);
    destination = make_destination(&job);
    if (!strcmp(argv[6], "device")) {
        cuda_start();
        CUDA(mem_alloc(&device, job.total));
    }
    uint64_t requests_before = 0, connections_before = 0;
    for (int rep = 0; rep < job.reps; rep++) {
        memset(destination, 1, job.total);
        if (device) {
            CUDA(set(device, 1, job.total));
            CUDA(context_synchronize());
        }
        double cpu = cpu_seconds(), start = wall_seconds();
        read_all(object, large);
        double seconds = wall_seconds() - start;
        cpu = cpu_seconds() - cpu;
        /* The callback has said that the bytes are there: nothing is waited for. */
        if (device)
            CUDA(to_host(destination, device, job.total));

        raskio_stats stats;
        memset(&stats, 0, sizeof stats);
        stats.struct_size = sizeof stats;
        raskio_client_stats(client, &stats);
        char extra[256];
        snprintf(extra, sizeof extra, ", \"version\": \"%s\", \"requests_sent\": %llu, \"connections_opened\": %llu",
                 raskio_version(), (unsigned long long)(stats.requests_started - requests_before),
                 (unsigned long long)(stats.connections_opened - connections_before));
        requests_before = stats.requests_started;
        connections_before = stats.connections_opened;
        report("raskio", &job, seconds, cpu, destination, extra);
    }
    raskio_object_release(object);
    status = raskio_client_shut_down(client, 10000, &error);
    if (status != RASKIO_OK)
        fail("raskio_client_shut_down", status, error);
    raskio_client_release(client);
    return 0;
}
