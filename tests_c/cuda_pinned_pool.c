/* A host's own pool of pinned memory: RaskIO asks for pieces of the bounce buffers' size, with the context current that they are
 * for, gives each back exactly once, with the size it asked for, and lives with a pool that has nothing left. */
#include "cuda.h"

#define BUFFER (64u << 10)
#define PIECES 8

static void *pool[PIECES];
static int taken[PIECES], limit, most, asked, given_back, wrong;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *context;
static int mark;

static void *take(void *user_data, size_t size) {
  void *piece = NULL, *current = NULL;
  int used = 0;
  if (user_data != &mark || size != BUFFER) __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
  CUDA_OK(cu.context_current(&current));
  if (current != context) __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_lock(&lock);
  asked++;
  for (int i = 0; i < limit; i++) {
    if (piece == NULL && !taken[i]) {
      taken[i] = 1;
      piece = pool[i];
    }
    used += taken[i];
  }
  if (used > most) most = used;
  pthread_mutex_unlock(&lock);
  return piece;
}

static void give_back(void *user_data, void *memory, size_t size) {
  int found = 0;
  if (user_data != &mark || size != BUFFER) __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_lock(&lock);
  given_back++;
  for (int i = 0; i < PIECES; i++) {
    if (pool[i] == memory && taken[i]) {
      taken[i] = 0;
      found = 1;
    }
  }
  pthread_mutex_unlock(&lock);
  if (!found) __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
}

static raskio_client *client_with_pool(uint32_t backend, unsigned buffers) {
  raskio_client_options options = client_options(backend);
  raskio_client *client = NULL;
  raskio_error *error = NULL;
  options.bounce_buffer_size = BUFFER;
  options.max_pinned_bytes = (uint64_t)BUFFER * buffers;
  options.pinned_alloc = take;
  options.pinned_free = give_back;
  options.user_data = &mark;
  REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
  return client;
}

int main(void) {
  struct sim_cuda_live before;
  context = cuda_start();
  for (int i = 0; i < PIECES; i++) CUDA_OK(cu.host_alloc(&pool[i], BUFFER, 1));
  before = live_now();
  FOR_EACH_BACKEND(backend) {
    CUdeviceptr memory = device_new(MEDIUM);
    raskio_client *client = client_with_pool(backend, 4);
    raskio_object *object = open_object(client, "medium");
    raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
    raskio_client_options half = client_options(backend);
    raskio_error *error = NULL;
    raskio_client *none = NULL;
    int taken_before = asked;

    limit = PIECES;
    most = 0;
    CHECK_STATUS(device_read(object, 0, memory, MEDIUM, &options, NULL), RASKIO_OK);
    check_device(memory, 0, MEDIUM, "with the host's pool");
    CHECK(asked > taken_before);
    CHECK(most >= 1 && most <= 4);
    if (cu.sim_live != NULL) CHECK_EQ(live_now().pinned_buffers, before.pinned_buffers);
    raskio_object_release(object);
    shut_down(client);
    for (int i = 0; i < PIECES; i++) CHECK_EQ(taken[i], 0);

    /* One piece is enough. */
    limit = 1;
    CUDA_OK(cu.set(memory, GUARD_BYTE, MEDIUM));
    CUDA_OK(cu.context_synchronize());
    client = client_with_pool(backend, 4);
    object = open_object(client, "medium");
    CHECK_STATUS(device_read(object, 0, memory, MEDIUM, &options, NULL), RASKIO_OK);
    check_device(memory, 0, MEDIUM, "with a pool of one piece");
    raskio_object_release(object);
    shut_down(client);
    CHECK_EQ(taken[0], 0);

    /* None is an error, no hang. */
    limit = 0;
    client = client_with_pool(backend, 4);
    object = open_object(client, "small");
    CHECK_STATUS(device_read(object, 0, memory, SMALL, &options, &error), RASKIO_ERR_OUT_OF_MEMORY);
    raskio_error_free(error);
    error = NULL;
    limit = 1;
    CHECK_STATUS(device_read(object, 0, memory, SMALL, &options, NULL), RASKIO_OK);
    raskio_object_release(object);
    shut_down(client);

    half.pinned_alloc = take;
    CHECK_ERROR(raskio_client_new(&half, &none, &error), RASKIO_ERR_INVALID_ARGUMENT, error, "pinned_free");
    device_free(memory);
    check_nothing_left(before, "after the shutdown");
  }
  CHECK_EQ(wrong, 0);
  return CHECK_DONE();
}
