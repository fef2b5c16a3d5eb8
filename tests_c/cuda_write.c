/* raskio_write from CUDA memory of each kind, by each way of moving the bytes of files: the file holds them, the memory is untouched,
 * a stream's earlier work comes before, nothing is left. */
#include "cuda.h"

#define BUFFER (64u << 10)
#define SIZE 300001u

static void *stream;
static char path[] = "/tmp/raskio-cuda-write-XXXXXX";

static void check_file(uint64_t start, size_t size, uint64_t offset, const char *what) {
  unsigned char *bytes = buffer_new(size);
  FILE *file = fopen(path, "rb");
  REQUIRE(file != NULL);
  REQUIRE(fseek(file, (long)start, SEEK_SET) == 0);
  CHECK_EQ(fread(bytes, 1, size, file), size);
  fclose(file);
  check_buffer(bytes, offset, size, what);
  buffer_free(bytes);
}

/* Writes and waits; the error is the caller's. */
static raskio_status write_now(raskio_object *file, uint64_t at, CUdeviceptr from, size_t size, const raskio_read_options *options,
                               uint64_t *bytes, raskio_error **error) {
  struct outcome outcome;
  raskio_status status;
  outcome_init(&outcome);
  status = raskio_write(file, at, pointer_to(from), size, options, outcome_done, &outcome, NULL, error);
  if (status == RASKIO_OK) {
    outcome_wait(&outcome, "a write");
    status = outcome.status;
    if (outcome.error != NULL) *error = raskio_error_clone(outcome.error);
    if (bytes != NULL) *bytes = outcome.bytes;
  }
  outcome_free(&outcome);
  return status;
}

static void filled(CUdeviceptr memory, size_t size, uint64_t offset) {
  unsigned char *bytes = buffer_new(size);
  for (size_t i = 0; i < size; i++) bytes[i] = pattern(offset + i);
  CUDA_OK(cu.to_device(memory, bytes, size));
  CUDA_OK(cu.context_synchronize());
  buffer_free(bytes);
}

static void each_kind(raskio_client *client, raskio_object *file) {
  raskio_read_options named = memory_options(RASKIO_MEMORY_CUDA), on_stream = stream_options(stream);
  raskio_error *error = NULL;
  CUdeviceptr memory = device_new(SIZE), other = 0;
  uint64_t bytes = 0;
  on_stream.flags = RASKIO_WRITE_ON_STREAM | RASKIO_WRITE_DURABLE;
  filled(memory, SIZE, 5);
  /* Found out, named, ordered on a stream; from the file's begin and from within a page. */
  REQUIRE_OK(write_now(file, 0, memory, SIZE, NULL, &bytes, &error), error);
  CHECK_EQ(bytes, SIZE);
  check_file(0, SIZE, 5, "device memory");
  REQUIRE_OK(write_now(file, 777, memory + 1, SIZE - 1, &named, &bytes, &error), error);
  CHECK_EQ(bytes, SIZE - 1);
  check_file(777, SIZE - 1, 6, "device memory, named");
  CUDA_OK(cu.set_async(memory, 0, SIZE, stream));
  REQUIRE_OK(write_now(file, 0, memory, SIZE, &on_stream, &bytes, &error), error);
  {
    unsigned char *zeros = (unsigned char *)malloc(SIZE);
    FILE *opened = fopen(path, "rb");
    size_t wrong = 0;
    REQUIRE(opened != NULL && zeros != NULL);
    CHECK_EQ(fread(zeros, 1, SIZE, opened), SIZE);
    for (size_t i = 0; i < SIZE; i++) wrong += zeros[i] != 0;
    CHECK_EQ(wrong, 0);
    fclose(opened);
    free(zeros);
  }
  filled(memory, SIZE, 9);
  CHECK_EQ(stats_of(client).bytes_staged, 3ull * SIZE - 1);
  check_device(memory, 9, SIZE, "the source and its guards");

  CUDA_OK(cu.mem_alloc_managed(&other, SIZE, CU_MEM_ATTACH_GLOBAL));
  for (size_t i = 0; i < SIZE; i++) ((unsigned char *)pointer_to(other))[i] = pattern(11 + i);
  REQUIRE_OK(write_now(file, 0, other, SIZE, NULL, NULL, &error), error);
  check_file(0, SIZE, 11, "managed memory");
  CUDA_OK(cu.mem_free(other));

  /* An old driver has none. */
  if (cu.mem_alloc_async != NULL) {
    CUDA_OK(cu.mem_alloc_async(&other, SIZE, stream));
    CUDA_OK(cu.stream_synchronize(stream));
    filled(other, SIZE, 13);
    REQUIRE_OK(write_now(file, 0, other, SIZE, NULL, NULL, &error), error);
    check_file(0, SIZE, 13, "stream-ordered memory");
    CUDA_OK(cu.mem_free_async(other, stream));
    CUDA_OK(cu.stream_synchronize(stream));
  }

  {
    void *host = NULL;
    uint64_t staged = stats_of(client).bytes_staged;
    CUDA_OK(cu.host_alloc(&host, SIZE, 0));
    for (size_t i = 0; i < SIZE; i++) ((unsigned char *)host)[i] = pattern(17 + i);
    REQUIRE_OK(write_now(file, 0, (CUdeviceptr)(uintptr_t)host, SIZE, NULL, NULL, &error), error);
    check_file(0, SIZE, 17, "pinned host memory");
    CHECK_EQ(stats_of(client).bytes_staged, staged);
    REQUIRE_OK(write_now(file, 1, (CUdeviceptr)(uintptr_t)host, SIZE, &on_stream, NULL, &error), error);
    check_file(1, SIZE, 17, "pinned host memory on a stream");
    CHECK_EQ(stats_of(client).bytes_staged, staged + SIZE);
    memset(host, 0, SIZE);
    CHECK_ERROR(raskio_write(file, 0, "host", 4, &named, outcome_done, NULL, NULL, &error), RASKIO_ERR_INVALID_ARGUMENT, error,
                "not CUDA memory");
    CHECK_ERROR(raskio_write(file, 0, "host", 4, &on_stream, outcome_done, NULL, NULL, &error), RASKIO_ERR_INVALID_ARGUMENT, error,
                "RASKIO_WRITE_ON_STREAM");
    CUDA_OK(cu.host_free(host));
  }
  device_free(memory);
}

/* While the stream does not go on, the write is not done, holds up no other one, and a cancel waits for the device. */
static void ordered(raskio_client *client, raskio_object *file) {
  raskio_read_options on_stream = stream_options(stream);
  raskio_error *error = NULL;
  raskio_op *op = NULL;
  struct gate gate;
  struct outcome outcome;
  CUdeviceptr memory = device_new(2 * BUFFER), other = device_new(BUFFER);
  filled(memory, 2 * BUFFER, 3);
  filled(other, BUFFER, 4);
  gate_close(&gate, stream);
  outcome_init(&outcome);
  REQUIRE_OK(raskio_write(file, 0, pointer_to(memory), 2 * BUFFER, &on_stream, outcome_done, &outcome, &op, &error), error);
  for (int i = 0; i < 20; i++) {
    REQUIRE_OK(write_now(file, (uint64_t)(i + 2) * BUFFER, other, BUFFER, NULL, NULL, &error), error);
    CHECK_EQ(outcome_calls(&outcome), 0);
  }
  raskio_op_cancel(op);
  sleep_ms(20);
  CHECK_EQ(outcome_calls(&outcome), 0);
  gate_open(&gate);
  outcome_wait(&outcome, "the write on the stream");
  CHECK_STATUS(outcome.status, RASKIO_ERR_CANCELLED);
  raskio_op_release(op);
  outcome_free(&outcome);
  check_file(21ull * BUFFER, BUFFER, 4, "a write beside it");
  wait_idle(client);
  check_device(memory, 3, 2 * BUFFER, "the source of a cancelled write");
  device_free(memory);
  device_free(other);
}

/* A driver that fails is told by its own name for it, and the next write works. */
static void failing(raskio_object *file) {
  raskio_error *error = NULL;
  CUdeviceptr memory;
  if (cu.sim_fail == NULL) return;
  memory = device_new(SIZE);
  filled(memory, SIZE, 21);
  cu.sim_fail("cuMemcpyDtoHAsync", 2, 0, 304);
  CHECK_STATUS(write_now(file, 0, memory, SIZE, NULL, NULL, &error), RASKIO_ERR_CUDA);
  CHECK(strstr(raskio_error_message(error), "cuMemcpyDtoHAsync") != NULL);
  CHECK(strstr(raskio_error_message(error), "CUDA_ERROR_OPERATING_SYSTEM") != NULL);
  CHECK(strstr(raskio_error_message(error), path) != NULL);
  raskio_error_free(error);
  error = NULL;
  REQUIRE_OK(write_now(file, 0, memory, SIZE, NULL, NULL, &error), error);
  check_file(0, SIZE, 21, "the write after one that failed");
  device_free(memory);
}

int main(void) {
  static const uint32_t locals[] = {RASKIO_LOCAL_AUTO, RASKIO_LOCAL_PREAD};
  static const uint32_t hows[] = {RASKIO_OBJECT_DIRECT, RASKIO_OBJECT_BUFFERED};
  struct sim_cuda_live before;
  int fd;
  cuda_start();
  CUDA_OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  before = live_now();
  fd = mkstemp(path);
  REQUIRE(fd >= 0);
  close(fd);
  for (int i = 0; i < 4; i++) {
    raskio_client_options options = client_options(RASKIO_BACKEND_EASY_THREADPOOL);
    raskio_object_options opening;
    raskio_client *client = NULL;
    raskio_object *file = NULL;
    raskio_error *error = NULL;
    options.local_backend = locals[i % 2];
    options.bounce_buffer_size = BUFFER;
    options.max_pinned_bytes = 4 * BUFFER;
    REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
    memset(&opening, 0, sizeof opening);
    opening.struct_size = sizeof opening;
    opening.flags = RASKIO_OBJECT_WRITABLE | hows[i / 2];
    REQUIRE_OK(raskio_object_open(client, path, &opening, &file, &error), error);
    /* First: four buffers are pinned then, which a real driver may want all streams idle for. */
    each_kind(client, file);
    ordered(client, file);
    failing(file);
    wait_idle(client);
    raskio_object_release(file);
    shut_down(client);
    check_nothing_left(before, "after the shutdown");
  }
  unlink(path);
  CUDA_OK(cu.stream_destroy(stream));
  return CHECK_DONE();
}
