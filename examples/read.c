/* Reads a whole object through MULTI_POLL, shows the progress, checks the bytes and says what it cost:
 *   read URL [CRC32]
 * KVIKIO_REMOTE_IO_BACKEND and the other variables of README.md apply. */
#include "crc32.h"
#include <inttypes.h>
#include <raskio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* An object larger than this is read part after part into the same buffer. */
#define PART_SIZE ((uint64_t)1 << 30)
#define GIB (1024.0 * 1024.0 * 1024.0)

typedef struct {
  raskio_status status;
  raskio_error *error;
} outcome;

/* Runs on a RaskIO thread, once; `result` is gone when it returns. */
static void done(void *user_data, const raskio_result *result) {
  outcome *out = user_data;
  out->status = result->status;
  out->error = raskio_error_clone(result->error);
}

static int failed(const char *what, raskio_status status, raskio_error *error) {
  fprintf(stderr, "%s: %s: %s\n", what, raskio_status_name(status), error ? raskio_error_message(error) : "no message");
  raskio_error_free(error);
  return 1;
}

static double wall_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* One line that writes over itself on a terminal; nothing elsewhere. */
static void show_progress(raskio_client *client, uint64_t size, double seconds) {
  raskio_stats stats = {.struct_size = sizeof stats};
  if (isatty(STDERR_FILENO) && raskio_client_stats(client, &stats) == RASKIO_OK) {
    double bytes = (double)(stats.bytes_received + stats.file_bytes_read); /* of a server, or of a local file */
    fprintf(stderr, "\r%3.0f %%  %8.1f MB  %6.2f GB/s  %" PRIu64 " requests in flight ",
            size ? 100.0 * bytes / (double)size : 100.0, bytes / 1e6, bytes / 1e9 / seconds, stats.requests_in_flight);
  }
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: %s URL [CRC32]\n", argv[0]);
    return 2;
  }
  raskio_client *client = NULL;
  raskio_object *object = NULL;
  raskio_error *error = NULL;
  uint64_t size = 0;
  raskio_status status;

  raskio_client_options options = {.struct_size = sizeof options};
  options.backend = getenv("KVIKIO_REMOTE_IO_BACKEND") ? RASKIO_BACKEND_AUTO : RASKIO_BACKEND_MULTI_POLL;
  if ((status = raskio_client_new(&options, &client, &error)) != RASKIO_OK) return failed("client", status, error);
  if ((status = raskio_object_open(client, argv[1], NULL, &object, &error)) != RASKIO_OK) return failed("open", status, error);
  if ((status = raskio_object_stat_sync(object, &size, &error)) != RASKIO_OK) return failed("stat", status, error);

  uint64_t part = size < PART_SIZE ? size : PART_SIZE;
  unsigned char *buffer = malloc(part ? part : 1);
  if (buffer == NULL) {
    fprintf(stderr, "no memory for a buffer of %" PRIu64 " bytes\n", part);
    return 1;
  }
  /* So that the figures hold no page faults of a new buffer. Not with 0: compilers make malloc and a memset of 0 one calloc,
   * whose pages come only when they are first written. */
  memset(buffer, 1, part ? part : 1);

  uint32_t crc = 0;
  double wall = 0, cpu = 0;
  for (uint64_t offset = 0; offset < size; offset += part) {
    if (part > size - offset) part = size - offset;
    double wall_begin = wall_seconds(), cpu_begin = cpu_seconds();
    outcome out = {RASKIO_OK, NULL};
    raskio_op *op = NULL;
    if ((status = raskio_read(object, offset, buffer, part, NULL, done, &out, &op, &error)) != RASKIO_OK)
      return failed("read", status, error);
    while (raskio_op_wait(op, 200) == RASKIO_ERR_TIMED_OUT) show_progress(client, size, wall + wall_seconds() - wall_begin);
    raskio_op_release(op);
    wall += wall_seconds() - wall_begin;
    cpu += cpu_seconds() - cpu_begin;
    if (out.status != RASKIO_OK) return failed("read", out.status, out.error);
    crc = crc32_update(crc, buffer, part); /* outside the measured time */
  }

  raskio_stats stats = {.struct_size = sizeof stats};
  if (raskio_client_stats(client, &stats) != RASKIO_OK) return 1;
  if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
  printf("read         %" PRIu64 " bytes in %.2f s\n", size, wall);
  printf("throughput   %.2f GB/s\n", wall > 0 ? (double)size / 1e9 / wall : 0.0);
  printf("requests     %" PRIu64 " (%" PRIu64 " retried)\n", stats.requests_started, stats.requests_retried);
  printf("connections  %" PRIu64 " opened, reused %" PRIu64 " times\n", stats.connections_opened, stats.connections_reused);
  printf("CPU          %.2f s a GiB\n", size ? cpu / ((double)size / GIB) : 0.0);
  printf("crc32        %08" PRIx32 "\n", crc);

  free(buffer);
  raskio_object_release(object);
  raskio_client_release(client);
  if (argc == 3 && strtoul(argv[2], NULL, 16) != crc) {
    fprintf(stderr, "wrong bytes: the checksum should be %s\n", argv[2]);
    return 1;
  }
  if (argc == 3) puts("checksum     right");
  return 0;
}
