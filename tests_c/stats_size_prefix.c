/* struct_size of an output is an input: at most so many bytes are written, what the library does not know becomes zero. */
#include "support.h"

union room {
  raskio_stats stats;
  raskio_object_info info;
  size_t struct_size;
  unsigned char bytes[1024];
};

static void fill(union room *room, size_t struct_size) {
  memset(room, 0xEE, sizeof *room);
  room->struct_size = struct_size;
}

static void untouched_from(const union room *room, size_t from) {
  for (size_t i = from; i < sizeof room->bytes; i++) {
    if (room->bytes[i] != 0xEE) {
      CHECK_FAILED("struct_size %zu: byte %zu was written", room->struct_size, i);
      return;
    }
  }
}

int main(void) {
  raskio_client *client = new_client(RASKIO_BACKEND_MULTI_POLL);
  raskio_object *object = open_object(client, "small");
  raskio_stats full;
  union room room;
  check_works(client, "a read to count");

  memset(&full, 0, sizeof full);
  full.struct_size = sizeof full;
  CHECK_STATUS(raskio_client_stats(client, &full), RASKIO_OK);
  CHECK_EQ(full.struct_size, sizeof full);
  CHECK_EQ(full.ops_started, 1);
  CHECK_EQ(full.bytes_received, SMALL);

  for (size_t size = sizeof(size_t); size <= sizeof full; size += 8) {
    fill(&room, size);
    CHECK_STATUS(raskio_client_stats(client, &room.stats), RASKIO_OK);
    CHECK_EQ(room.struct_size, size);
    CHECK(memcmp(room.bytes + 8, (unsigned char *)&full + 8, size - 8) == 0);
    untouched_from(&room, size);
  }
  fill(&room, sizeof full + 24);
  CHECK_STATUS(raskio_client_stats(client, &room.stats), RASKIO_OK);
  CHECK(memcmp(room.bytes + 8, (unsigned char *)&full + 8, sizeof full - 8) == 0);
  for (size_t i = 0; i < 24; i++) CHECK_EQ(room.bytes[sizeof full + i], 0);
  untouched_from(&room, sizeof full + 24);
  for (size_t size = 0; size < sizeof(size_t); size++) {
    fill(&room, size);
    CHECK_STATUS(raskio_client_stats(client, &room.stats), RASKIO_ERR_INVALID_ARGUMENT);
    untouched_from(&room, sizeof(size_t));
  }
  fill(&room, (size_t)-1);
  CHECK_STATUS(raskio_client_stats(client, &room.stats), RASKIO_ERR_INVALID_ARGUMENT);
  untouched_from(&room, sizeof(size_t));

  fill(&room, 16);
  CHECK_STATUS(raskio_object_info_get(object, &room.info), RASKIO_OK);
  CHECK_EQ(room.info.endpoint, RASKIO_ENDPOINT_HTTP);
  untouched_from(&room, 16);
  fill(&room, sizeof room.info + 8);
  CHECK_STATUS(raskio_object_info_get(object, &room.info), RASKIO_OK);
  CHECK(room.info.size == RASKIO_SIZE_UNKNOWN);
  CHECK(room.info.etag == NULL);
  untouched_from(&room, sizeof room.info + 8);

  /* What a stat learns is there afterwards. */
  CHECK_STATUS(raskio_object_stat_sync(object, NULL, NULL), RASKIO_OK);
  fill(&room, sizeof room.info);
  CHECK_STATUS(raskio_object_info_get(object, &room.info), RASKIO_OK);
  CHECK_EQ(room.info.size, SMALL);
  CHECK_EQ(raskio_object_size(object), SMALL);
  CHECK_EQ(room.info.reserved0, 0);
  CHECK(room.info.etag != NULL && room.info.etag[0] != '\0');
  raskio_object_release(object);
  shut_down(client);
  return CHECK_DONE();
}
