/* What a batch costs: the memory of an item is what the header says, handing a huge one over is quick, and what is submitted after
 * it does not wait for its end. */
#include "support.h"

enum { COUNT = 200000 };

static long memory_kib(const char *name) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  long kib = -1;
  REQUIRE(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) kib = strtol(line + strlen(name), NULL, 10);
  }
  fclose(file);
  REQUIRE(kib >= 0);
  return kib;
}

/* VmHWM is the most since the last time: what came before does not count. */
static void forget_the_most(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  REQUIRE(file != NULL);
  REQUIRE(fputs("5", file) >= 0 && fclose(file) == 0);
}

static void one(uint32_t backend, uint64_t gap, const char *what) {
  raskio_client *client = new_client(backend);
  raskio_object *stuck = open_object(client, "huge?stall=1");
  unsigned char *buffer = buffer_new(COUNT);
  raskio_read_spec *specs = (raskio_read_spec *)calloc(COUNT, sizeof *specs);
  raskio_batch_options options;
  raskio_op *op = NULL;
  raskio_error *error = NULL;
  struct outcome outcome;
  double began, handed_over, per_item, peak_per_item;
  long before;
  REQUIRE(specs != NULL);
  outcome_init(&outcome);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.coalesce_gap = gap;
  for (size_t i = 0; i < COUNT; i++) {
    specs[i].object = stuck;
    specs[i].offset = i * 5000;
    specs[i].data = buffer + i;
    specs[i].size = 1;
  }
  check_works(client, "a client before a batch");
  forget_the_most();
  before = memory_kib("VmRSS:");
  began = now();
  REQUIRE_OK(raskio_read_batch(client, specs, COUNT, sizeof *specs, &options, outcome_done, &outcome, &op, &error), error);
  handed_over = now() - began;
  per_item = (double)(memory_kib("VmRSS:") - before) * 1024 / COUNT;
  peak_per_item = (double)(memory_kib("VmHWM:") - before) * 1024 / COUNT;
  fprintf(stderr, "%s: %d items handed over in %.3f s, %.0f bytes an item, %.0f while they were\n", what, COUNT, handed_over,
          per_item, peak_per_item);
  CHECK(per_item <= 400);
  CHECK(peak_per_item <= 600);
  /* 10 us an item would be an unusable machine: nothing is quadratic. */
  CHECK(handed_over < 10e-6 * COUNT);
  began = now();
  raskio_op_cancel(op);
  outcome_wait(&outcome, what);
  CHECK_STATUS(outcome.status, RASKIO_ERR_CANCELLED);
  CHECK(now() - began < 20e-6 * COUNT);
  raskio_op_release(op);
  outcome_free(&outcome);
  check_works(client, "a client after a batch");
  raskio_object_release(stuck);
  free(specs);
  buffer_free(buffer);
  shut_down(client);
}

/* Small reads, one after the other, while a batch of as many requests as items is on its way. */
static void beside(uint32_t backend, const char *what) {
  enum { ITEMS = 20000, SIZE = 512 };
  raskio_client *client = new_client(backend);
  raskio_object *object = open_object(client, "huge"), *small = open_object(client, "small");
  unsigned char *buffer = buffer_new(ITEMS * SIZE), *one = buffer_new(SMALL);
  raskio_read_spec *specs = (raskio_read_spec *)calloc(ITEMS, sizeof *specs);
  raskio_batch_options options;
  raskio_error *error = NULL;
  struct outcome outcome;
  double began, whole, longest = 0;
  int reads = 0;
  REQUIRE(specs != NULL);
  outcome_init(&outcome);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.coalesce_gap = RASKIO_COALESCE_NEVER;
  for (size_t i = 0; i < ITEMS; i++) {
    specs[i].object = object;
    specs[i].offset = i * SIZE;
    specs[i].data = buffer + i * SIZE;
    specs[i].size = SIZE;
  }
  CHECK_STATUS(read_now(small, 0, one, SMALL), RASKIO_OK);
  began = now();
  REQUIRE_OK(raskio_read_batch(client, specs, ITEMS, sizeof *specs, &options, outcome_done, &outcome, NULL, &error), error);
  for (; outcome_calls(&outcome) == 0; reads++) {
    double start = now();
    CHECK_STATUS(read_now(small, 0, one, SMALL), RASKIO_OK);
    if (now() - start > longest) longest = now() - start;
  }
  whole = now() - began;
  CHECK_STATUS(outcome.status, RASKIO_OK);
  check_buffer(buffer, 0, ITEMS * SIZE, what);
  fprintf(stderr, "%s: %d reads beside a batch of %.3f s, the longest took %.3f s\n", what, reads, whole, longest);
  CHECK(reads >= 5);
  CHECK(longest < whole / 2);
  outcome_free(&outcome);
  free(specs);
  buffer_free(buffer);
  buffer_free(one);
  raskio_object_release(object);
  raskio_object_release(small);
  shut_down(client);
}

int main(void) {
  beside(RASKIO_BACKEND_MULTI_POLL, "reactors");
  beside(RASKIO_BACKEND_EASY_THREADPOOL, "threads");
  one(RASKIO_BACKEND_MULTI_POLL, RASKIO_COALESCE_NEVER, "reactors");
  one(RASKIO_BACKEND_EASY_THREADPOOL, RASKIO_COALESCE_NEVER, "threads");
  one(RASKIO_BACKEND_MULTI_POLL, 1 << 20, "reactors, merged");
  return CHECK_DONE();
}
