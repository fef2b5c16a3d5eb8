/* The numbers as text: cut off like snprintf's, of a client or of the process, and none of it secret. */
#include "support.h"

/* The whole text, or its beginning if `room` is less; checks what was returned and what was written. */
static size_t text_of(const raskio_client *client, uint32_t format, char *text, size_t room) {
  memset(text, 'x', room + 1);
  const size_t length = raskio_stats_text(client, format, text, room);
  if (room > 0 && length > 0) CHECK_EQ(strlen(text), length < room ? length : room - 1);
  CHECK_EQ(text[room], 'x');
  return length;
}

int main(void) {
  static char text[64 << 10], part[64 << 10];
  raskio_client *client = new_client(RASKIO_BACKEND_MULTI_POLL);
  check_works(client, "a read to count");

  const size_t length = text_of(client, RASKIO_STATS_JSON, text, sizeof text - 1);
  CHECK(length > 0 && length < sizeof text - 1);
  CHECK(text[0] == '{' && text[length - 1] == '}');
  CHECK(strstr(text, "\"ops_finished\":1") && strstr(text, "\"op_latency\":{") && strstr(text, "\"last_fault\":null"));
  /* Numbers may grow meanwhile, but not their digits by much. */
  for (size_t room = 0; room < 200; room += 7) CHECK(text_of(client, RASKIO_STATS_JSON, part, room) + 50 > length);
  CHECK(raskio_stats_text(client, RASKIO_STATS_JSON, NULL, 0) > 0);

  CHECK(text_of(client, RASKIO_STATS_PROMETHEUS, text, sizeof text - 1) > 0);
  CHECK(strstr(text, "\nraskio_ops_finished_total 1\n") && strstr(text, "raskio_op_latency_seconds_bucket{le=\"+Inf\"} 1\n"));
  CHECK_EQ(text_of(client, 0, text, sizeof text - 1), 0);
  CHECK_EQ(text_of(client, 3, text, sizeof text - 1), 0);

  /* Two clients are the process, and one that is gone still counts. */
  raskio_client *other = new_client(RASKIO_BACKEND_EASY_THREADPOOL);
  check_works(other, "a read to count");
  shut_down(other);
  raskio_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  CHECK_STATUS(raskio_process_stats(&stats), RASKIO_OK);
  CHECK_EQ(stats.ops_finished, 2);
  CHECK(stats.op_p50_us > 0 && stats.op_p50_us <= stats.op_p999_us && stats.op_p999_us <= stats.op_max_us);
  CHECK(stats.first_byte_max_us > 0 && stats.connect_us > 0);
  CHECK_STATUS(raskio_process_stats(NULL), RASKIO_ERR_INVALID_ARGUMENT);
  text_of(NULL, RASKIO_STATS_JSON, text, sizeof text - 1);
  CHECK(strstr(text, "\"ops_finished\":2") != NULL);

  part[0] = 'x';
  CHECK_EQ(raskio_last_fault(part, sizeof part), 0);
  CHECK_EQ(part[0], 0);
  CHECK_EQ(raskio_last_fault(NULL, 0), 0);
  shut_down(client);
  return CHECK_DONE();
}
