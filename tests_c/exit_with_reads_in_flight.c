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

/* The process under test. */
static int run(const char *way, uint32_t backend) {
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
  static const char *const ways[] = {"return", "exit", "thread", "callback", "released"};
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
