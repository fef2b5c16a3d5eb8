/* Shutting down with 1,000 operations queued: each calls back once, with SHUT_DOWN, within 2 seconds; no buffer is touched
 * afterwards; the client then refuses work. */
#include "support.h"

#define READS 1000
#define SIZE 16

static int calls[READS], wrong_status, callbacks_after_end, ended;

static void done(void *user_data, const raskio_result *result) {
  __atomic_add_fetch((int *)user_data, 1, __ATOMIC_SEQ_CST);
  if (result->status != RASKIO_ERR_SHUT_DOWN) __atomic_add_fetch(&wrong_status, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&ended, __ATOMIC_SEQ_CST)) __atomic_add_fetch(&callbacks_after_end, 1, __ATOMIC_SEQ_CST);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client_options options = client_options(backend);
    raskio_client *client = NULL;
    raskio_object *object, *other = NULL;
    raskio_error *error = NULL;
    unsigned char *buffers = buffer_new(READS * SIZE);
    raskio_op *kept = NULL;
    double began;
    memset(calls, 0, sizeof calls);
    wrong_status = callbacks_after_end = ended = 0;
    options.max_concurrent_requests = 8;
    REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
    object = open_object(client, "small?stall=1");
    for (int i = 0; i < READS; i++) {
      CHECK_STATUS(raskio_read(object, 0, buffers + i * SIZE, SIZE, NULL, done, &calls[i], i == READS / 2 ? &kept : NULL, NULL),
                   RASKIO_OK);
    }
    sleep_ms(100);
    began = now();
    CHECK_ERROR(raskio_client_shut_down(client, RASKIO_UNLIMITED, &error), RASKIO_OK, error, NULL);
    if (now() - began > 2.0) CHECK_FAILED("the shutdown took %.2f s", now() - began);
    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < READS; i++) CHECK_EQ(__atomic_load_n(&calls[i], __ATOMIC_SEQ_CST), 1);
    CHECK_EQ(wrong_status, 0);
    CHECK_STATUS(raskio_op_wait(kept, 0), RASKIO_OK);
    raskio_op_cancel(kept);
    raskio_op_release(kept);

    CHECK_ERROR(raskio_read(object, 0, buffers, SIZE, NULL, done, &calls[0], NULL, &error), RASKIO_ERR_SHUT_DOWN, error, NULL);
    CHECK_ERROR(raskio_read_sync(object, 0, buffers, SIZE, NULL, NULL, &error), RASKIO_ERR_SHUT_DOWN, error, NULL);
    CHECK_ERROR(raskio_object_stat_sync(object, NULL, &error), RASKIO_ERR_SHUT_DOWN, error, NULL);
    CHECK_ERROR(raskio_object_open(client, url_of("small"), NULL, &other, &error), RASKIO_ERR_SHUT_DOWN, error, NULL);
    CHECK_ERROR(raskio_client_shut_down(client, 0, &error), RASKIO_OK, error, NULL);
    sleep_ms(100);
    CHECK_EQ(callbacks_after_end, 0);
    check_untouched(buffers, READS * SIZE, "the buffers of reads that got no answer");
    raskio_object_release(object);
    raskio_client_release(client);
    buffer_free(buffers);
  }
  return CHECK_DONE();
}
