/* Reads ranges of one object by one call, and says how each ended:
 *   read_batch URL OFFSET:SIZE ... [-SIZE]
 * -SIZE is the last SIZE bytes, of which a file's footer mostly is one. RASKIO_BATCH_GAP=BYTES (or "never") says how far apart
 * ranges may lie that share a request. KVIKIO_REMOTE_IO_BACKEND and the other variables of README.md apply. */
#include "crc32.h"
#include <inttypes.h>
#include <raskio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  raskio_status status;
  uint32_t attempts;
  int failed;
} outcome;

static raskio_read_spec *specs;

/* Runs on a RaskIO thread, once; `result` and what it points to are gone when it returns. */
static void done(void *user_data, const raskio_result *result) {
  outcome *out = user_data;
  out->status = result->status;
  out->attempts = result->attempts;
  for (size_t i = 0; i < result->item_count; i++) {
    /* By their stride: a newer library may know more about an item than this program. */
    const raskio_item_result *item = (const void *)((const char *)result->items + i * result->item_size);
    if (item->status == RASKIO_OK) {
      printf("%" PRIu64 "+%" PRIu64 "  crc32 %08" PRIx32 "\n", item->offset, item->bytes,
             crc32_update(0, specs[i].data, item->bytes));
    } else {
      printf("%s\n", raskio_error_message(item->error));
      out->failed++;
    }
  }
}

static int failed(const char *what, raskio_status status, raskio_error *error) {
  fprintf(stderr, "%s: %s: %s\n", what, raskio_status_name(status), error ? raskio_error_message(error) : "no message");
  raskio_error_free(error);
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s URL OFFSET:SIZE ... [-SIZE]\n", argv[0]);
    return 2;
  }
  raskio_client *client = NULL;
  raskio_object *object = NULL;
  raskio_error *error = NULL;
  raskio_op *op = NULL;
  raskio_status status;
  raskio_client_options options = {.struct_size = sizeof options};
  options.backend = getenv("KVIKIO_REMOTE_IO_BACKEND") ? RASKIO_BACKEND_AUTO : RASKIO_BACKEND_MULTI_POLL;
  if ((status = raskio_client_new(&options, &client, &error)) != RASKIO_OK) return failed("client", status, error);
  if ((status = raskio_object_open(client, argv[1], NULL, &object, &error)) != RASKIO_OK) return failed("open", status, error);

  size_t count = (size_t)argc - 2;
  specs = calloc(count, sizeof *specs);
  if (specs == NULL) return 1;
  for (size_t i = 0; i < count; i++) {
    const char *text = argv[i + 2];
    char *end = NULL;
    specs[i].object = object;
    if (*text == '-') {
      specs[i].size = strtoull(text + 1, &end, 10);
      specs[i].flags = RASKIO_READ_FROM_END;
    } else {
      specs[i].offset = strtoull(text, &end, 10);
      if (*end == ':') specs[i].size = strtoull(end + 1, &end, 10);
    }
    specs[i].data = calloc(1, specs[i].size ? specs[i].size : 1);
    if (*end != '\0' || specs[i].data == NULL) {
      fprintf(stderr, "%s is not OFFSET:SIZE or -SIZE, or larger than memory\n", text);
      return 2;
    }
  }

  raskio_batch_options batch = {.struct_size = sizeof batch};
  const char *gap = getenv("RASKIO_BATCH_GAP");
  if (gap != NULL) batch.coalesce_gap = strcmp(gap, "never") == 0 ? RASKIO_COALESCE_NEVER : strtoull(gap, NULL, 10);
  outcome out = {RASKIO_OK, 0, 0};
  if ((status = raskio_read_batch(client, specs, count, sizeof *specs, &batch, done, &out, &op, &error)) != RASKIO_OK)
    return failed("batch", status, error);
  raskio_op_wait(op, RASKIO_UNLIMITED);
  printf("%zu ranges by %" PRIu32 " requests, %d failed: %s\n", count, out.attempts, out.failed, raskio_status_name(out.status));

  raskio_op_release(op);
  for (size_t i = 0; i < count; i++) free(specs[i].data);
  free(specs);
  raskio_object_release(object);
  raskio_client_release(client);
  return out.status != RASKIO_OK;
}
