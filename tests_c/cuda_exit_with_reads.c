/* A process may end at any moment with device reads in flight: by return, by exit() from main, from another thread or from inside
 * a callback. It neither crashes nor hangs, and its exit status is its own. */
#include "cuda.h"

#include <sys/wait.h>

#define READS 40
#define STATUS 42

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
  raskio_client *client;
  raskio_object *busy, *slow;
  raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
  raskio_error *error = NULL;
  pthread_t thread;
  cuda_start();
  if (cu.sim_speed != NULL) cu.sim_speed(5000, 0);
  client = new_device_client(backend, 64 << 10, 8);
  busy = open_object(client, "medium");
  slow = open_object(client, "medium?rate=2000000");
  for (int i = 0; i < READS; i++) {
    CUdeviceptr memory = device_new(MEDIUM);
    raskio_done_fn done = strcmp(way, "callback") == 0 && i == 3 ? exit_inside : ignore;
    REQUIRE_OK(raskio_read(i % 2 == 0 ? slow : busy, 0, pointer_to(memory), MEDIUM, &options, done, NULL, NULL, &error), error);
  }
  sleep_ms(100);
  if (strcmp(way, "exit") == 0) exit(STATUS);
  if (strcmp(way, "thread") == 0) {
    REQUIRE(pthread_create(&thread, NULL, exit_from_thread, NULL) == 0);
    for (;;) sleep_ms(1000);
  }
  if (strcmp(way, "callback") == 0) {
    for (;;) sleep_ms(1000);
  }
  if (strcmp(way, "released") == 0) {
    raskio_object_release(busy);
    raskio_object_release(slow);
    raskio_client_release(client);
  }
  return STATUS;
}

int main(int argc, char **argv) {
  static const char *const ways[] = {"return", "exit", "thread", "callback", "released"};
  if (argc == 3) return run(argv[1], (uint32_t)atoi(argv[2]));
  server_url();
  cuda_load(); /* skips where there is no driver; it is initialised in the processes under test only */
  FOR_EACH_BACKEND(backend) {
    char number[16];
    snprintf(number, sizeof number, "%u", backend);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
      int status = 0;
      double began = now();
      pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        alarm(60); /* stays over exec: a hang ends as a signal */
        execl("/proc/self/exe", argv[0], ways[i], number, (char *)NULL);
        _exit(127);
      }
      REQUIRE(waitpid(pid, &status, 0) == pid);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 77) SKIP("there is a driver, and it cannot be used");
      if (!WIFEXITED(status) || WEXITSTATUS(status) != STATUS) {
        CHECK_FAILED("%s, backend %u: %s %d instead of exit status %d", ways[i], backend,
                     WIFEXITED(status) ? "exit status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
                     STATUS);
      }
      if (now() - began > 30.0) CHECK_FAILED("%s, backend %u: took %.1f s to end", ways[i], backend, now() - began);
    }
  }
  return CHECK_DONE();
}
