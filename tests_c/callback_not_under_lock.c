/* No lock is held while a callback runs: it may call everything that does not block, and other threads may use the same
 * client, objects and operation while it is inside. A lock that is held shows as a callback that waits for ever. */
#include "support.h"

static raskio_client *client;
static raskio_object *object;
static raskio_op *slot; /* the outer operation */
static struct outcome inner;
static unsigned char *first, *second;
static uint32_t kind;

static void everything(void) {
  raskio_stats stats;
  raskio_object_info info;
  raskio_client *other = NULL, *shared;
  raskio_object *opened = NULL;
  raskio_client_options options = client_options(kind);
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  raskio_op_release(raskio_op_acquire(slot));
  raskio_op_cancel(slot);
  CHECK_STATUS(raskio_client_stats(client, &stats), RASKIO_OK);
  CHECK_STATUS(raskio_object_info_get(object, &info), RASKIO_OK);
  CHECK_EQ(raskio_object_size(object), info.size);
  raskio_client_trim(client);
  shared = raskio_client_acquire(client);
  CHECK_STATUS(raskio_object_open(shared, url_of("medium"), NULL, &opened, NULL), RASKIO_OK);
  raskio_object_release(raskio_object_acquire(opened));
  raskio_object_release(opened);
  raskio_client_release(shared);
  CHECK_STATUS(raskio_client_new(&options, &other, NULL), RASKIO_OK);
  raskio_client_release(other);
}

static void *from_another_thread(void *argument) {
  raskio_op *op = NULL;
  everything();
  CHECK_STATUS(raskio_read(object, 0, second, SMALL, NULL, outcome_done, argument, &op, NULL), RASKIO_OK);
  raskio_op_release(op);
  CHECK_STATUS(raskio_op_wait(slot, 0), RASKIO_ERR_TIMED_OUT); /* its callback has not returned */
  return NULL;
}

static void done(void *user_data, const raskio_result *result) {
  struct timespec limit;
  pthread_t thread;
  CHECK_STATUS(result->status, RASKIO_OK);
  everything();
  CHECK(pthread_create(&thread, NULL, from_another_thread, &inner) == 0);
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 30;
  if (pthread_timedjoin_np(thread, NULL, &limit) != 0) {
    CHECK_FAILED("another thread cannot use the client while a callback is inside");
    _exit(1);
  }
  outcome_done(user_data, result);
}

static void nested_done(void *user_data, const raskio_result *result) {
  /* A read from a callback of a read from a callback. */
  CHECK_STATUS(result->status, RASKIO_OK);
  CHECK_STATUS(raskio_read(object, 0, second, SMALL, NULL, outcome_done, user_data, NULL, NULL), RASKIO_OK);
}

int main(void) {
  for (int callback_threads = 0; callback_threads < 2; callback_threads++) {
    FOR_EACH_BACKEND(backend) {
      raskio_client_options options = client_options(backend);
      raskio_error *error = NULL;
      struct outcome outer, nested;
      options.callback_threads = (uint32_t)callback_threads;
      kind = backend;
      REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
      object = open_object(client, "medium");
      first = buffer_new(SMALL);
      second = buffer_new(SMALL);
      outcome_init(&outer);
      outcome_init(&inner);
      outcome_init(&nested);
      CHECK_STATUS(raskio_read(object, 0, first, SMALL, NULL, done, &outer, &slot, NULL), RASKIO_OK);
      outcome_wait(&outer, "the outer read");
      check_buffer(first, 0, SMALL, "the outer read");
      outcome_wait(&inner, "the read that another thread started");
      CHECK_STATUS(inner.status, RASKIO_OK);
      check_buffer(second, 0, SMALL, "the inner read");
      CHECK_STATUS(raskio_op_wait(slot, 10000), RASKIO_OK);
      raskio_op_release(slot);
      CHECK_STATUS(raskio_read(object, 0, first, SMALL, NULL, nested_done, &nested, &slot, NULL), RASKIO_OK);
      outcome_wait(&nested, "the nested read");
      CHECK_STATUS(nested.status, RASKIO_OK);
      raskio_op_release(slot);
      raskio_object_release(object);
      shut_down(client);
      outcome_free(&outer);
      outcome_free(&inner);
      outcome_free(&nested);
      buffer_free(first);
      buffer_free(second);
    }
  }
  return CHECK_DONE();
}
