/* Local files through the C API: written, durable if asked, dropped from the cache, read by every call, counted. */
#include "support.h"

#define SIZE 300000u
#define PART 100000u

static void use(uint32_t local, uint32_t how) {
  raskio_client_options options = client_options(RASKIO_BACKEND_EASY_THREADPOOL);
  raskio_object_options opening;
  raskio_read_options durable;
  raskio_client *client = NULL;
  raskio_object *file = NULL, *again = NULL;
  raskio_error *error = NULL;
  raskio_op *op = NULL;
  raskio_stats stats;
  struct outcome outcome;
  unsigned char *from = buffer_new(SIZE), *to = buffer_new(SIZE), *part = buffer_new(PART);
  char path[] = "/tmp/raskio-files-XXXXXX", url[64];
  uint64_t size = 0;
  int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  close(fd);
  options.local_backend = local;
  options.task_size = 65536;
  REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
  memset(&opening, 0, sizeof opening);
  opening.struct_size = sizeof opening;
  opening.flags = RASKIO_OBJECT_WRITABLE | how;
  CHECK_EQ(raskio_endpoint_infer(path), RASKIO_ENDPOINT_FILE);
  REQUIRE_OK(raskio_object_open(client, path, &opening, &file, &error), error);
  for (size_t i = 0; i < SIZE; i++) from[i] = pattern(i);

  memset(&durable, 0, sizeof durable);
  durable.struct_size = sizeof durable;
  durable.flags = RASKIO_WRITE_DURABLE;
  outcome_init(&outcome);
  REQUIRE_OK(raskio_write(file, 0, from, SIZE, &durable, outcome_done, &outcome, &op, &error), error);
  CHECK_STATUS(raskio_op_wait(op, RASKIO_UNLIMITED), RASKIO_OK);
  raskio_op_release(op);
  outcome_wait(&outcome, "the write");
  if (outcome.status != RASKIO_OK) CHECK_FAILED("%s", raskio_error_message(outcome.error));
  CHECK_EQ(outcome.bytes, SIZE);
  check_guards(from, SIZE, "the source");
  outcome_free(&outcome);

  snprintf(url, sizeof url, "file://%s", path);
  REQUIRE_OK(raskio_object_open(client, url, NULL, &again, &error), error);
  REQUIRE_OK(raskio_object_drop_cache(again, &error), error);
  REQUIRE_OK(raskio_object_stat_sync(again, &size, &error), error);
  CHECK_EQ(size, SIZE);
  CHECK_STATUS(read_now(again, 0, to, SIZE), RASKIO_OK);
  check_buffer(to, 0, SIZE, "the file");
  CHECK_STATUS(read_now(file, 12345, part, PART), RASKIO_OK);
  check_buffer(part, 12345, PART, "a part of it");

  /* What a write cannot be asked, and what a read cannot be. */
  durable.flags = RASKIO_READ_FROM_END;
  CHECK_ERROR(raskio_write(file, 0, from, 1, &durable, outcome_done, NULL, NULL, &error), RASKIO_ERR_UNSUPPORTED, error,
              "RASKIO_READ_FROM_END set, which is for reads");
  durable.flags = RASKIO_WRITE_DURABLE;
  CHECK_ERROR(raskio_read_sync(file, 0, to, 1, &durable, NULL, &error), RASKIO_ERR_UNSUPPORTED, error,
              "RASKIO_WRITE_DURABLE set, which is for raskio_write");
  CHECK_ERROR(raskio_write(again, 0, from, 1, NULL, outcome_done, NULL, NULL, &error), RASKIO_ERR_UNSUPPORTED, error,
              "RASKIO_OBJECT_WRITABLE");
  opening.flags = RASKIO_OBJECT_DIRECT | RASKIO_OBJECT_BUFFERED;
  CHECK_ERROR(raskio_object_open(client, path, &opening, &again, &error), RASKIO_ERR_INVALID_ARGUMENT, error, "BUFFERED");

  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  CHECK_STATUS(raskio_client_stats(client, &stats), RASKIO_OK);
  CHECK_EQ(stats.file_bytes_written, SIZE);
  CHECK_EQ(stats.file_bytes_read, SIZE + PART);
  if (how == RASKIO_OBJECT_BUFFERED) CHECK_EQ(stats.file_bytes_written_direct, 0);
  if (local == RASKIO_LOCAL_PREAD) CHECK_EQ(stats.file_bytes_uring, 0);
  raskio_object_release(file);
  raskio_object_release(again);
  REQUIRE_OK(raskio_client_shut_down(client, 20000, &error), error);
  unlink(path);
  CHECK_ERROR(raskio_object_open(client, path, NULL, &again, &error), RASKIO_ERR_SHUT_DOWN, error, NULL);
  raskio_client_release(client);
  buffer_free(from);
  buffer_free(to);
  buffer_free(part);
}

int main(void) {
  static const uint32_t hows[] = {RASKIO_OBJECT_BUFFERED, RASKIO_OBJECT_DIRECT, 0};
  for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
    use(RASKIO_LOCAL_AUTO, hows[i]);
    use(RASKIO_LOCAL_PREAD, hows[i]);
  }
  return CHECK_DONE();
}
