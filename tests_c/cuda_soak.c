/* Many reads into device memory, of many sizes, from several threads, at once: every byte right, every buffer and event accounted
 * for at the end. RASKIO_SOAK_BYTES says how much to read with each backend (default 256 MiB). */
#include "cuda.h"

#define THREADS 4
#define MOST (4u << 20)

static raskio_client *client;
static raskio_object *object;
static void *context;
static uint64_t wanted, taken;

static void *reads(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  unsigned char *copy = buffer_new(MOST);
  CUdeviceptr memory;
  CUDA_OK(cu.context_push(context));
  memory = device_new(MOST);
  while (__atomic_load_n(&taken, __ATOMIC_SEQ_CST) < wanted) {
    struct outcome outcomes[8];
    size_t size = (size_t)rand_r(&seed) % (MOST / 8 - 1) + 1, step = MOST / 8;
    raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
    raskio_error *error = NULL;
    uint64_t offsets[8];
    options.task_size = (uint64_t)rand_r(&seed) % MOST + 1;
    for (int i = 0; i < 8; i++) {
      offsets[i] = (uint64_t)rand_r(&seed) % (LARGE - MOST);
      outcome_init(&outcomes[i]);
      REQUIRE_OK(raskio_read(object, offsets[i], pointer_to(memory + (unsigned)i * step), size, &options, outcome_done,
                             &outcomes[i], NULL, &error), error);
    }
    for (int i = 0; i < 8; i++) {
      outcome_wait(&outcomes[i], "a read");
      CHECK_STATUS(outcomes[i].status, RASKIO_OK);
      CHECK_EQ(outcomes[i].bytes, size);
      outcome_free(&outcomes[i]);
    }
    /* All bytes of one in four rounds, the ends of all. */
    CUDA_OK(cu.to_host(copy, memory, MOST));
    for (int i = 0; i < 8; i++) {
      size_t every = seed % 4 == 0 ? 1 : size - 1;
      for (size_t at = 0; at < size; at += every > 0 ? every : 1) {
        if (copy[(unsigned)i * step + at] != pattern(offsets[i] + at)) {
          CHECK_FAILED("byte %zu of %zu at %llu is wrong", at, size, (unsigned long long)offsets[i]);
          break;
        }
      }
    }
    __atomic_add_fetch(&taken, 8 * size, __ATOMIC_SEQ_CST);
  }
  device_free(memory);
  CUDA_OK(cu.context_pop(NULL));
  buffer_free(copy);
  return NULL;
}

int main(void) {
  const char *bytes = getenv("RASKIO_SOAK_BYTES");
  struct sim_cuda_live before;
  wanted = bytes == NULL || *bytes == '\0' ? 256u << 20 : strtoull(bytes, NULL, 10);
  REQUIRE(wanted > 0);
  context = cuda_start();
  before = live_now();
  FOR_EACH_BACKEND(backend) {
    pthread_t threads[THREADS];
    raskio_stats stats;
    double began = now();
    client = new_device_client(backend, 1 << 20, 16);
    object = open_sized(client, "large", LARGE);
    taken = 0;
    for (uintptr_t t = 0; t < THREADS; t++) REQUIRE(pthread_create(&threads[t], NULL, reads, (void *)(t + 1)) == 0);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    stats = wait_idle(client);
    CHECK_EQ(stats.bytes_staged, taken);
    CHECK_EQ(stats.ops_started, stats.ops_finished);
    CHECK_EQ(stats.requests_failed, 0);
    CHECK(stats.pinned_bytes <= 16u << 20);
    CHECK(stats.events_total <= 1024);
    printf("backend %u: %.1f GiB in %.1f s, %llu buffers, %llu waits for one, %llu events\n", backend,
           (double)taken / (1u << 30), now() - began, (unsigned long long)stats.bounce_buffers_total,
           (unsigned long long)stats.bounce_buffer_waits, (unsigned long long)stats.events_total);
    raskio_object_release(object);
    shut_down(client);
    check_nothing_left(before, "after the shutdown");
  }
  return CHECK_DONE();
}
