/* The example's store of a key-value cache: what is put is got, by one call, in any order; what is wrong names the group. */
#include "support.h"

#include "../examples/kv_cache.h"
#include <sys/resource.h>
#include <sys/stat.h>

#define PAGE 4096u

enum { LAYERS = 3, BLOCKS = 5, HEADS = 4, ALL = LAYERS * BLOCKS * HEADS * 2 };

static kv_key key_of(size_t i) {
  kv_key key = {(uint32_t)(i % LAYERS), (uint32_t)(i / LAYERS % BLOCKS), (uint32_t)(i / LAYERS / BLOCKS % HEADS),
                (uint32_t)(i / LAYERS / BLOCKS / HEADS % 2)};
  return key;
}

/* The bytes of a group begin at another place of the pattern for each. */
static uint64_t start_of(kv_key key) { return (((uint64_t)key.layer * BLOCKS + key.block) * HEADS + key.head) * 2 + key.which; }

static void fill(unsigned char *data, size_t size, kv_key key) {
  for (size_t i = 0; i < size; i++) data[i] = pattern(start_of(key) + i);
}

#define REFUSED(call, word)                                                                          \
  do {                                                                                               \
    store.why[0] = '\0';                                                                             \
    CHECK_EQ(call, -1);                                                                              \
    if (strstr(store.why, word) == NULL) CHECK_FAILED("\"%s\" does not contain %s", store.why, word); \
  } while (0)

static void use(uint32_t local, size_t group_bytes) {
  raskio_client_options options = client_options(RASKIO_BACKEND_EASY_THREADPOOL);
  raskio_client *client = NULL;
  raskio_error *error = NULL;
  kv_store store;
  kv_group groups[ALL], one;
  unsigned char *memory[ALL];
  struct rlimit limit, small;
  char directory[] = "/tmp/raskio-kv-XXXXXX", path[64], too_long[4096];
  REQUIRE(mkdtemp(directory) != NULL);
  options.local_backend = local;
  REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
  memset(too_long, 'x', sizeof too_long - 1);
  too_long[sizeof too_long - 1] = '\0';
  REFUSED(kv_open(&store, client, too_long, LAYERS, BLOCKS, HEADS, group_bytes), "too long");
  kv_close(&store);
  REQUIRE(kv_open(&store, client, directory, LAYERS, BLOCKS, HEADS, group_bytes) == 0);
  for (size_t i = 0; i < ALL; i++) {
    memory[i] = buffer_new(group_bytes);
    groups[i].key = key_of(i);
    groups[i].data = memory[i];
    groups[i].size = group_bytes;
    fill(memory[i], group_bytes, groups[i].key);
  }
  one = groups[7];
  REFUSED(kv_get(&store, &one, 1, NULL), "layer 1, block 2, head 0, K: it was never written");
  /* One layer only is there yet. */
  if (kv_put(&store, &groups[0], 1) != 0) CHECK_FAILED("%s", store.why);
  if (kv_drop_cache(&store) != 0) CHECK_FAILED("%s", store.why);
  /* One that is no group is found before any is written, wherever it stands. */
  groups[ALL - 1].size = PAGE / 2;
  REFUSED(kv_put(&store, groups, ALL), "layer 2, block 4, head 3, V: a group has");
  groups[ALL - 1].size = group_bytes;
  REFUSED(kv_get(&store, &one, 1, NULL), "never written");
  if (kv_put(&store, groups, ALL) != 0) CHECK_FAILED("%s", store.why);
  if (kv_drop_cache(&store) != 0) CHECK_FAILED("%s", store.why);
  /* All of them, backwards. */
  for (size_t i = 0; i < ALL; i++) {
    groups[i].key = key_of(ALL - 1 - i);
    memset(memory[i], GUARD_BYTE, group_bytes);
  }
  if (kv_get(&store, groups, ALL, NULL) != 0) CHECK_FAILED("%s", store.why);
  for (size_t i = 0; i < ALL; i++) check_buffer(memory[i], start_of(groups[i].key), group_bytes, "a group");

  one.size = PAGE / 2;
  REFUSED(kv_get(&store, &one, 1, NULL), "layer 1, block 2, head 0, K: a group has");
  REFUSED(kv_put(&store, &one, 1), "not 2048");
  one = groups[0];
  one.key.head = HEADS;
  REFUSED(kv_put(&store, &one, 1), "head 4, V: there is no such group");
  one = groups[0];
  one.key.which = 7;
  REFUSED(kv_get(&store, &one, 1, NULL), "which 7: there is no such group");
  /* A file that somebody has cut. */
  snprintf(path, sizeof path, "%s/layer-2.kv", directory);
  REQUIRE(truncate(path, 0) == 0);
  one = groups[0];
  REFUSED(kv_get(&store, &one, 1, NULL), "layer 2, block 4, head 3, V: ");
  /* No more room in a file. */
  REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  small = limit;
  small.rlim_cur = group_bytes;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  REFUSED(kv_put(&store, &one, 1), "layer 2, block 4, head 3, V: ");
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  REFUSED(kv_get(&store, &one, 1, NULL), "never written");
  if (kv_put(&store, &one, 1) != 0) CHECK_FAILED("%s", store.why);
  if (kv_get(&store, &one, 1, NULL) != 0) CHECK_FAILED("%s", store.why);

  kv_close(&store);
  shut_down(client);
  for (size_t i = 0; i < ALL; i++) buffer_free(memory[i]);
  for (int layer = 0; layer < LAYERS; layer++) {
    snprintf(path, sizeof path, "%s/layer-%d.kv", directory, layer);
    unlink(path);
  }
  rmdir(directory);
}

int main(void) {
  use(RASKIO_LOCAL_AUTO, PAGE);
  use(RASKIO_LOCAL_AUTO, 16 * PAGE);
  use(RASKIO_LOCAL_PREAD, PAGE);
  return CHECK_DONE();
}
