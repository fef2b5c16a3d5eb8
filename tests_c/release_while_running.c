/* Release neither cancels nor waits: with every handle gone the reads still run, call back and have the right bytes, and
 * on_shut_down is the last callback of all. The last release may also happen inside a callback. */
#include "support.h"

#define READS 20

struct run {
  int finished, last_calls, finished_at_last;
  raskio_client *client; /* for the last callback to release, or NULL */
  raskio_object *object;
};

struct read {
  struct run *run;
  unsigned char *buffer;
};

static void done(void *user_data, const raskio_result *result) {
  struct read *read = (struct read *)user_data;
  struct run *run = read->run;
  CHECK_STATUS(result->status, RASKIO_OK);
  check_buffer(read->buffer, 0, SMALL, "a read without a handle");
  if (__atomic_add_fetch(&run->finished, 1, __ATOMIC_SEQ_CST) == READS) {
    raskio_object_release(run->object);
    raskio_client_release(run->client);
  }
}

static void last(void *user_data) {
  struct run *run = (struct run *)user_data;
  run->finished_at_last = __atomic_load_n(&run->finished, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&run->last_calls, 1, __ATOMIC_SEQ_CST);
}

static void try_it(uint32_t backend, int release_in_callback) {
  raskio_client_options options = client_options(backend);
  raskio_client *client = NULL;
  raskio_object *object;
  raskio_error *error = NULL;
  struct read reads[READS];
  struct run run;
  double began, limit;
  memset(&run, 0, sizeof run);
  options.on_shut_down = last;
  options.user_data = &run;
  REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
  object = open_object(client, "small?delay_ms=150");
  if (release_in_callback) {
    run.client = raskio_client_acquire(client);
    run.object = raskio_object_acquire(object);
  }
  for (int i = 0; i < READS; i++) {
    raskio_op *op = NULL;
    reads[i].run = &run;
    reads[i].buffer = buffer_new(SMALL);
    CHECK_STATUS(raskio_read(object, 0, reads[i].buffer, SMALL, NULL, done, &reads[i], &op, NULL), RASKIO_OK);
    raskio_op_release(op);
  }
  began = now();
  raskio_object_release(object);
  raskio_client_release(client);
  CHECK(now() - began < 0.1);
  limit = now() + 30;
  while (__atomic_load_n(&run.last_calls, __ATOMIC_SEQ_CST) == 0 && now() < limit) sleep_ms(1);
  CHECK_EQ(__atomic_load_n(&run.finished, __ATOMIC_SEQ_CST), READS);
  CHECK_EQ(__atomic_load_n(&run.last_calls, __ATOMIC_SEQ_CST), 1);
  CHECK_EQ(run.finished_at_last, READS);
  sleep_ms(50);
  CHECK_EQ(__atomic_load_n(&run.last_calls, __ATOMIC_SEQ_CST), 1);
  for (int i = 0; i < READS; i++) buffer_free(reads[i].buffer);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    try_it(backend, 0);
    try_it(backend, 1);
  }
  return CHECK_DONE();
}
