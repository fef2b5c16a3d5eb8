/* Writes the groups of a key-value cache into a directory, drops the system's cache, and reads many of them back by one call:
 *   kv_cache DIRECTORY [GROUP_BYTES [GROUPS]]
 * kv_cache.h is the store. It reads into host memory; into device memory, on a stream, the call is the same with other pointers
 * (tests_c/cuda_kv_cache.c does it). */
#include "kv_cache.h"
#include <time.h>

enum { LAYERS = 4, BLOCKS = 32, HEADS = 8 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What is in a group, so that it can be recognised. */
static void fill(unsigned char *data, size_t size, kv_key key) {
  uint32_t seed = ((key.layer * BLOCKS + key.block) * HEADS + key.head) * 2 + key.which + 1;
  for (size_t i = 0; i < size; i += sizeof seed) {
    seed = seed * 1664525u + 1013904223u;
    memcpy(data + i, &seed, sizeof seed);
  }
}

int main(int argc, char **argv) {
  size_t group_bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 64 << 10;
  size_t wanted = argc > 3 ? strtoull(argv[3], NULL, 10) : 500, all = (size_t)LAYERS * BLOCKS * HEADS * 2;
  raskio_client *client = NULL;
  raskio_error *error = NULL;
  kv_store store;
  if (argc < 2 || group_bytes == 0 || wanted == 0) {
    fprintf(stderr, "usage: %s DIRECTORY [GROUP_BYTES [GROUPS]]\n", argv[0]);
    return 2;
  }
  if (raskio_client_new(NULL, &client, &error) != RASKIO_OK) {
    fprintf(stderr, "%s\n", raskio_error_message(error));
    return 1;
  }
  if (kv_open(&store, client, argv[1], LAYERS, BLOCKS, HEADS, group_bytes) != 0) {
    fprintf(stderr, "%s\n", store.why);
    return 1;
  }
  kv_group *groups = calloc(all > wanted ? all : wanted, sizeof *groups);
  /* Aligned, so that nothing is copied on its way. */
  unsigned char *memory = NULL, *expected = malloc(group_bytes);
  if (groups == NULL || expected == NULL || posix_memalign((void **)&memory, 4096, (all > wanted ? all : wanted) * group_bytes) != 0)
    return 1;
  for (size_t i = 0; i < all; i++) {
    kv_key key = {(uint32_t)(i / 2 / HEADS / BLOCKS), (uint32_t)(i / 2 / HEADS % BLOCKS), (uint32_t)(i / 2 % HEADS), (uint32_t)(i % 2)};
    groups[i] = (kv_group){key, memory + i * group_bytes, group_bytes};
    fill(groups[i].data, group_bytes, key);
  }
  double start = now();
  if (kv_put(&store, groups, all) != 0) {
    fprintf(stderr, "%s\n", store.why);
    return 1;
  }
  printf("wrote %zu groups of %zu bytes in %.1f ms\n", all, group_bytes, (now() - start) * 1e3);
  if (kv_drop_cache(&store) != 0) {
    fprintf(stderr, "%s\n", store.why);
    return 1;
  }
  memset(memory, 0, wanted * group_bytes);
  for (size_t i = 0; i < wanted; i++) {
    uint32_t n = (uint32_t)(i * 7919 % all);
    kv_key key = {n % LAYERS, n / LAYERS % BLOCKS, n / LAYERS / BLOCKS % HEADS, n / LAYERS / BLOCKS / HEADS};
    groups[i] = (kv_group){key, memory + i * group_bytes, group_bytes};
  }
  start = now();
  if (kv_get(&store, groups, wanted, NULL) != 0) {
    fprintf(stderr, "%s\n", store.why);
    return 1;
  }
  double took = now() - start;
  for (size_t i = 0; i < wanted; i++) {
    fill(expected, group_bytes, groups[i].key);
    if (memcmp(groups[i].data, expected, group_bytes) != 0) {
      fprintf(stderr, "group %zu is wrong\n", i);
      return 1;
    }
  }
  printf("read %zu scattered ones in %.1f ms: %.0f MB/s, all right\n", wanted, took * 1e3,
         (double)(wanted * group_bytes) / took / 1e6);
  kv_close(&store);
  raskio_client_release(client);
  free(groups);
  free(memory);
  free(expected);
  return 0;
}
