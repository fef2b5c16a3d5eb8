/* The key-value cache of an inference server, kept in files: a worked example on top of RaskIO's calls for files and batches.
 *
 * What attention has computed for a block of tokens is a group of bytes for each layer, head, and K or V. All groups have one size, a
 * whole number of pages, so that they can be read past the system's cache straight into the pinned buffers that a device copies from.
 * One file a layer; where a group lies in it follows from its key. Groups are written from host memory, and many scattered ones are
 * read by one call, into host or device memory. Which of them are there is known in memory: a server that starts begins empty.
 *
 * Every function returns 0, or -1 with a reason in the store's `why` that names the group. Not for several threads at once. */
#ifndef KV_CACHE_H
#define KV_CACHE_H

#include <inttypes.h>
#include <raskio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KV_K = 0, KV_V = 1 };

typedef struct {
  uint32_t layer, block, head;
  uint32_t which; /* KV_K or KV_V */
} kv_key;

/* A group to be written from, or read into, this memory. */
typedef struct {
  kv_key key;
  void *data;
  size_t size;
} kv_group;

typedef struct {
  uint32_t layers, blocks, heads;
  size_t group_bytes;
  raskio_client *client;
  raskio_object **files; /* one a layer */
  unsigned char **there; /* of each layer, whether a group was written */
  char why[512];
} kv_store;

static inline size_t kv_groups_of_layer(const kv_store *store) { return (size_t)store->blocks * store->heads * 2; }

static inline size_t kv_index(const kv_store *store, kv_key key) {
  return ((size_t)key.block * store->heads + key.head) * 2 + key.which;
}

/* Puts the reason into `why`, with the group that it is about. */
static inline int kv_failed(kv_store *store, const kv_key *key, const char *what) {
  char which[24];
  if (key == NULL) {
    snprintf(store->why, sizeof store->why, "%s", what);
  } else {
    snprintf(which, sizeof which, "which %" PRIu32, key->which);
    snprintf(store->why, sizeof store->why, "layer %" PRIu32 ", block %" PRIu32 ", head %" PRIu32 ", %s: %s", key->layer,
             key->block, key->head, key->which == KV_K ? "K" : key->which == KV_V ? "V" : which, what);
  }
  return -1;
}

/* What can be said of a group before anything is read or written. */
static inline int kv_check(kv_store *store, const kv_group *group, int read) {
  const kv_key *key = &group->key;
  char words[128];
  if (key->layer >= store->layers || key->block >= store->blocks || key->head >= store->heads || key->which > KV_V)
    return kv_failed(store, key, "there is no such group in this store");
  if (group->size != store->group_bytes) {
    snprintf(words, sizeof words, "a group has %zu bytes, not %zu", store->group_bytes, group->size);
    return kv_failed(store, key, words);
  }
  if (read && !store->there[key->layer][kv_index(store, *key)]) return kv_failed(store, key, "it was never written");
  return 0;
}

static inline void kv_close(kv_store *store) {
  for (uint32_t layer = 0; layer < store->layers; layer++) {
    if (store->files != NULL) raskio_object_release(store->files[layer]);
    if (store->there != NULL) free(store->there[layer]);
  }
  free(store->files);
  free(store->there);
  raskio_client_release(store->client);
  store->files = NULL;
  store->there = NULL;
  store->client = NULL;
}

/* A store with its files in `directory`, which are made as groups are written. */
static inline int kv_open(kv_store *store, raskio_client *client, const char *directory, uint32_t layers, uint32_t blocks,
                          uint32_t heads, size_t group_bytes) {
  raskio_object_options options;
  raskio_error *error = NULL;
  char path[4096];
  memset(store, 0, sizeof *store);
  store->blocks = blocks;
  store->heads = heads;
  store->group_bytes = group_bytes;
  if (group_bytes == 0 || group_bytes % 4096 != 0) return kv_failed(store, NULL, "a group is a whole number of pages of 4096 bytes");
  store->client = raskio_client_acquire(client);
  store->files = (raskio_object **)calloc(layers, sizeof *store->files);
  store->there = (unsigned char **)calloc(layers, sizeof *store->there);
  if (store->files == NULL || store->there == NULL) return kv_failed(store, NULL, "out of memory");
  store->layers = layers;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.endpoint = RASKIO_ENDPOINT_FILE;
  /* Groups are read once and then live on the device: the system's cache would only be another copy. */
  options.flags = RASKIO_OBJECT_WRITABLE | RASKIO_OBJECT_DIRECT;
  for (uint32_t layer = 0; layer < layers; layer++) {
    int length = snprintf(path, sizeof path, "%s/layer-%" PRIu32 ".kv", directory, layer);
    if (length < 0 || (size_t)length >= sizeof path) return kv_failed(store, NULL, "the directory's name is too long");
    store->there[layer] = (unsigned char *)calloc(kv_groups_of_layer(store), 1);
    if (store->there[layer] == NULL) return kv_failed(store, NULL, "out of memory");
    if (raskio_object_open(client, path, &options, &store->files[layer], &error) != RASKIO_OK) {
      kv_failed(store, NULL, raskio_error_message(error));
      raskio_error_free(error);
      return -1;
    }
  }
  return 0;
}

/* ---- writing ---- */

/* How one write ended: filled in by its callback, looked at after raskio_op_wait. */
typedef struct {
  raskio_op *op;
  raskio_error *error;
} kv_write;

static inline void kv_written(void *user_data, const raskio_result *result) {
  kv_write *write = (kv_write *)user_data;
  write->error = raskio_error_clone(result->error);
}

/* Writes groups, all at once, and waits. Nothing is written if one of them cannot be a group. If writing fails, the first one that
 * could not be written is named, and those that could are there. */
static inline int kv_put(kv_store *store, const kv_group *groups, size_t count) {
  kv_write *writes = (kv_write *)calloc(count ? count : 1, sizeof *writes);
  raskio_error *refused = NULL;
  size_t started;
  int failed = 0;
  if (writes == NULL) return kv_failed(store, NULL, "out of memory");
  for (size_t i = 0; i < count && failed == 0; i++) failed = kv_check(store, &groups[i], 0);
  for (started = 0; started < count && failed == 0; started++) {
    const kv_group *group = &groups[started];
    if (raskio_write(store->files[group->key.layer], kv_index(store, group->key) * store->group_bytes, group->data, group->size,
                     NULL, kv_written, &writes[started], &writes[started].op, &refused) != RASKIO_OK)
      break;
  }
  for (size_t i = 0; i < started; i++) {
    raskio_op_wait(writes[i].op, RASKIO_UNLIMITED);
    raskio_op_release(writes[i].op);
    unsigned char *there = &store->there[groups[i].key.layer][kv_index(store, groups[i].key)];
    /* What was there before may be half overwritten. */
    *there = writes[i].error == NULL;
    if (writes[i].error != NULL && failed == 0) failed = kv_failed(store, &groups[i].key, raskio_error_message(writes[i].error));
    raskio_error_free(writes[i].error);
  }
  if (refused != NULL && failed == 0) failed = kv_failed(store, &groups[started].key, raskio_error_message(refused));
  raskio_error_free(refused);
  free(writes);
  return failed;
}

/* ---- reading ---- */

/* What the callback of a batch needs. */
typedef struct {
  kv_store *store;
  const kv_group *groups;
  int failed;
} kv_read;

static inline void kv_done(void *user_data, const raskio_result *result) {
  kv_read *read = (kv_read *)user_data;
  for (size_t i = 0; i < result->item_count && read->failed == 0; i++) {
    /* By their stride: a newer library may know more about an item than this program. */
    const raskio_item_result *item = (const raskio_item_result *)((const char *)result->items + i * result->item_size);
    if (item->status != RASKIO_OK) read->failed = kv_failed(read->store, &read->groups[i].key, raskio_error_message(item->error));
  }
  if (result->status != RASKIO_OK && read->failed == 0)
    read->failed = kv_failed(read->store, NULL, raskio_error_message(result->error));
}

/* Reads groups by one call, in any order, and waits. `how` says what memory they go to, and on which stream; NULL: host memory, or
 * device memory that is ready. Nothing is read if a group cannot be. */
static inline int kv_get(kv_store *store, const kv_group *groups, size_t count, const raskio_read_options *how) {
  raskio_read_spec *specs = (raskio_read_spec *)calloc(count ? count : 1, sizeof *specs);
  raskio_batch_options options;
  kv_read read = {store, groups, 0};
  raskio_op *op = NULL;
  raskio_error *error = NULL;
  if (specs == NULL) return kv_failed(store, NULL, "out of memory");
  for (size_t i = 0; i < count && read.failed == 0; i++) {
    read.failed = kv_check(store, &groups[i], 1);
    if (read.failed != 0) break;
    specs[i].object = store->files[groups[i].key.layer];
    specs[i].offset = kv_index(store, groups[i].key) * store->group_bytes;
    specs[i].data = groups[i].data;
    specs[i].size = groups[i].size;
  }
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.read = how;
  if (read.failed == 0) {
    if (raskio_read_batch(store->client, specs, count, sizeof *specs, &options, kv_done, &read, &op, &error) == RASKIO_OK) {
      raskio_op_wait(op, RASKIO_UNLIMITED);
      raskio_op_release(op);
    } else {
      read.failed = kv_failed(store, NULL, raskio_error_message(error));
      raskio_error_free(error);
    }
  }
  free(specs);
  return read.failed;
}

/* Has the next reads come from the device, not from the system's cache. */
static inline int kv_drop_cache(kv_store *store) {
  for (uint32_t layer = 0; layer < store->layers; layer++) {
    raskio_error *error = NULL;
    /* A layer of which nothing was written has no file yet. */
    if (memchr(store->there[layer], 1, kv_groups_of_layer(store)) == NULL) continue;
    if (raskio_object_drop_cache(store->files[layer], &error) != RASKIO_OK) {
      kv_failed(store, NULL, raskio_error_message(error));
      raskio_error_free(error);
      return -1;
    }
  }
  return 0;
}

#endif
