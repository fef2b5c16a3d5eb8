/* A child of a process that has used CUDA cannot use it, and RaskIO says so at once: device reads fail with CUDA or UNSUPPORTED,
 * host reads of a new client work, inherited handles say FORKED. The parent's device reads go on. */
#include "cuda.h"

#include <sys/wait.h>

static raskio_client *client;
static raskio_object *object;
static CUdeviceptr memory;
static int stop;

static void *busy(void *context) {
  raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
  CUdeviceptr mine;
  CUDA_OK(cu.context_push(context));
  mine = device_new(MEDIUM);
  while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
    CHECK_STATUS(device_read(object, 0, mine, MEDIUM, &options, NULL), RASKIO_OK);
    raskio_client_trim(client);
  }
  check_device(mine, 0, MEDIUM, "the parent");
  device_free(mine);
  CUDA_OK(cu.context_pop(NULL));
  return NULL;
}

static int child(uint32_t backend) {
  raskio_read_options cuda = memory_options(RASKIO_MEMORY_CUDA);
  raskio_error *error = NULL;
  raskio_client *fresh;
  raskio_object *opened;
  raskio_status status;
  unsigned char *host = buffer_new(SMALL);
  double began = now();
  CHECK_ERROR(raskio_read_sync(object, 0, pointer_to(memory), SMALL, &cuda, NULL, &error), RASKIO_ERR_FORKED, error, NULL);
  fresh = new_client(backend);
  check_works(fresh, "a host read in the child");
  opened = open_object(fresh, "small");
  CHECK_STATUS(read_now(opened, 0, host, SMALL), RASKIO_OK);
  check_buffer(host, 0, SMALL, "memory that is found out in the child");
  status = device_read(opened, 0, memory, SMALL, &cuda, &error);
  if (status != RASKIO_ERR_CUDA && status != RASKIO_ERR_UNSUPPORTED)
    CHECK_FAILED("a device read in the child: %s", raskio_status_name(status));
  if (strstr(raskio_error_message(error), "fork") == NULL)
    CHECK_FAILED("\"%s\" does not say that CUDA does not survive a fork", raskio_error_message(error));
  raskio_error_free(error);
  raskio_object_release(opened);
  shut_down(fresh);
  buffer_free(host);
  if (now() - began > 5) CHECK_FAILED("the child took %.1f s", now() - began);
  return CHECK_DONE();
}

int main(void) {
  void *context = cuda_start();
  memory = device_new(SMALL);
  FOR_EACH_BACKEND(backend) {
    pthread_t threads[2];
    client = new_device_client(backend, 32 << 10, 4);
    object = open_object(client, "medium");
    __atomic_store_n(&stop, 0, __ATOMIC_SEQ_CST);
    for (int t = 0; t < 2; t++) REQUIRE(pthread_create(&threads[t], NULL, busy, context) == 0);
    sleep_ms(50);
    for (int i = 0; i < 10; i++) {
      int status = 0;
      pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        alarm(30); /* a hang ends as a signal */
        _exit(child(backend));
      }
      REQUIRE(waitpid(pid, &status, 0) == pid);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        CHECK_FAILED("child %d: %s %d", i, WIFEXITED(status) ? "exit status" : "signal",
                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        break;
      }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    check_device_works(client, "the parent after its forks");
    raskio_object_release(object);
    shut_down(client);
  }
  return CHECK_DONE();
}
