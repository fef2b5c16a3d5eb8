/* Whichever call of the driver fails, at its first, second or third use: the read ends with CUDA and an error that names the
 * call and CUDA's name for what happened; nothing is leaked; and the next read of the same client works. */
#include "cuda.h"

#define SIZE 300000
#define INJECTED 304 /* CUDA_ERROR_OPERATING_SYSTEM: nothing that is handled specially */

/* What a read may use, without version suffixes. Which of these it does use is found out. */
static const char *const calls[] = {
    "cuPointerGetAttribute", "cuPointerGetAttributes", "cuCtxPushCurrent",   "cuCtxPopCurrent",
    "cuCtxSetCurrent",       "cuCtxGetId",             "cuDevicePrimaryCtxRetain", "cuStreamCreate",
    "cuStreamCreateWithPriority", "cuMemHostRegister", "cuMemHostAlloc",     "cuMemAllocHost",
    "cuMemcpyHtoDAsync",     "cuMemcpyAsync",          "cuEventCreate",      "cuEventRecord",
    "cuEventRecordWithFlags", "cuEventQuery",          "cuEventSynchronize", "cuLaunchHostFunc",
    "cuStreamSynchronize",   "cuStreamWaitEvent",      "cuThreadExchangeStreamCaptureMode",
};
#define CALLS (sizeof calls / sizeof *calls)

/* These may fail without harm to the read: they give something back, or there is another way. An event that cannot be waited for
 * can still be asked. */
static int may_be_overcome(const char *call) {
  static const char *const names[] = {"cuCtxPopCurrent", "cuCtxSetCurrent", "cuCtxGetId", "cuDevicePrimaryCtxRetain",
                                      "cuThreadExchangeStreamCaptureMode", "cuEventSynchronize"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(call, names[i]) == 0) return 1;
  return 0;
}

/* Every use of these is one that a read stands on. Of others, such as the allocation of buffers, the first. */
static int counts_each_time(const char *call) {
  return strcmp(call, "cuMemcpyHtoDAsync") == 0 || strcmp(call, "cuEventRecord") == 0;
}

static raskio_status read_once(raskio_client *client, CUdeviceptr memory, raskio_error **error) {
  raskio_object *object = open_object(client, "medium");
  raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
  raskio_status status = device_read(object, 0, memory, SIZE, &options, error);
  raskio_object_release(object);
  return status;
}

/* A fresh client, so that what is done once is done again. */
static raskio_client *fresh(uint32_t backend) { return new_device_client(backend, 100 << 10, 3); }

int main(void) {
  CUdeviceptr memory;
  struct sim_cuda_live before;
  cuda_start();
  simulated_only("makes its calls fail");
  memory = device_new(SIZE);
  before = live_now();
  /* Copies that are waited for. */
  cu.sim_speed(1000, 0);
  FOR_EACH_BACKEND(backend) {
    uint64_t used[CALLS];
    int reported = 0;
    raskio_client *client = fresh(backend);
    for (size_t i = 0; i < CALLS; i++) used[i] = cu.sim_count(calls[i]);
    CHECK_STATUS(read_once(client, memory, NULL), RASKIO_OK);
    shut_down(client);
    for (size_t i = 0; i < CALLS; i++) used[i] = cu.sim_count(calls[i]) - used[i];

    for (size_t i = 0; i < CALLS; i++) {
      for (uint64_t nth = 1; nth <= 3 && nth <= used[i]; nth++) {
        raskio_error *error = NULL;
        raskio_status status;
        uint64_t made;
        char what[96];
        snprintf(what, sizeof what, "%s, call %u, backend %u", calls[i], (unsigned)nth, backend);
        client = fresh(backend);
        made = cu.sim_count(calls[i]);
        cu.sim_fail(calls[i], nth, 0, INJECTED);
        status = read_once(client, memory, &error);
        made = cu.sim_count(calls[i]) - made;
        if (status == RASKIO_OK) {
          check_device(memory, 0, SIZE, what);
          if (made >= nth && !may_be_overcome(calls[i]) && (nth == 1 || counts_each_time(calls[i])))
            CHECK_FAILED("%s: the read says OK", what);
        } else {
          const char *message = raskio_error_message(error);
          reported++;
          if (status != RASKIO_ERR_CUDA) CHECK_FAILED("%s: the status is %s", what, raskio_status_name(status));
          if (strstr(message, calls[i]) == NULL || strstr(message, "CUDA_ERROR_OPERATING_SYSTEM") == NULL)
            CHECK_FAILED("%s: \"%s\" names not both the call and the cause", what, message);
        }
        if (made == 0 && !may_be_overcome(calls[i])) CHECK_FAILED("%s: it was not called this time", what);
        raskio_error_free(error);
        cu.sim_fail(calls[i], 0, 0, 0);
        error = NULL;
        if (read_once(client, memory, &error) != RASKIO_OK)
          CHECK_FAILED("%s: the next read says %s", what, raskio_error_message(error));
        raskio_error_free(error);
        check_device(memory, 0, SIZE, what);
        wait_idle(client);
        shut_down(client);
        check_nothing_left(before, what);
      }
    }
    /* At least the copy, the event, the buffer and the look at the pointer. */
    if (reported < 4) CHECK_FAILED("only %d failing calls were reported", reported);
    CUDA_OK(cu.set(memory, GUARD_BYTE, SIZE));
  }

  /* A copy that fails by itself breaks its context; reads of another one go on. */
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = fresh(backend);
    raskio_error *error = NULL;
    void *context = cuda_context(0);
    CUdeviceptr broken = device_new(SIZE);
    CUDA_OK(cu.context_pop(NULL));
    cu.sim_fail("async", 2, 0, 700);
    CHECK_ERROR(read_once(client, broken, &error), RASKIO_ERR_CUDA, error, "CUDA_ERROR_ILLEGAL_ADDRESS");
    CHECK_ERROR(read_once(client, broken, &error), RASKIO_ERR_CUDA, error, "CUDA_ERROR_ILLEGAL_ADDRESS");
    check_device_works(client, "another context");
    CHECK_EQ(cu.context_destroy(context), 0);
    check_device_works(client, "another context, after the broken one has gone");
    shut_down(client);
    check_nothing_left(before, "after a broken context");
  }
  return CHECK_DONE();
}
