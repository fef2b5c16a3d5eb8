/* The default client: made once, from the environment alone, however many threads ask first; releasing it leaves it alive. */
#include "support.h"

#define THREADS 8

static void *get(void *out) {
  REQUIRE_OK(raskio_client_default((raskio_client **)out, NULL), NULL);
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  raskio_client *clients[THREADS], *again = NULL;
  raskio_error *error = NULL;
  raskio_object *object = NULL;
  raskio_stats stats;
  server_url();

  /* A bad variable is an error that names it, and does not stick. */
  setenv("KVIKIO_TASK_SIZE", "banana", 1);
  CHECK_ERROR(raskio_client_default(&again, &error), RASKIO_ERR_INVALID_ARGUMENT, error, "KVIKIO_TASK_SIZE");
  CHECK(again == NULL);
  setenv("KVIKIO_TASK_SIZE", "50", 1); /* two requests for 100 bytes: it is seen in the counters */
  setenv("KVIKIO_REMOTE_IO_BACKEND", "multi_poll", 1);

  for (int t = 0; t < THREADS; t++) REQUIRE(pthread_create(&threads[t], NULL, get, &clients[t]) == 0);
  for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
  for (int t = 0; t < THREADS; t++) CHECK(clients[t] == clients[0]);
  check_works(clients[0], "the default client");
  for (int t = 0; t < THREADS; t++) raskio_client_release(clients[t]);

  REQUIRE_OK(raskio_client_default(&again, &error), error);
  CHECK(again == clients[0]);
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  CHECK_STATUS(raskio_client_stats(again, &stats), RASKIO_OK);
  CHECK_EQ(stats.ops_started, 1);
  CHECK_EQ(stats.requests_started, 2);
  check_works(again, "the default client again");

  /* Shut down, it stays so: there is no second one. */
  REQUIRE_OK(raskio_client_shut_down(again, 20000, &error), error);
  raskio_client_release(again);
  REQUIRE_OK(raskio_client_default(&again, &error), error);
  CHECK(again == clients[0]);
  CHECK_ERROR(raskio_object_open(again, url_of("small"), NULL, &object, &error), RASKIO_ERR_SHUT_DOWN, error, NULL);
  raskio_client_release(again);
  return CHECK_DONE();
}
