/* A process may end at any moment with reads in flight and every handle held: by return, by exit() from main, from another
 * thread or from inside a callback. It neither crashes nor hangs, and its exit status is its own. */
#include "support.h"

#include <sys/wait.h>

#define READS 40
#define STATUS 42

static unsigned char *buffers[READS];

static void ignore(void *user_data, const raskio_result *result) {
  (void)user_data;
  (void)result;
}

static void exit_inside(void *user_data, const raskio_result *result) {
  (void)user_data;
  (void)result;
  exit(STATUS);
}

static void *exit_from_thread(void *argument) {
  (void)argument;
  exit(STATUS);
  return NULL;
}

/* What a host's own exit handlers take down is gone while the process still lives. */
static volatile int half_gone;

static void take_down(void) {
  half_gone = 1;
  sleep_ms(500);
}

static void must_not_begin(void *user_data, const raskio_result *result) {
  (void)user_data;
  (void)result;
  if (half_gone) _exit(99);
  sleep_ms(50);
}

/* More callbacks wait for their thread than run until the exit. Handlers run in reverse order: this one after RaskIO's. */
static int run_with_callback_thread(uint32_t backend) {
  raskio_client_options options = client_options(backend);
  raskio_client *client = NULL;
  raskio_error *error = NULL;
  options.callback_threads = 1;
  REQUIRE(atexit(take_down) == 0);
  REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
  raskio_object *object = open_object(client, "small");
  for (int i = 0; i < READS; i++) {
    CHECK_STATUS(raskio_read(object, 0, NULL, 0, NULL, must_not_begin, NULL, NULL, NULL), RASKIO_OK);
  }
  sleep_ms(100);
  return STATUS;
}

/* The process under test. */
static int run(const char *way, uint32_t backend) {
  if (strcmp(way, "callback_thread") == 0) return run_with_callback_thread(backend);
  raskio_client *client = new_client(backend);
  raskio_object *stuck = open_object(client, "medium?stall_after=1000");
  raskio_object *busy = open_object(client, "large?rate=2000000");
  pthread_t thread;
  /* The read whose callback exits must find a free thread. */
  int reads = strcmp(way, "callback") == 0 ? 4 : READS;
  for (int i = 0; i < reads; i++) {
    size_t size = i % 2 == 0 ? 5000 : MEDIUM;
    buffers[i] = buffer_new(size);
    CHECK_STATUS(raskio_read(i % 2 == 0 ? stuck : busy, 0, buffers[i], size, NULL, ignore, NULL, NULL, NULL), RASKIO_OK);
  }
  sleep_ms(100);
  if (strcmp(way, "exit") == 0) exit(STATUS);
  if (strcmp(way, "thread") == 0) {
    REQUIRE(pthread_create(&thread, NULL, exit_from_thread, NULL) == 0);
    for (;;) sleep_ms(1000);
  }
  if (strcmp(way, "callback") == 0) {
    CHECK_STATUS(raskio_read(stuck, 0, NULL, 0, NULL, exit_inside, NULL, NULL, NULL), RASKIO_OK);
    for (;;) sleep_ms(1000);
  }
  if (strcmp(way, "released") == 0) {
    raskio_object_release(stuck);
    raskio_object_release(busy);
    raskio_client_release(client);
  }
  return STATUS;
}

int main(int argc, char **argv) {
  static const char *const ways[] = {"return", "exit", "thread", "callback", "released", "callback_thread"};
  if (argc == 3) return run(argv[1], (uint32_t)atoi(argv[2]));
  server_url();
  FOR_EACH_BACKEND(backend) {
    char number[16];
    snprintf(number, sizeof number, "%u", backend);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
      int status = 0;
      double began = now();
      pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        alarm(20); /* stays over exec: a hang ends as a signal */
        execl("/proc/self/exe", argv[0], ways[i], number, (char *)NULL);
        _exit(127);
      }
      REQUIRE(waitpid(pid, &status, 0) == pid);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != STATUS) {
        CHECK_FAILED("%s, backend %u: %s %d instead of exit status %d", ways[i], backend,
                     WIFEXITED(status) ? "exit status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
                     STATUS);
      }
      if (now() - began > 5.0) CHECK_FAILED("%s, backend %u: took %.1f s to end", ways[i], backend, now() - began);
    }
  }
  return CHECK_DONE();
}
