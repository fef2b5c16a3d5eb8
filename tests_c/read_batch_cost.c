/* What a batch costs while it waits: the memory of an item is what the header says, and handing a huge batch over takes no
 * longer for what others do. */
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

int main(void) {
  one(RASKIO_BACKEND_MULTI_POLL, RASKIO_COALESCE_NEVER, "reactors");
  one(RASKIO_BACKEND_EASY_THREADPOOL, RASKIO_COALESCE_NEVER, "threads");
  one(RASKIO_BACKEND_MULTI_POLL, 1 << 20, "reactors, merged");
  return CHECK_DONE();
}
