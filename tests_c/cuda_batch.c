/* A batch into host memory and device memory: ranges that share a request come into one pinned buffer and are copied to each
 * place from there. */
#include "cuda.h"

enum { ITEMS = 6 };

static void batch(uint32_t backend) {
  struct sim_cuda_live before = live_now();
  raskio_client *client = new_client(backend);
  char tag[32], name[64];
  raskio_object *object;
  static const uint64_t offsets[ITEMS] = {0, 50, 150, 4000, 300000, 5000};
  static const size_t sizes[ITEMS] = {100, 100, 1000, 10, 70000, 500};
  CUdeviceptr device[ITEMS] = {0};
  unsigned char *host = buffer_new(sizes[5]);
  raskio_read_spec specs[ITEMS];
  raskio_error *error = NULL;
  struct outcome outcome;
  long asked;
  /* It runs over two drivers at a time. */
  snprintf(tag, sizeof tag, "X-Test:cuda-%ld", (long)getpid());
  snprintf(name, sizeof name, "medium?header=%s", tag);
  object = open_object(client, name);
  asked = requests_with(tag);
  outcome_init(&outcome);
  memset(specs, 0, sizeof specs);
  for (size_t i = 0; i < ITEMS; i++) {
    specs[i].object = object;
    specs[i].offset = offsets[i];
    specs[i].size = sizes[i];
    if (i < 5) device[i] = device_new(sizes[i]);
    specs[i].data = i < 5 ? pointer_to(device[i]) : host;
  }
  REQUIRE_OK(raskio_read_batch(client, specs, ITEMS, sizeof specs[0], NULL, outcome_done, &outcome, NULL, &error), error);
  outcome_wait(&outcome, "a batch");
  if (outcome.status != RASKIO_OK) CHECK_FAILED("%s", raskio_error_message(outcome.error));
  CHECK_EQ(requests_with(tag) - asked, 3);
  for (size_t i = 0; i < 5; i++) {
    check_device(device[i], offsets[i], sizes[i], "an item");
    device_free(device[i]);
  }
  check_buffer(host, offsets[5], sizes[5], "the host's item");
  buffer_free(host);
  outcome_free(&outcome);
  raskio_object_release(object);
  shut_down(client);
  check_nothing_left(before, "after a batch");
}

int main(void) {
  cuda_start();
  FOR_EACH_BACKEND(backend) batch(backend);
  return CHECK_DONE();
}
