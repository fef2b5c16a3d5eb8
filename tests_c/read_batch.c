/* A batch: every item gets its bytes or its error, in the caller's order; each is told of once, before the batch; what is wrong
 * with one is its own matter; ranges that are near each other share a request. */
#include "support.h"

#define ITEMS 9

struct told {
  struct outcome outcome; /* first: the batch's callback fills it */
  int items[ITEMS];       /* calls of item_done for each */
  raskio_item_result results[ITEMS];
  raskio_status in_item, in_batch;
  raskio_op *op;
};

static void item_done(void *user_data, size_t index, const raskio_item_result *result) {
  struct told **of_item = (struct told **)user_data;
  struct told *told = *of_item;
  CHECK(index < ITEMS);
  CHECK_EQ(outcome_calls(&told->outcome), 0);
  CHECK_EQ(result->error != NULL, result->status != RASKIO_OK);
  __atomic_add_fetch(&told->items[index], 1, __ATOMIC_SEQ_CST);
  told->in_item = raskio_op_wait(told->op, 0);
}

static void batch_done(void *user_data, const raskio_result *result) {
  struct told *told = (struct told *)user_data;
  const char *item = (const char *)result->items;
  CHECK_EQ(result->item_count, ITEMS);
  CHECK(result->item_size >= sizeof(raskio_item_result));
  for (size_t i = 0; i < result->item_count; i++, item += result->item_size) {
    memcpy(&told->results[i], item, sizeof told->results[i]);
    CHECK_EQ(told->results[i].error != NULL, told->results[i].status != RASKIO_OK);
    CHECK_STATUS(raskio_error_status(told->results[i].error), told->results[i].status);
    told->results[i].error = NULL;
  }
  told->in_batch = raskio_op_wait(told->op, 0);
  outcome_done(&told->outcome, result);
}

static raskio_read_spec spec(raskio_object *object, uint64_t offset, void *data, uint64_t size) {
  raskio_read_spec spec;
  memset(&spec, 0, sizeof spec);
  spec.object = object;
  spec.offset = offset;
  spec.data = data;
  spec.size = size;
  return spec;
}

static void mixed(uint32_t backend, uint64_t gap, long requests) {
  raskio_client *client = new_client(backend), *other = new_client(backend);
  raskio_object *medium = open_sized(client, "medium?header=X-Test:batch", MEDIUM), *small = open_object(client, "small?header=X-Test:batch");
  raskio_object *foreign = open_object(other, "small");
  unsigned char *buffers[ITEMS];
  uint64_t sizes[ITEMS] = {100, 50, 10, 10, SMALL, 20, 10, 0, 10};
  raskio_status expected[ITEMS] = {RASKIO_OK, RASKIO_OK, RASKIO_OK, RASKIO_OK, RASKIO_OK, RASKIO_ERR_INVALID_ARGUMENT,
                                   RASKIO_ERR_INVALID_ARGUMENT, RASKIO_OK, RASKIO_ERR_INVALID_ARGUMENT};
  raskio_read_spec specs[ITEMS];
  raskio_batch_options options;
  raskio_error *error = NULL;
  struct told told, *of_item = &told;
  long before = requests_with("X-Test:batch");
  memset(&told, 0, sizeof told);
  outcome_init(&told.outcome);
  for (size_t i = 0; i < ITEMS; i++) buffers[i] = buffer_new(sizes[i]);
  specs[0] = spec(medium, 0, buffers[0], sizes[0]);
  specs[1] = spec(medium, 150, buffers[1], sizes[1]);
  specs[2] = spec(medium, 4096, buffers[2], sizes[2]);
  specs[3] = spec(medium, 4096, buffers[3], sizes[3]);
  specs[4] = spec(small, 0, buffers[4], sizes[4]);
  specs[5] = spec(medium, MEDIUM - 10, buffers[5], sizes[5]); /* beyond the end */
  specs[6] = spec(NULL, 600, buffers[6], sizes[6]);
  specs[7] = spec(medium, 7, NULL, 0);
  specs[8] = spec(foreign, 800, buffers[8], sizes[8]);
  for (size_t i = 0; i < ITEMS; i++) specs[i].user_data = &of_item;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.coalesce_gap = gap;
  options.item_done = item_done;
  REQUIRE_OK(raskio_read_batch(client, specs, ITEMS, sizeof specs[0], &options, batch_done, &told, &told.op, &error), error);
  outcome_wait(&told.outcome, "a batch");
  CHECK_STATUS(raskio_op_wait(told.op, 60000), RASKIO_OK);
  CHECK_STATUS(told.in_item, RASKIO_ERR_WOULD_DEADLOCK);
  CHECK_STATUS(told.in_batch, RASKIO_ERR_WOULD_DEADLOCK);
  CHECK_EQ(outcome_calls(&told.outcome), 1);
  CHECK_STATUS(told.outcome.status, RASKIO_ERR_INVALID_ARGUMENT);
  CHECK_EQ(told.outcome.bytes, 170 + SMALL);
  CHECK_EQ(told.outcome.attempts, requests);
  CHECK(strstr(raskio_error_message(told.outcome.error), "item ") != NULL);
  CHECK_EQ(requests_with("X-Test:batch") - before, requests);
  for (size_t i = 0; i < ITEMS; i++) {
    CHECK_EQ(told.items[i], 1);
    CHECK_STATUS(told.results[i].status, expected[i]);
    CHECK_EQ(told.results[i].bytes, expected[i] == RASKIO_OK ? sizes[i] : 0);
    CHECK_EQ(told.results[i].attempts, expected[i] == RASKIO_OK && sizes[i] > 0);
    CHECK_EQ(told.results[i].offset, specs[i].offset);
    if (expected[i] == RASKIO_OK) {
      check_buffer(buffers[i], specs[i].offset, sizes[i], "an item");
    } else {
      check_untouched(buffers[i], sizes[i], "a bad item");
    }
    buffer_free(buffers[i]);
  }
  raskio_op_release(told.op);
  outcome_free(&told.outcome);
  raskio_object_release(medium);
  raskio_object_release(small);
  raskio_object_release(foreign);
  shut_down(client);
  shut_down(other);
}

/* Many small ranges, without a callback for each, and the same with the stride of a header that knows less or more. */
static void strides(uint32_t backend) {
  enum { COUNT = 3000 };
  static const size_t strides[] = {40, sizeof(raskio_read_spec), 64};
  raskio_client *client = new_client(backend);
  raskio_object *object = open_object(client, "medium");
  unsigned char *buffer = buffer_new(COUNT * 16);
  char *specs = (char *)calloc(COUNT, 64);
  raskio_error *error = NULL;
  REQUIRE(specs != NULL);
  for (size_t s = 0; s < sizeof strides / sizeof *strides; s++) {
    struct outcome outcome;
    outcome_init(&outcome);
    memset(specs, 0, COUNT * 64);
    memset(buffer, GUARD_BYTE, COUNT * 16);
    for (size_t i = 0; i < COUNT; i++) {
      raskio_read_spec one = spec(object, i * 16, buffer + i * 16, 16);
      memcpy(specs + i * strides[s], &one, 40);
    }
    REQUIRE_OK(raskio_read_batch(client, (raskio_read_spec *)(void *)specs, COUNT, strides[s], NULL, outcome_done, &outcome,
                                 NULL, &error), error);
    outcome_wait(&outcome, "many ranges");
    CHECK_STATUS(outcome.status, RASKIO_OK);
    CHECK_EQ(outcome.bytes, COUNT * 16);
    check_buffer(buffer, 0, COUNT * 16, "many ranges");
    outcome_free(&outcome);
  }
  /* An option that this library does not have is not dropped. */
  struct outcome outcome;
  outcome_init(&outcome);
  specs[63] = 1;
  REQUIRE_OK(raskio_read_batch(client, (raskio_read_spec *)(void *)specs, 2, 64, NULL, outcome_done, &outcome, NULL, &error), error);
  outcome_wait(&outcome, "an unknown option");
  CHECK_STATUS(outcome.status, RASKIO_ERR_UNSUPPORTED);
  CHECK_EQ(outcome.bytes, 16);
  outcome_free(&outcome);
  free(specs);
  buffer_free(buffer);
  raskio_object_release(object);
  shut_down(client);
}

/* What is wrong with the call itself, and calls nobody. */
static void refused(void) {
  raskio_client *client = new_client(RASKIO_BACKEND_MULTI_POLL);
  raskio_object *object = open_object(client, "small");
  unsigned char byte;
  raskio_read_spec one = spec(object, 0, &byte, 1);
  raskio_batch_options options;
  raskio_read_options read;
  raskio_error *error = NULL;
  struct outcome outcome;
  outcome_init(&outcome);
#define BATCH(specs, count, stride, options)                                                                      \
  raskio_read_batch(client, specs, count, stride, options, outcome_done, &outcome, NULL, &error)
  CHECK_ERROR(BATCH(NULL, 1, sizeof one, NULL), RASKIO_ERR_INVALID_ARGUMENT, error, "specs is NULL");
  CHECK_ERROR(BATCH(&one, 1, 0, NULL), RASKIO_ERR_INVALID_ARGUMENT, error, "spec_size is 0");
  CHECK_ERROR(BATCH(&one, 1, 39, NULL), RASKIO_ERR_INVALID_ARGUMENT, error, "spec_size is 39");
  CHECK_ERROR(BATCH(&one, 1, (size_t)-1, NULL), RASKIO_ERR_INVALID_ARGUMENT, error, "spec_size");
  CHECK_ERROR(BATCH(&one, (size_t)-1, sizeof one, NULL), RASKIO_ERR_INVALID_ARGUMENT, error, "spec_count");
  memset(&options, 0, sizeof options);
  CHECK_ERROR(BATCH(&one, 1, sizeof one, &options), RASKIO_ERR_INVALID_ARGUMENT, error, "raskio_batch_options");
  options.struct_size = sizeof options;
  options.read = &read;
  memset(&read, 0, sizeof read);
  read.struct_size = sizeof read;
  read.memory = 9;
  CHECK_ERROR(BATCH(&one, 1, sizeof one, &options), RASKIO_ERR_INVALID_ARGUMENT, error, "memory is 9");
  CHECK_EQ(outcome.calls, 0);
  /* Nothing to read is read, through the callback. */
  REQUIRE_OK(BATCH(NULL, 0, sizeof one, NULL), error);
  outcome_wait(&outcome, "a batch of nothing");
  CHECK_STATUS(outcome.status, RASKIO_OK);
  outcome_free(&outcome);
  /* Wrong words in a spec are that item's. */
  outcome_init(&outcome);
  one.flags = 1u << 30;
  REQUIRE_OK(BATCH(&one, 1, sizeof one, NULL), error);
  outcome_wait(&outcome, "an unknown flag");
  CHECK_STATUS(outcome.status, RASKIO_ERR_UNSUPPORTED);
  outcome_free(&outcome);
  raskio_object_release(object);
  shut_down(client);
}

/* Everything that is left ends with a cancel, and the buffers are the caller's again. */
static void cancelled(uint32_t backend) {
  enum { COUNT = 500 };
  raskio_client *client = new_client(backend);
  raskio_object *stuck = open_object(client, "medium?stall=1");
  unsigned char *buffer = buffer_new(COUNT);
  raskio_read_spec *specs = (raskio_read_spec *)malloc(COUNT * sizeof *specs);
  raskio_batch_options options;
  raskio_op *op = NULL;
  raskio_error *error = NULL;
  struct outcome outcome;
  REQUIRE(specs != NULL);
  outcome_init(&outcome);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.coalesce_gap = RASKIO_COALESCE_NEVER;
  for (size_t i = 0; i < COUNT; i++) specs[i] = spec(stuck, i * 100, buffer + i, 1);
  REQUIRE_OK(raskio_read_batch(client, specs, COUNT, sizeof *specs, &options, outcome_done, &outcome, &op, &error), error);
  free(specs); /* copied */
  sleep_ms(50);
  raskio_op_cancel(op);
  outcome_wait(&outcome, "a cancelled batch");
  CHECK_STATUS(outcome.status, RASKIO_ERR_CANCELLED);
  check_guards(buffer, COUNT, "a cancelled batch");
  raskio_op_release(op);
  outcome_free(&outcome);
  raskio_object_release(stuck);
  buffer_free(buffer);
  shut_down(client);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    mixed(backend, 64, 3);
    mixed(backend, RASKIO_COALESCE_NEVER, 5);
    strides(backend);
    cancelled(backend);
  }
  refused();
  return CHECK_DONE();
}
