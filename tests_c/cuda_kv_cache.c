/* The example's store of a key-value cache: scattered groups come into device memory by one call, ordered on the caller's stream. */
#include "cuda.h"

#include "../examples/kv_cache.h"

enum { LAYERS = 2, BLOCKS = 8, HEADS = 4, ALL = LAYERS * BLOCKS * HEADS * 2, GROUP = 16 << 10, WANTED = 40 };

static kv_key key_of(size_t i) {
  kv_key key = {(uint32_t)(i % LAYERS), (uint32_t)(i / LAYERS % BLOCKS), (uint32_t)(i / LAYERS / BLOCKS % HEADS),
                (uint32_t)(i / LAYERS / BLOCKS / HEADS % 2)};
  return key;
}

static uint64_t start_of(kv_key key) { return (((uint64_t)key.layer * BLOCKS + key.block) * HEADS + key.head) * 2 + key.which; }

static void use(uint32_t local, void *stream) {
  raskio_client_options options = client_options(RASKIO_BACKEND_EASY_THREADPOOL);
  raskio_read_options on_stream = stream_options(stream);
  raskio_client *client = NULL;
  raskio_error *error = NULL;
  kv_store store;
  kv_group groups[ALL];
  CUdeviceptr device[WANTED];
  unsigned char *host = buffer_new((size_t)ALL * GROUP);
  char directory[] = "/tmp/raskio-kv-XXXXXX", path[64];
  raskio_stats stats;
  REQUIRE(mkdtemp(directory) != NULL);
  options.local_backend = local;
  REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
  REQUIRE(kv_open(&store, client, directory, LAYERS, BLOCKS, HEADS, GROUP) == 0);
  for (size_t i = 0; i < ALL; i++) {
    unsigned char *data = host + i * GROUP;
    groups[i].key = key_of(i);
    groups[i].data = data;
    groups[i].size = GROUP;
    for (size_t j = 0; j < GROUP; j++) data[j] = pattern(start_of(groups[i].key) + j);
  }
  if (kv_put(&store, groups, ALL) != 0) CHECK_FAILED("%s", store.why);
  if (kv_drop_cache(&store) != 0) CHECK_FAILED("%s", store.why);
  for (size_t i = 0; i < WANTED; i++) {
    groups[i].key = key_of(i * 37 % ALL);
    device[i] = device_new(GROUP);
    groups[i].data = pointer_to(device[i]);
    /* What the stream was given before comes before. */
    CUDA_OK(cu.set_async(device[i], 0, GROUP, stream));
  }
  if (kv_get(&store, groups, WANTED, &on_stream) != 0) CHECK_FAILED("%s", store.why);
  for (size_t i = 0; i < WANTED; i++) {
    check_device(device[i], start_of(groups[i].key), GROUP, "a group");
    device_free(device[i]);
  }
  stats = wait_idle(client);
  CHECK_EQ(stats.file_bytes_read, (uint64_t)WANTED * GROUP);
  CHECK_EQ(stats.bytes_staged, (uint64_t)WANTED * GROUP);
  kv_close(&store);
  shut_down(client);
  buffer_free(host);
  for (int layer = 0; layer < LAYERS; layer++) {
    snprintf(path, sizeof path, "%s/layer-%d.kv", directory, layer);
    unlink(path);
  }
  rmdir(directory);
}

int main(void) {
  struct sim_cuda_live before;
  void *stream = NULL;
  cuda_start();
  CUDA_OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  before = live_now();
  use(RASKIO_LOCAL_AUTO, stream);
  use(RASKIO_LOCAL_PREAD, stream);
  check_nothing_left(before, "after the reads");
  return CHECK_DONE();
}
