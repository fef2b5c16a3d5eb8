/* What cannot be in bounds is refused at the call, without a request; what only the server can know is RANGE, and never a
 * short success. */
#include "support.h"

static void never(void *user_data, const raskio_result *result) {
  (void)user_data;
  CHECK_FAILED("a callback of a refused read: %s", raskio_status_name(result->status));
}

static void refused(raskio_object *object, uint64_t offset, void *data, uint64_t size, const char *text) {
  raskio_error *error = NULL;
  raskio_op *op = NULL;
  uint64_t bytes = 77;
  CHECK_ERROR(raskio_read(object, offset, data, size, NULL, never, NULL, &op, &error), RASKIO_ERR_INVALID_ARGUMENT, error,
              text);
  CHECK(op == NULL);
  CHECK_ERROR(raskio_read_sync(object, offset, data, size, NULL, &bytes, &error), RASKIO_ERR_INVALID_ARGUMENT, error, text);
  CHECK_EQ(bytes, 77);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_client(backend);
    char tag[64], url[128];
    raskio_object *unknown, *known;
    unsigned char *buffer = buffer_new(2 * SMALL);
    raskio_error *error = NULL;
    uint64_t bytes = 0;

    snprintf(tag, sizeof tag, "bounds_%d_%u", (int)getpid(), backend);
    snprintf(url, sizeof url, "small?etag=%s", tag);
    unknown = open_object(client, url);
    known = open_sized(client, url, SMALL);

    refused(unknown, UINT64_MAX - 1, buffer, 4, "18446744073709551614");
    refused(unknown, UINT64_MAX, buffer, 1, NULL);
    refused(unknown, 0, buffer, (uint64_t)PTRDIFF_MAX + 1, "size is");
    refused(unknown, 0, buffer, UINT64_MAX, "size is");
    refused(unknown, 0, (void *)(UINTPTR_MAX - 9), 100, "size is");
    refused(known, SMALL, buffer, 1, "100 byte");
    refused(known, SMALL - 1, buffer, 2, "cannot read 99+2 bytes");
    refused(known, 0, buffer, SMALL + 1, NULL);
    refused(known, UINT64_MAX - 1, buffer, 4, NULL);
    CHECK_EQ(requests_with(tag), 0);
    check_untouched(buffer, 2 * SMALL, "refused reads");

    /* The last byte, and everything, are within. */
    CHECK_STATUS(read_now(known, SMALL - 1, buffer, 1), RASKIO_OK);
    CHECK_EQ(buffer[0], pattern(SMALL - 1));
    CHECK_STATUS(read_now(known, 0, buffer, SMALL), RASKIO_OK);
    for (size_t i = 0; i < SMALL; i++) CHECK_EQ(buffer[i], pattern(i));

    /* With an unknown size the server says it. */
    CHECK_ERROR(raskio_read_sync(unknown, 5000, buffer, 4, NULL, &bytes, &error), RASKIO_ERR_RANGE, error, NULL);
    check_guards(buffer, 2 * SMALL, "a read beyond the end");
    raskio_object_release(unknown);
    unknown = open_object(client, url);
    CHECK_ERROR(raskio_read_sync(unknown, SMALL - 10, buffer, 20, NULL, &bytes, &error), RASKIO_ERR_RANGE, error, NULL);
    check_guards(buffer, 2 * SMALL, "a read across the end");
    CHECK_EQ(bytes, 0);

    /* What the reply told is known from then on. */
    CHECK_EQ(raskio_object_size(unknown), SMALL);
    refused(unknown, SMALL, buffer, 1, "100 byte");

    raskio_object_release(unknown);
    raskio_object_release(known);
    shut_down(client);
    buffer_free(buffer);
  }
  return CHECK_DONE();
}
