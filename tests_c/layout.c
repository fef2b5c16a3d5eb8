/* sizeof and offsetof of every public struct, in numbers: programs that are already compiled depend on them. */
#include "check.h"
#include <raskio.h>

#define SIZE(type, number) CHECK_EQ(sizeof(type), number)
#define AT(type, field, number) CHECK_EQ(offsetof(type, field), number)

int main(void) {
  SIZE(raskio_credentials, 40);
  AT(raskio_credentials, struct_size, 0);
  AT(raskio_credentials, access_key_id, 8);
  AT(raskio_credentials, secret_access_key, 16);
  AT(raskio_credentials, session_token, 24);
  AT(raskio_credentials, expires_unix_s, 32);

  SIZE(raskio_client_options, 160);
  AT(raskio_client_options, struct_size, 0);
  AT(raskio_client_options, backend, 8);
  AT(raskio_client_options, reactor_dispatch, 12);
  AT(raskio_client_options, num_reactors, 16);
  AT(raskio_client_options, num_threads, 20);
  AT(raskio_client_options, max_concurrent_requests, 24);
  AT(raskio_client_options, max_attempts, 28);
  AT(raskio_client_options, task_size, 32);
  AT(raskio_client_options, connect_timeout_ms, 40);
  AT(raskio_client_options, stall_timeout_ms, 44);
  AT(raskio_client_options, request_timeout_ms, 48);
  AT(raskio_client_options, callback_threads, 52);
  AT(raskio_client_options, retry_status, 56);
  AT(raskio_client_options, retry_status_count, 64);
  AT(raskio_client_options, bounce_buffer_size, 72);
  AT(raskio_client_options, max_pinned_bytes, 80);
  AT(raskio_client_options, pinned_alloc, 88);
  AT(raskio_client_options, pinned_free, 96);
  AT(raskio_client_options, local_backend, 104);
  AT(raskio_client_options, uring_queue_depth, 108);
  AT(raskio_client_options, uring_sqpoll_idle_ms, 112);
  AT(raskio_client_options, concurrency, 116);
  AT(raskio_client_options, credentials, 120);
  AT(raskio_client_options, on_shut_down, 128);
  AT(raskio_client_options, user_data, 136);
  AT(raskio_client_options, max_free_events, 144);
  AT(raskio_client_options, reserved0, 148);
  AT(raskio_client_options, bearer, 152);

  SIZE(raskio_bearer, 32);
  AT(raskio_bearer, struct_size, 0);
  AT(raskio_bearer, origin, 8);
  AT(raskio_bearer, token, 16);
  AT(raskio_bearer, expires_unix_s, 24);

  SIZE(raskio_stats, 176);
  AT(raskio_stats, struct_size, 0);
  AT(raskio_stats, ops_started, 8);
  AT(raskio_stats, ops_finished, 16);
  AT(raskio_stats, ops_cancelled, 24);
  AT(raskio_stats, requests_started, 32);
  AT(raskio_stats, requests_finished, 40);
  AT(raskio_stats, requests_retried, 48);
  AT(raskio_stats, requests_failed, 56);
  AT(raskio_stats, requests_in_flight, 64);
  AT(raskio_stats, requests_queued, 72);
  AT(raskio_stats, bytes_received, 80);
  AT(raskio_stats, bytes_staged, 88);
  AT(raskio_stats, connections_opened, 96);
  AT(raskio_stats, connections_reused, 104);
  AT(raskio_stats, bounce_buffers_total, 112);
  AT(raskio_stats, bounce_buffers_in_use, 120);
  AT(raskio_stats, bounce_buffer_waits, 128);
  AT(raskio_stats, pinned_bytes, 136);
  AT(raskio_stats, events_free, 144);
  AT(raskio_stats, events_total, 152);
  AT(raskio_stats, reactors_replaced, 160);
  AT(raskio_stats, handles_leaked, 168);

  SIZE(raskio_read_options, 40);
  AT(raskio_read_options, struct_size, 0);
  AT(raskio_read_options, memory, 8);
  AT(raskio_read_options, flags, 12);
  AT(raskio_read_options, task_size, 16);
  AT(raskio_read_options, deadline_ms, 24);
  AT(raskio_read_options, reserved0, 28);
  AT(raskio_read_options, stream, 32);

  SIZE(raskio_item_result, 32);
  AT(raskio_item_result, status, 0);
  AT(raskio_item_result, attempts, 4);
  AT(raskio_item_result, bytes, 8);
  AT(raskio_item_result, error, 16);
  AT(raskio_item_result, offset, 24);

  SIZE(raskio_result, 64);
  AT(raskio_result, struct_size, 0);
  AT(raskio_result, status, 8);
  AT(raskio_result, attempts, 12);
  AT(raskio_result, bytes, 16);
  AT(raskio_result, offset, 24);
  AT(raskio_result, error, 32);
  AT(raskio_result, items, 40);
  AT(raskio_result, item_count, 48);
  AT(raskio_result, item_size, 56);

  SIZE(raskio_object_options, 152);
  AT(raskio_object_options, struct_size, 0);
  AT(raskio_object_options, endpoint, 8);
  AT(raskio_object_options, flags, 12);
  AT(raskio_object_options, size, 16);
  AT(raskio_object_options, region, 24);
  AT(raskio_object_options, endpoint_url, 32);
  AT(raskio_object_options, access_key_id, 40);
  AT(raskio_object_options, secret_access_key, 48);
  AT(raskio_object_options, session_token, 56);
  AT(raskio_object_options, user_name, 64);
  AT(raskio_object_options, ca_file, 72);
  AT(raskio_object_options, headers, 80);
  AT(raskio_object_options, header_count, 88);
  AT(raskio_object_options, allowed_endpoints, 96);
  AT(raskio_object_options, reserved0, 100);
  AT(raskio_object_options, bearer_token, 104);
  AT(raskio_object_options, client_certificate, 112);
  AT(raskio_object_options, client_key, 120);
  AT(raskio_object_options, client_key_password, 128);
  AT(raskio_object_options, proxy, 136);
  AT(raskio_object_options, unix_socket, 144);

  SIZE(raskio_object_info, 32);
  AT(raskio_object_info, struct_size, 0);
  AT(raskio_object_info, endpoint, 8);
  AT(raskio_object_info, reserved0, 12);
  AT(raskio_object_info, size, 16);
  AT(raskio_object_info, etag, 24);

  SIZE(raskio_read_spec, 48);
  AT(raskio_read_spec, object, 0);
  AT(raskio_read_spec, offset, 8);
  AT(raskio_read_spec, data, 16);
  AT(raskio_read_spec, size, 24);
  AT(raskio_read_spec, user_data, 32);
  AT(raskio_read_spec, flags, 40);
  AT(raskio_read_spec, reserved0, 44);

  SIZE(raskio_batch_options, 40);
  AT(raskio_batch_options, struct_size, 0);
  AT(raskio_batch_options, coalesce_gap, 8);
  AT(raskio_batch_options, coalesce_max, 16);
  AT(raskio_batch_options, read, 24);
  AT(raskio_batch_options, item_done, 32);

  SIZE(raskio_log_record, 48);
  AT(raskio_log_record, struct_size, 0);
  AT(raskio_log_record, level, 8);
  AT(raskio_log_record, line, 12);
  AT(raskio_log_record, target, 16);
  AT(raskio_log_record, target_size, 24);
  AT(raskio_log_record, message, 32);
  AT(raskio_log_record, message_size, 40);

  SIZE(raskio_api, 288);
  AT(raskio_api, struct_size, 0);
  AT(raskio_api, abi_major, 8);
  AT(raskio_api, abi_minor, 12);
  AT(raskio_api, version, 16);
  AT(raskio_api, abi_version, 24);
  AT(raskio_api, client_new, 32);
  AT(raskio_api, client_default, 40);
  AT(raskio_api, client_acquire, 48);
  AT(raskio_api, client_release, 56);
  AT(raskio_api, client_shut_down, 64);
  AT(raskio_api, client_trim, 72);
  AT(raskio_api, client_stats, 80);
  AT(raskio_api, endpoint_infer, 88);
  AT(raskio_api, object_open, 96);
  AT(raskio_api, object_acquire, 104);
  AT(raskio_api, object_release, 112);
  AT(raskio_api, object_stat, 120);
  AT(raskio_api, object_stat_sync, 128);
  AT(raskio_api, object_info_get, 136);
  AT(raskio_api, object_size, 144);
  AT(raskio_api, object_drop_cache, 152);
  AT(raskio_api, read, 160);
  AT(raskio_api, read_sync, 168);
  AT(raskio_api, read_batch, 176);
  AT(raskio_api, write, 184);
  AT(raskio_api, op_acquire, 192);
  AT(raskio_api, op_cancel, 200);
  AT(raskio_api, op_wait, 208);
  AT(raskio_api, op_release, 216);
  AT(raskio_api, status_name, 224);
  AT(raskio_api, error_status, 232);
  AT(raskio_api, error_message, 240);
  AT(raskio_api, error_http_status, 248);
  AT(raskio_api, error_os_code, 256);
  AT(raskio_api, error_clone, 264);
  AT(raskio_api, error_free, 272);
  AT(raskio_api, set_log_hook, 280);
  return CHECK_DONE();
}
