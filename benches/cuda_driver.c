/* What calls of the CUDA driver cost that decide how a stager works. One line of JSON a figure.
 *   cuda_driver events THREADS          creating and destroying an event; recording it; asking for it
 *   cuda_driver recycle event|host SIZE BUFFERS TOTAL [back]
 *       copies from few page-locked buffers (back: to them): each is used again once its copy is done, which is learned from an
 *       event that a thread waits for, or from a host function in the stream */
#include "bench.h"
#include "cuda.h"

#include <pthread.h>

enum { LOOPS = 20000, THREADS_MOST = 64 };

static double per_loop_ns(double began)
{
    return (wall_seconds() - began) / LOOPS * 1e9;
}

struct costs {
    double make, record, query;
};

static pthread_barrier_t start_line;

static void *measure_events(void *argument)
{
    struct costs *costs = argument;
    void *event, *stream;
    CUDA(context_set(cuda.context));
    CUDA(stream_create(&stream, CUDA_STREAM_NON_BLOCKING));
    pthread_barrier_wait(&start_line);
    double began = wall_seconds();
    for (int i = 0; i < LOOPS; i++) {
        CUDA(event_create(&event, CUDA_EVENT_DISABLE_TIMING | CUDA_EVENT_BLOCKING_SYNC));
        CUDA(event_destroy(event));
    }
    costs->make = per_loop_ns(began);
    CUDA(event_create(&event, CUDA_EVENT_DISABLE_TIMING | CUDA_EVENT_BLOCKING_SYNC));
    pthread_barrier_wait(&start_line);
    began = wall_seconds();
    for (int i = 0; i < LOOPS; i++)
        CUDA(event_record(event, stream));
    costs->record = per_loop_ns(began);
    CUDA(stream_synchronize(stream));
    pthread_barrier_wait(&start_line);
    began = wall_seconds();
    for (int i = 0; i < LOOPS; i++)
        CUDA(event_query(event));
    costs->query = per_loop_ns(began);
    CUDA(event_destroy(event));
    return NULL;
}

static void events(int threads)
{
    pthread_t running[THREADS_MOST];
    struct costs costs[THREADS_MOST], sum = {0, 0, 0};
    pthread_barrier_init(&start_line, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&running[i], NULL, measure_events, &costs[i])) {
            fprintf(stderr, "no thread\n");
            exit(1);
        }
    for (int i = 0; i < threads; i++) {
        pthread_join(running[i], NULL);
        sum.make += costs[i].make;
        sum.record += costs[i].record;
        sum.query += costs[i].query;
    }
    printf("{\"what\": \"driver events\", \"threads\": %d, \"create_destroy_ns\": %.0f, \"record_ns\": %.0f, "
           "\"query_ns\": %.0f}\n",
           threads, sum.make / threads, sum.record / threads, sum.query / threads);
}

/* Free buffers, last in first out. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static void **free_buffers;
static size_t free_count;

static void give_back(void *buffer)
{
    pthread_mutex_lock(&lock);
    free_buffers[free_count++] = buffer;
    pthread_cond_signal(&freed);
    pthread_mutex_unlock(&lock);
}

static void *take(void)
{
    pthread_mutex_lock(&lock);
    while (!free_count)
        pthread_cond_wait(&freed, &lock);
    void *buffer = free_buffers[--free_count];
    pthread_mutex_unlock(&lock);
    return buffer;
}

/* Events in the order of their copies; the waiting thread takes them from the front. */
struct queued {
    void *event, *buffer;
};
static struct queued *queue;
static size_t queue_size, queue_head, queue_tail;
static int ended;
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER;

static void *wait_for_events(void *unused)
{
    (void)unused;
    CUDA(context_set(cuda.context));
    for (;;) {
        pthread_mutex_lock(&lock);
        while (queue_head == queue_tail && !ended)
            pthread_cond_wait(&queued, &lock);
        if (queue_head == queue_tail) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        struct queued first = queue[queue_head % queue_size];
        pthread_mutex_unlock(&lock);
        CUDA(event_synchronize(first.event));
        pthread_mutex_lock(&lock);
        queue_head++;
        pthread_mutex_unlock(&lock);
        give_back(first.buffer);
    }
}

static void recycle(const char *how, size_t size, size_t buffers, size_t total, int back)
{
    int by_event = !strcmp(how, "event");
    void *stream, **events = calloc(buffers, sizeof *events);
    CUdeviceptr device;
    pthread_t waiter;
    size_t copies = (total + size - 1) / size;
    free_buffers = calloc(buffers, sizeof *free_buffers);
    queue = calloc(buffers, sizeof *queue);
    queue_size = buffers;
    CUDA(stream_create(&stream, CUDA_STREAM_NON_BLOCKING));
    CUDA(mem_alloc(&device, size));
    for (size_t i = 0; i < buffers; i++) {
        CUDA(host_alloc(&free_buffers[i], size, 0));
        memset(free_buffers[i], 1, size);
        CUDA(event_create(&events[i], CUDA_EVENT_DISABLE_TIMING | CUDA_EVENT_BLOCKING_SYNC));
    }
    free_count = buffers;
    if (by_event && pthread_create(&waiter, NULL, wait_for_events, NULL)) {
        fprintf(stderr, "no thread\n");
        exit(1);
    }
    double cpu = cpu_seconds(), began = wall_seconds();
    for (size_t i = 0; i < copies; i++) {
        void *buffer = take();
        if (back)
            CUDA(from_device(buffer, device, size, stream));
        else
            CUDA(to_device(device, buffer, size, stream));
        if (!by_event) {
            CUDA(launch_host(stream, give_back, buffer));
            continue;
        }
        /* At most `buffers` are under way, so the event of this place is free again. */
        void *event = events[i % buffers];
        CUDA(event_record(event, stream));
        pthread_mutex_lock(&lock);
        queue[queue_tail++ % queue_size] = (struct queued){event, buffer};
        pthread_cond_signal(&queued);
        pthread_mutex_unlock(&lock);
    }
    CUDA(stream_synchronize(stream));
    double seconds = wall_seconds() - began;
    cpu = cpu_seconds() - cpu;
    if (by_event) {
        pthread_mutex_lock(&lock);
        ended = 1;
        pthread_cond_signal(&queued);
        pthread_mutex_unlock(&lock);
        pthread_join(waiter, NULL);
    }
    printf("{\"what\": \"recycle\", \"by\": \"%s\", \"way\": \"%s\", \"size\": %zu, \"buffers\": %zu, \"gb_per_s\": %.2f, \"us_per_copy\": %.2f, "
           "\"cpu_us_per_copy\": %.2f, \"cpu_s_per_gib\": %.4f}\n",
           how, back ? "back" : "there", size, buffers, (double)copies * size / 1e9 / seconds, seconds / copies * 1e6, cpu / copies * 1e6,
           cpu * (1 << 30) / ((double)copies * size));
}

int main(int argc, char **argv)
{
    int threads = argc == 3 && !strcmp(argv[1], "events") ? (int)parse_number(argv[2], "THREADS") : 0;
    int back = argc == 7 && !strcmp(argv[6], "back");
    int copies = (argc == 6 || back) && !strcmp(argv[1], "recycle") && (!strcmp(argv[2], "event") || !strcmp(argv[2], "host"));
    if (!copies && (threads < 1 || threads > THREADS_MOST)) {
        fprintf(stderr, "usage: cuda_driver events THREADS (1 to %d), or cuda_driver recycle event|host SIZE BUFFERS TOTAL [back]\n",
                THREADS_MOST);
        return 2;
    }
    cuda_start();
    if (copies)
        recycle(argv[2], parse_number(argv[3], "SIZE"), parse_number(argv[4], "BUFFERS"), parse_number(argv[5], "TOTAL"),
                back);
    else
        events(threads);
    return 0;
}
