/* The table holds the same pointers as the direct symbols, each of them, and RASKIO_API_HAS tells an older table apart. */
#include "support.h"

int main(void) {
  const raskio_api *api = raskio_get_api(RASKIO_ABI_MAJOR);
  raskio_api older;
  int members = 0;
  REQUIRE(api != NULL);
  CHECK(api == raskio_get_api(RASKIO_ABI_MAJOR));
  CHECK_EQ(api->struct_size, sizeof *api);
  CHECK_EQ(api->abi_major, RASKIO_ABI_MAJOR);
  CHECK_EQ(api->abi_minor, RASKIO_ABI_MINOR);

#define SAME(member)                                                           \
  do {                                                                         \
    CHECK(api->member == raskio_##member);                                     \
    CHECK(RASKIO_API_HAS(api, member));                                        \
    CHECK_EQ(offsetof(raskio_api, member), 16 + 8 * members);                  \
    members++;                                                                 \
  } while (0)
  SAME(version);
  SAME(abi_version);
  SAME(client_new);
  SAME(client_default);
  SAME(client_acquire);
  SAME(client_release);
  SAME(client_shut_down);
  SAME(client_trim);
  SAME(client_stats);
  SAME(endpoint_infer);
  SAME(object_open);
  SAME(object_acquire);
  SAME(object_release);
  SAME(object_stat);
  SAME(object_stat_sync);
  SAME(object_info_get);
  SAME(object_size);
  SAME(object_drop_cache);
  SAME(read);
  SAME(read_sync);
  SAME(read_batch);
  SAME(write);
  SAME(op_acquire);
  SAME(op_cancel);
  SAME(op_wait);
  SAME(op_release);
  SAME(status_name);
  SAME(error_status);
  SAME(error_message);
  SAME(error_http_status);
  SAME(error_os_code);
  SAME(error_clone);
  SAME(error_free);
  SAME(set_log_hook);
  SAME(process_stats);
  SAME(stats_text);
  SAME(last_fault);
  CHECK_EQ(sizeof *api, 16 + 8 * members);

  older = *api;
  older.struct_size = offsetof(raskio_api, set_log_hook);
  CHECK(!RASKIO_API_HAS(&older, set_log_hook));
  CHECK(RASKIO_API_HAS(&older, error_free));
  older.error_free = NULL;
  CHECK(!RASKIO_API_HAS(&older, error_free));
  CHECK(RASKIO_API_HAS(&older, error_clone));
  return CHECK_DONE();
}
