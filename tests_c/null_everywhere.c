/* NULL for a required pointer gives INVALID_ARGUMENT and names it; for an optional one it is fine; release and free accept
 * it; and no output is written by a call that fails. */
#include "support.h"

static void never(void *user_data, const raskio_result *result) {
  (void)user_data;
  CHECK_FAILED("a callback of a call that failed: %s", raskio_status_name(result->status));
}

#define REFUSED(call, text) CHECK_ERROR(call, RASKIO_ERR_INVALID_ARGUMENT, error, text)

int main(void) {
  raskio_client *client = new_client(RASKIO_BACKEND_MULTI_POLL);
  raskio_object *object = NULL, *no_object = NULL;
  raskio_op *op = NULL;
  raskio_error *error = NULL;
  raskio_stats stats;
  raskio_object_info info;
  uint64_t bytes = 77;
  char data[4] = "abc";
  raskio_read_spec spec;

  memset(&spec, 0, sizeof spec);
  REQUIRE_OK(raskio_object_open(client, "http://127.0.0.1:9/x", NULL, &object, &error), error);
  REQUIRE_OK(raskio_object_open(client, "http://127.0.0.1:9/x", NULL, &no_object, NULL), error);
  raskio_object_release(no_object);
  no_object = NULL;

  REFUSED(raskio_client_new(NULL, NULL, &error), "client_out");
  CHECK_STATUS(raskio_client_new(NULL, NULL, NULL), RASKIO_ERR_INVALID_ARGUMENT);
  REFUSED(raskio_client_default(NULL, &error), "client_out");
  CHECK_STATUS(raskio_client_default(NULL, NULL), RASKIO_ERR_INVALID_ARGUMENT);
  CHECK(raskio_client_acquire(NULL) == NULL);
  raskio_client_release(NULL);
  REFUSED(raskio_client_shut_down(NULL, 0, &error), "client");
  CHECK_STATUS(raskio_client_shut_down(NULL, 0, NULL), RASKIO_ERR_INVALID_ARGUMENT);
  raskio_client_trim(NULL);
  stats.struct_size = sizeof stats;
  stats.ops_started = 77;
  CHECK_STATUS(raskio_client_stats(NULL, &stats), RASKIO_ERR_INVALID_ARGUMENT);
  CHECK_EQ(stats.ops_started, 77);
  CHECK_STATUS(raskio_client_stats(client, NULL), RASKIO_ERR_INVALID_ARGUMENT);

  CHECK_EQ(raskio_endpoint_infer(NULL), RASKIO_ENDPOINT_AUTO);
  REFUSED(raskio_object_open(NULL, "http://127.0.0.1:9/x", NULL, &no_object, &error), "client");
  REFUSED(raskio_object_open(client, NULL, NULL, &no_object, &error), "url");
  REFUSED(raskio_object_open(client, "http://127.0.0.1:9/x", NULL, NULL, &error), "object_out");
  CHECK_STATUS(raskio_object_open(client, NULL, NULL, &no_object, NULL), RASKIO_ERR_INVALID_ARGUMENT);
  CHECK(no_object == NULL);
  CHECK(raskio_object_acquire(NULL) == NULL);
  raskio_object_release(NULL);
  REFUSED(raskio_object_stat(NULL, NULL, never, NULL, &op, &error), "object");
  REFUSED(raskio_object_stat(object, NULL, NULL, NULL, &op, &error), "done");
  CHECK_STATUS(raskio_object_stat(object, NULL, NULL, NULL, NULL, NULL), RASKIO_ERR_INVALID_ARGUMENT);
  REFUSED(raskio_object_stat_sync(NULL, &bytes, &error), "object");
  CHECK_STATUS(raskio_object_stat_sync(NULL, NULL, NULL), RASKIO_ERR_INVALID_ARGUMENT);
  info.struct_size = sizeof info;
  info.size = 77;
  CHECK_STATUS(raskio_object_info_get(NULL, &info), RASKIO_ERR_INVALID_ARGUMENT);
  CHECK_EQ(info.size, 77);
  CHECK_STATUS(raskio_object_info_get(object, NULL), RASKIO_ERR_INVALID_ARGUMENT);
  CHECK(raskio_object_size(NULL) == RASKIO_SIZE_UNKNOWN);
  REFUSED(raskio_object_drop_cache(NULL, &error), "object");

  REFUSED(raskio_read(NULL, 0, data, 3, NULL, never, NULL, &op, &error), "object");
  REFUSED(raskio_read(object, 0, NULL, 3, NULL, never, NULL, &op, &error), "data");
  REFUSED(raskio_read(object, 0, data, 3, NULL, NULL, NULL, &op, &error), "done");
  CHECK_STATUS(raskio_read(object, 0, NULL, 3, NULL, never, NULL, NULL, NULL), RASKIO_ERR_INVALID_ARGUMENT);
  REFUSED(raskio_read_sync(NULL, 0, data, 3, NULL, &bytes, &error), "object");
  REFUSED(raskio_read_sync(object, 0, NULL, 3, NULL, &bytes, &error), "data");
  CHECK_STATUS(raskio_read_sync(object, 0, NULL, 3, NULL, NULL, NULL), RASKIO_ERR_INVALID_ARGUMENT);
  REFUSED(raskio_read_batch(NULL, &spec, 1, sizeof spec, NULL, never, NULL, &op, &error), "client");
  REFUSED(raskio_read_batch(client, NULL, 1, sizeof spec, NULL, never, NULL, &op, &error), "specs");
  REFUSED(raskio_read_batch(client, &spec, 1, sizeof spec, NULL, NULL, NULL, &op, &error), "done");
  REFUSED(raskio_write(NULL, 0, data, 3, NULL, never, NULL, &op, &error), "object");
  REFUSED(raskio_write(object, 0, NULL, 3, NULL, never, NULL, &op, &error), "data");
  REFUSED(raskio_write(object, 0, data, 3, NULL, NULL, NULL, &op, &error), "done");
  CHECK_EQ(bytes, 77);
  CHECK(strcmp(data, "abc") == 0);

  CHECK(raskio_op_acquire(NULL) == NULL);
  raskio_op_cancel(NULL);
  CHECK_STATUS(raskio_op_wait(NULL, 0), RASKIO_ERR_INVALID_ARGUMENT);
  raskio_op_release(NULL);
  CHECK(op == NULL);

  CHECK_STATUS(raskio_error_status(NULL), RASKIO_OK);
  CHECK(strcmp(raskio_error_message(NULL), "") == 0);
  CHECK_EQ(raskio_error_http_status(NULL), 0);
  CHECK_EQ(raskio_error_os_code(NULL), 0);
  CHECK(raskio_error_clone(NULL) == NULL);
  raskio_error_free(NULL);
  CHECK_STATUS(raskio_set_log_hook(NULL, NULL, 0), RASKIO_OK);

  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  CHECK_STATUS(raskio_client_stats(client, &stats), RASKIO_OK);
  CHECK_EQ(stats.ops_started, 0);
  CHECK_EQ(stats.requests_started, 0);
  raskio_object_release(object);
  shut_down(client);
  return CHECK_DONE();
}
