/* The log hook: gets whole records, only up to its level; can be set, replaced and removed while other threads log, and is
 * never called again once the call that replaced it has returned; blocking calls inside it are refused. */
#include "support.h"

struct hook {
  int alive, inside, calls, max_level;
};

static raskio_object *object;
static int stop;

static void hook(void *user_data, const raskio_log_record *record) {
  struct hook *self = (struct hook *)user_data;
  raskio_error *error = NULL;
  if (!__atomic_load_n(&self->alive, __ATOMIC_SEQ_CST)) CHECK_FAILED("a hook was called after it was replaced");
  __atomic_add_fetch(&self->inside, 1, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&self->calls, 1, __ATOMIC_SEQ_CST);
  CHECK(record->struct_size >= sizeof *record);
  CHECK(record->level >= RASKIO_LOG_ERROR && (int)record->level <= self->max_level);
  CHECK(record->target != NULL && record->target_size > 0);
  CHECK(record->message != NULL);
  for (size_t i = 0; i < record->message_size; i++) CHECK(record->message[i] != '\0');
  CHECK_STATUS(raskio_set_log_hook(NULL, NULL, 0), RASKIO_ERR_WOULD_DEADLOCK);
  CHECK_STATUS(raskio_set_log_hook(hook, self, RASKIO_LOG_TRACE), RASKIO_ERR_WOULD_DEADLOCK);
  CHECK_ERROR(raskio_read_sync(object, 0, NULL, 0, NULL, NULL, &error), RASKIO_ERR_WOULD_DEADLOCK, error, NULL);
  __atomic_sub_fetch(&self->inside, 1, __ATOMIC_SEQ_CST);
}

static void *make_noise(void *argument) {
  (void)argument;
  while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
    /* Each of these is a new connection in libcurl's verbose output. */
    raskio_client_options options = client_options(RASKIO_BACKEND_MULTI_POLL);
    raskio_client *client = NULL;
    raskio_error *error = NULL;
    options.max_attempts = 1;
    REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
    check_works(client, "a read that is logged");
    raskio_client_release(client);
  }
  return NULL;
}

static void set(struct hook *self, uint32_t level) {
  self->alive = 1;
  self->max_level = (int)level;
  CHECK_STATUS(raskio_set_log_hook(hook, self, level), RASKIO_OK);
}

static void retired(struct hook *self) {
  __atomic_store_n(&self->alive, 0, __ATOMIC_SEQ_CST);
  CHECK_EQ(__atomic_load_n(&self->inside, __ATOMIC_SEQ_CST), 0);
}

int main(void) {
  raskio_client *client;
  pthread_t threads[3];
  struct hook *hooks[2];
  double limit;
  int calls = 0;
  setenv("KVIKIO_REMOTE_VERBOSE", "on", 1);
  client = new_client(RASKIO_BACKEND_EASY_THREADPOOL);
  object = open_object(client, "small");

  CHECK_STATUS(raskio_set_log_hook(hook, NULL, 0), RASKIO_ERR_INVALID_ARGUMENT);
  CHECK_STATUS(raskio_set_log_hook(hook, NULL, RASKIO_LOG_TRACE + 1), RASKIO_ERR_INVALID_ARGUMENT);
  for (int i = 0; i < 2; i++) {
    hooks[i] = (struct hook *)calloc(1, sizeof *hooks[i]);
    REQUIRE(hooks[i] != NULL);
  }
  set(hooks[0], RASKIO_LOG_TRACE);
  for (int t = 0; t < 3; t++) REQUIRE(pthread_create(&threads[t], NULL, make_noise, NULL) == 0);
  limit = now() + 30;
  while (__atomic_load_n(&hooks[0]->calls, __ATOMIC_SEQ_CST) == 0 && now() < limit) sleep_ms(1);
  CHECK(hooks[0]->calls > 0);

  /* Replace: the old one is freed at once, so that a late call shows under Valgrind too. */
  for (int i = 0; i < 200; i++) {
    set(hooks[1], i % 2 == 0 ? RASKIO_LOG_TRACE : RASKIO_LOG_WARN);
    retired(hooks[0]);
    calls += hooks[0]->calls;
    free(hooks[0]);
    hooks[0] = hooks[1];
    hooks[1] = (struct hook *)calloc(1, sizeof *hooks[1]);
    REQUIRE(hooks[1] != NULL);
    if (i % 20 == 0) sleep_ms(5);
  }
  CHECK(calls > 1);

  /* Remove. */
  CHECK_STATUS(raskio_set_log_hook(NULL, NULL, 0), RASKIO_OK);
  retired(hooks[0]);
  free(hooks[0]);
  free(hooks[1]);
  __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
  unsetenv("KVIKIO_REMOTE_VERBOSE");
  for (int t = 0; t < 3; t++) pthread_join(threads[t], NULL);
  raskio_object_release(object);
  shut_down(client);
  return CHECK_DONE();
}
