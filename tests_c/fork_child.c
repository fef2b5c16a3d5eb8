/* A child that inherited handles gets FORKED from every call with them, at once, whatever locks other threads held at the
 * fork; a new client and the default client work in the child; the parent is undisturbed. */
#include "support.h"

#include <sys/wait.h>

static raskio_client *client, *parents_default;
static raskio_object *object, *stuck;
static raskio_op *op;
static raskio_error *kept;
static unsigned char *buffer;
static int stop;

static void never(void *user_data, const raskio_result *result) {
  (void)user_data;
  (void)result;
  CHECK_FAILED("a callback of the parent's operation in the child");
}

/* Keeps the parent's locks busy while it forks. */
static void *busy(void *argument) {
  unsigned char *mine = buffer_new(SMALL);
  raskio_stats stats;
  (void)argument;
  stats.struct_size = sizeof stats;
  while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
    CHECK_STATUS(read_now(object, 0, mine, SMALL), RASKIO_OK);
    raskio_client_stats(client, &stats);
    raskio_client_trim(client);
  }
  buffer_free(mine);
  return NULL;
}

#define FORKED(call) CHECK_ERROR(call, RASKIO_ERR_FORKED, error, NULL)

static int child(void) {
  raskio_error *error = NULL;
  raskio_client *fresh;
  raskio_object *opened = NULL;
  raskio_op *started = NULL;
  raskio_read_spec spec;
  raskio_stats stats;
  raskio_object_info info;
  uint64_t number = 77;
  double began = now();
  memset(&spec, 0, sizeof spec);
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;

  FORKED(raskio_client_shut_down(client, 1000, &error));
  raskio_client_trim(client);
  CHECK_STATUS(raskio_client_stats(client, &stats), RASKIO_ERR_FORKED);
  FORKED(raskio_object_open(client, url_of("small"), NULL, &opened, &error));
  FORKED(raskio_object_stat(object, NULL, never, NULL, &started, &error));
  FORKED(raskio_object_stat_sync(object, &number, &error));
  CHECK_STATUS(raskio_object_info_get(object, &info), RASKIO_ERR_FORKED);
  CHECK(raskio_object_size(object) == RASKIO_SIZE_UNKNOWN);
  FORKED(raskio_object_drop_cache(object, &error));
  FORKED(raskio_read(object, 0, buffer, SMALL, NULL, never, NULL, &started, &error));
  FORKED(raskio_read(object, 0, NULL, 0, NULL, never, NULL, &started, &error));
  FORKED(raskio_read_sync(object, 0, buffer, SMALL, NULL, &number, &error));
  FORKED(raskio_read_batch(client, &spec, 1, sizeof spec, NULL, never, NULL, &started, &error));
  FORKED(raskio_write(object, 0, buffer, SMALL, NULL, never, NULL, &started, &error));
  raskio_op_cancel(op);
  CHECK_STATUS(raskio_op_wait(op, RASKIO_UNLIMITED), RASKIO_ERR_FORKED);
  FORKED(raskio_object_open(parents_default, url_of("small"), NULL, &opened, &error));
  CHECK_EQ(number, 77);
  CHECK(opened == NULL && started == NULL);
  CHECK(now() - began < 2.0);

  /* Plain memory stays readable. */
  CHECK_STATUS(raskio_error_status(kept), RASKIO_ERR_NOT_FOUND);
  CHECK_EQ(raskio_error_http_status(kept), 404);
  raskio_error_free(raskio_error_clone(kept));

  /* A new client and the default client work. */
  FOR_EACH_BACKEND(backend) {
    fresh = new_client(backend);
    check_works(fresh, "a new client in the child");
    shut_down(fresh);
  }
  fresh = NULL;
  REQUIRE_OK(raskio_client_default(&fresh, &error), error);
  CHECK(fresh != parents_default);
  check_works(fresh, "the default client in the child");
  raskio_client_release(fresh);

  /* Release does not hang and does not crash. */
  raskio_op_release(raskio_op_acquire(op));
  raskio_op_release(op);
  raskio_object_release(raskio_object_acquire(object));
  raskio_object_release(object);
  raskio_object_release(stuck);
  raskio_client_release(raskio_client_acquire(client));
  raskio_client_release(client);
  raskio_client_release(parents_default);
  raskio_error_free(kept);
  return CHECK_DONE();
}

int main(void) {
  pthread_t threads[3];
  struct outcome outcome;
  raskio_object *missing;
  server_url();
  FOR_EACH_BACKEND(backend) {
    client = new_client(backend);
    object = open_object(client, "small");
    stuck = open_object(client, "small?stall=1");
    missing = open_object(client, "small?status=404");
    buffer = buffer_new(SMALL);
    outcome_init(&outcome);
    REQUIRE_OK(raskio_client_default(&parents_default, NULL), NULL);
    check_works(parents_default, "the parent's default client");
    CHECK_STATUS(raskio_object_stat_sync(missing, NULL, &kept), RASKIO_ERR_NOT_FOUND);
    CHECK_STATUS(raskio_read(stuck, 0, buffer, SMALL, NULL, outcome_done, &outcome, &op, NULL), RASKIO_OK);
    __atomic_store_n(&stop, 0, __ATOMIC_SEQ_CST);
    for (int t = 0; t < 3; t++) REQUIRE(pthread_create(&threads[t], NULL, busy, NULL) == 0);
    for (int i = 0; i < 20; i++) {
      int status = 0;
      pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        alarm(30); /* a hang ends as a signal */
        _exit(child());
      }
      REQUIRE(waitpid(pid, &status, 0) == pid);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        CHECK_FAILED("child %d: %s %d", i, WIFEXITED(status) ? "exit status" : "signal",
                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        break;
      }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    for (int t = 0; t < 3; t++) pthread_join(threads[t], NULL);

    /* The parent goes on. */
    check_works(client, "the parent after its forks");
    check_works(parents_default, "the parent's default client after its forks");
    CHECK_EQ(outcome_calls(&outcome), 0);
    raskio_op_cancel(op);
    outcome_wait(&outcome, "the parent's operation");
    CHECK_STATUS(outcome.status, RASKIO_ERR_CANCELLED);
    raskio_op_release(op);
    raskio_error_free(kept);
    raskio_object_release(missing);
    raskio_object_release(stuck);
    raskio_object_release(object);
    raskio_client_release(parents_default);
    shut_down(client);
    outcome_free(&outcome);
    buffer_free(buffer);
  }
  return CHECK_DONE();
}
