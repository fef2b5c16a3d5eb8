/* The last bytes of an object, in one round trip that also tells its size; all of it if it is smaller. */
#include "support.h"

static raskio_read_options from_end(void) {
  raskio_read_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.flags = RASKIO_READ_FROM_END;
  return options;
}

static void read_end(raskio_client *client, const char *name, uint64_t object_size, uint64_t size, long requests) {
  raskio_read_options options = from_end();
  raskio_object *object = open_object(client, name);
  uint64_t bytes = size < object_size ? size : object_size, got = 0;
  unsigned char *buffer = buffer_new(size);
  struct outcome outcome;
  raskio_error *error = NULL;
  long before = requests_with(name);
  outcome_init(&outcome);
  CHECK(raskio_object_size(object) == RASKIO_SIZE_UNKNOWN);
  REQUIRE_OK(raskio_read(object, 0, buffer, size, &options, outcome_done, &outcome, NULL, &error), error);
  outcome_wait(&outcome, name);
  CHECK_STATUS(outcome.status, RASKIO_OK);
  CHECK_EQ(outcome.bytes, bytes);
  CHECK_EQ(outcome.offset, object_size - bytes);
  CHECK_EQ(outcome.attempts, requests);
  CHECK_EQ(requests_with(name) - before, requests);
  CHECK_EQ(raskio_object_size(object), object_size);
  for (uint64_t i = 0; i < bytes; i++) {
    if (buffer[i] != pattern(object_size - bytes + i)) {
      CHECK_FAILED("%s: byte %llu is wrong", name, (unsigned long long)i);
      break;
    }
  }
  for (uint64_t i = bytes; i < size; i++) {
    if (buffer[i] != GUARD_BYTE) {
      CHECK_FAILED("%s: byte %llu was written", name, (unsigned long long)i);
      break;
    }
  }
  check_guards(buffer, size, name);
  /* Known now. */
  REQUIRE_OK(raskio_read_sync(object, 0, buffer, size, &options, &got, &error), error);
  CHECK_EQ(got, bytes);
  outcome_free(&outcome);
  buffer_free(buffer);
  raskio_object_release(object);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_client(backend);
    raskio_read_options options = from_end();
    raskio_object *object = open_object(client, "small");
    unsigned char byte;
    raskio_error *error = NULL;
    uint64_t bytes = 77;
    read_end(client, "medium?header=X-Test:end1", MEDIUM, 65536, 1);
    read_end(client, "small?header=X-Test:end2", SMALL, 65536, 1);
    /* More than a task: the size first, then requests of a task each. */
    read_end(client, "large?header=X-Test:end3", LARGE, 9u << 20, 4);
    CHECK_ERROR(raskio_read_sync(object, 5, &byte, 1, &options, &bytes, &error), RASKIO_ERR_INVALID_ARGUMENT, error, "offset");
    CHECK_EQ(bytes, 77);
    REQUIRE_OK(raskio_read_sync(object, 0, NULL, 0, &options, &bytes, &error), error);
    CHECK_EQ(bytes, 0);
    raskio_object_release(object);
    object = open_object(client, "small?status=404");
    CHECK_ERROR(raskio_read_sync(object, 0, &byte, 1, &options, NULL, &error), RASKIO_ERR_NOT_FOUND, error, "the last 1 bytes");
    raskio_object_release(object);
    shut_down(client);
  }
  return CHECK_DONE();
}
