/* The caller's contexts are as they were after every call, well or failed, whatever context the memory is of. */
#include "cuda.h"

static void *contexts[2];

/* The stack of this thread is contexts[0] under contexts[1]. */
static void check_stack(const char *what) {
  void *first = NULL, *second = NULL, *third = NULL;
  CUDA_OK(cu.context_pop(&first));
  CUDA_OK(cu.context_pop(&second));
  if (first != contexts[1] || second != contexts[0]) CHECK_FAILED("%s: the stack of contexts is another one", what);
  if (cu.context_pop(&third) != CUDA_ERROR_INVALID_CONTEXT) CHECK_FAILED("%s: there is one context more", what);
  CUDA_OK(cu.context_push(contexts[0]));
  CUDA_OK(cu.context_push(contexts[1]));
}

/* RaskIO's own threads come to callbacks with no context, or with one, but never with more and more. */
static void done(void *user_data, const raskio_result *result) {
  void *stack[64];
  int depth = 0;
  while (depth < 64 && cu.context_pop(&stack[depth]) == CUDA_SUCCESS) depth++;
  if (depth > 1) CHECK_FAILED("a callback's thread has %d contexts", depth);
  while (depth > 0) CUDA_OK(cu.context_push(stack[--depth]));
  outcome_done(user_data, result);
}

int main(void) {
  CUdeviceptr memory;
  struct sim_cuda_live before;
  contexts[0] = cuda_start();
  memory = device_new(MEDIUM);
  contexts[1] = cuda_context(cu.devices > 1 ? 1 : 0);
  before = live_now();
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_device_client(backend, 64 << 10, 4);
    raskio_object *object = open_object(client, "medium"), *missing = open_object(client, "medium?status=404");
    raskio_object *cut;
    raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
    struct outcome outcome;
    raskio_op *op = NULL;
    raskio_error *error = NULL;
    char name[64];
    unsigned char *copy;
    snprintf(name, sizeof name, "medium?reset_after=%u&times=1", 30000 + backend);
    cut = open_object(client, name);

    check_stack("before");
    CHECK_STATUS(device_read(object, 0, memory, MEDIUM, &options, NULL), RASKIO_OK);
    check_stack("after a read");
    CHECK_STATUS(device_read(missing, 0, memory, MEDIUM, &options, &error), RASKIO_ERR_NOT_FOUND);
    raskio_error_free(error);
    check_stack("after a read of what is not there");
    CHECK_STATUS(device_read(object, 0, 0x10, SMALL, &options, &error), RASKIO_ERR_INVALID_ARGUMENT);
    raskio_error_free(error);
    check_stack("after a refused read");
    CHECK_STATUS(device_read(cut, 0, memory, MEDIUM, &options, &error), RASKIO_OK);
    raskio_error_free(error);
    check_stack("after a read that was resumed");

    outcome_init(&outcome);
    REQUIRE_OK(raskio_read(object, 0, pointer_to(memory), MEDIUM, &options, done, &outcome, &op, &error), error);
    check_stack("after the start of a read");
    raskio_op_cancel(op);
    check_stack("after a cancel");
    outcome_wait(&outcome, "the read");
    CHECK_STATUS(raskio_op_wait(op, 20000), RASKIO_OK);
    raskio_op_release(op);
    outcome_free(&outcome);

    /* After all of that, and with the bytes in place. */
    outcome_init(&outcome);
    REQUIRE_OK(raskio_read(object, 0, pointer_to(memory), MEDIUM, &options, done, &outcome, NULL, &error), error);
    outcome_wait(&outcome, "the last read");
    CHECK_STATUS(outcome.status, RASKIO_OK);
    outcome_free(&outcome);
    raskio_client_trim(client);
    check_stack("after a trim");
    raskio_object_release(object);
    raskio_object_release(missing);
    raskio_object_release(cut);
    shut_down(client);
    check_stack("after the shutdown");
    CUDA_OK(cu.context_push(contexts[0]));
    copy = device_copy(memory, MEDIUM);
    check_guards(copy, MEDIUM, "all of these reads");
    buffer_free(copy);
    CUDA_OK(cu.context_pop(NULL));
    check_nothing_left(before, "after the shutdown");
  }
  return CHECK_DONE();
}
