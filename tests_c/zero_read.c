/* A read of 0 bytes sends nothing, needs no buffer, and completes through its callback like any other. */
#include "support.h"

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_client(backend);
    char tag[64], url[128];
    raskio_object *object, *empty = open_sized(client, "empty", 0);
    raskio_stats stats;
    unsigned char *buffer = buffer_new(0);
    uint64_t offsets[] = {0, 50, SMALL};
    uint64_t bytes = 77;

    snprintf(tag, sizeof tag, "zero_read_%d_%u", (int)getpid(), backend);
    snprintf(url, sizeof url, "small?etag=%s", tag);
    object = open_object(client, url);
    for (size_t i = 0; i < 3; i++) {
      struct outcome outcome;
      raskio_op *op = NULL;
      outcome_init(&outcome);
      CHECK_STATUS(raskio_read(object, offsets[i], i == 1 ? buffer : NULL, 0, NULL, outcome_done, &outcome, &op, NULL),
                   RASKIO_OK);
      outcome_wait(&outcome, "a read of nothing");
      CHECK_STATUS(outcome.status, RASKIO_OK);
      CHECK_EQ(outcome.bytes, 0);
      CHECK_EQ(outcome.attempts, 0);
      CHECK_EQ(outcome.offset, offsets[i]);
      CHECK_STATUS(raskio_op_wait(op, 10000), RASKIO_OK);
      raskio_op_release(op);
      outcome_free(&outcome);
    }
    CHECK_STATUS(raskio_read_sync(object, 0, NULL, 0, NULL, &bytes, NULL), RASKIO_OK);
    CHECK_EQ(bytes, 0);
    CHECK_STATUS(read_now(empty, 0, buffer, 0), RASKIO_OK);
    check_guards(buffer, 0, "a read of nothing");
    CHECK_EQ(requests_with(tag), 0);
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    CHECK_STATUS(raskio_client_stats(client, &stats), RASKIO_OK);
    CHECK_EQ(stats.ops_started, 5);
    CHECK_EQ(stats.connections_opened, 0);
    /* The same object answers a real read, so that the count above means something. */
    CHECK_STATUS(raskio_object_stat_sync(object, &bytes, NULL), RASKIO_OK);
    CHECK_EQ(bytes, SMALL);
    CHECK(requests_with(tag) > 0);
    raskio_object_release(object);
    raskio_object_release(empty);
    shut_down(client);
    buffer_free(buffer);
  }
  return CHECK_DONE();
}
