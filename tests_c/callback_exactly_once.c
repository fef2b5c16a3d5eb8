/* Many threads share one client and its objects; each accepted operation calls back exactly once, whether it succeeds, fails
 * or is cancelled, and what succeeded has every byte right. */
#include "support.h"

#define THREADS 8
#define READS 150

struct read {
  int calls;
  raskio_status status;
  uint64_t offset;
  size_t size;
  unsigned char *buffer;
  raskio_op *op;
};

static struct read reads[THREADS][READS];
static raskio_object *good, *bad, *slow;

static void done(void *user_data, const raskio_result *result) {
  struct read *read = (struct read *)user_data;
  read->status = result->status;
  if (result->status == RASKIO_OK) {
    CHECK_EQ(result->bytes, read->size);
    check_buffer(read->buffer, read->offset, read->size, "a shared read");
  } else {
    check_guards(read->buffer, read->size, "a shared read that failed");
  }
  __atomic_add_fetch(&read->calls, 1, __ATOMIC_SEQ_CST);
}

static void *work(void *argument) {
  struct read *mine = (struct read *)argument;
  unsigned seed = (unsigned)(mine - reads[0]) + 1;
  for (int i = 0; i < READS; i++) {
    struct read *read = &mine[i];
    raskio_object *object = raskio_object_acquire(i % 10 == 3 ? bad : i % 10 == 7 ? slow : good);
    read->size = (size_t)rand_r(&seed) % (i % 25 == 0 ? 300000 : 3000);
    read->offset = (uint64_t)rand_r(&seed) % (MEDIUM - read->size + 1);
    read->buffer = buffer_new(read->size);
    CHECK_STATUS(raskio_read(object, read->offset, read->buffer, read->size, NULL, done, read, &read->op, NULL), RASKIO_OK);
    raskio_object_release(object);
    if (i % 7 == 0) raskio_op_cancel(read->op);
  }
  for (int i = 0; i < READS; i++) {
    raskio_op_cancel(i % 10 == 7 ? mine[i].op : NULL);
    CHECK_STATUS(raskio_op_wait(mine[i].op, 60000), RASKIO_OK);
    raskio_op_release(mine[i].op);
  }
  return NULL;
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_client(backend);
    pthread_t threads[THREADS];
    raskio_stats stats;
    int ok = 0, failed = 0, cancelled = 0;
    memset(reads, 0, sizeof reads);
    good = open_object(client, "medium");
    bad = open_object(client, "medium?status=404");
    slow = open_object(client, "medium?delay_ms=30");
    for (int t = 0; t < THREADS; t++) REQUIRE(pthread_create(&threads[t], NULL, work, reads[t]) == 0);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    raskio_object_release(good);
    raskio_object_release(bad);
    raskio_object_release(slow);
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    REQUIRE_OK(raskio_client_shut_down(client, 20000, NULL), NULL);
    CHECK_STATUS(raskio_client_stats(client, &stats), RASKIO_OK);
    CHECK_EQ(stats.ops_started, THREADS * READS);
    CHECK_EQ(stats.ops_finished, THREADS * READS);
    CHECK_EQ(stats.requests_started, stats.requests_finished);
    CHECK_EQ(stats.requests_in_flight, 0);
    CHECK_EQ(stats.requests_queued, 0);
    raskio_client_release(client);
    for (int t = 0; t < THREADS; t++) {
      for (int i = 0; i < READS; i++) {
        struct read *read = &reads[t][i];
        CHECK_EQ(read->calls, 1);
        ok += read->status == RASKIO_OK;
        cancelled += read->status == RASKIO_ERR_CANCELLED;
        failed += read->status == RASKIO_ERR_NOT_FOUND;
        buffer_free(read->buffer);
      }
    }
    CHECK_EQ(ok + cancelled + failed, THREADS * READS);
    CHECK_EQ(stats.ops_cancelled, cancelled);
    CHECK(ok > THREADS * READS / 2);
    CHECK(failed > 0);
    CHECK(cancelled > 0);
  }
  return CHECK_DONE();
}
