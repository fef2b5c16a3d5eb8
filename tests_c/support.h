/* What the test programs share: the server's URLs, clients of both backends, guarded buffers with the server's pattern,
 * and a place for a callback to leave its result. */
#ifndef SUPPORT_H
#define SUPPORT_H
#include "check.h"

#include <raskio.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- status ---- */

#define CHECK_STATUS(actual, expected)                                         \
  do {                                                                         \
    raskio_status check_a = (actual), check_e = (expected);                    \
    if (check_a != check_e)                                                    \
      CHECK_FAILED("%s is %s, expected %s", #actual,                           \
                   raskio_status_name(check_a), raskio_status_name(check_e));  \
  } while (0)

/* As CHECK_STATUS with the error's message, and frees the error. `text`: what the message must contain, or NULL. */
#define CHECK_ERROR(actual, expected, error, text)                             \
  do {                                                                         \
    raskio_status error_a = (actual), error_e = (expected);                    \
    const char *error_m = raskio_error_message(error);                         \
    const char *error_t = (text);                                              \
    if (error_a != error_e)                                                    \
      CHECK_FAILED("%s is %s (%s), expected %s", #actual,                      \
                   raskio_status_name(error_a), error_m,                       \
                   raskio_status_name(error_e));                               \
    if (error_e != RASKIO_OK) CHECK_EQ(raskio_error_status(error), error_e);   \
    if (error_t != NULL && strstr(error_m, error_t) == NULL)                   \
      CHECK_FAILED("\"%s\" does not contain \"%s\"", error_m, error_t);        \
    raskio_error_free(error);                                                  \
    error = NULL;                                                              \
  } while (0)

#define REQUIRE_OK(call, error)                                                \
  do {                                                                         \
    raskio_status check_a = (call);                                            \
    if (check_a != RASKIO_OK) {                                                \
      CHECK_FAILED("%s is %s: %s", #call, raskio_status_name(check_a),         \
                   raskio_error_message(error));                               \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

/* ---- time ---- */

static inline double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void sleep_ms(long ms) {
  struct timespec t;
  t.tv_sec = ms / 1000;
  t.tv_nsec = ms % 1000 * 1000000;
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {
  }
}

/* ---- the server ---- */

#define SMALL 100u
#define MEDIUM (1u << 20)
#define LARGE (64u << 20)

static inline const char *server_url(void) {
  const char *url = getenv("RASKIO_TEST_URL");
  if (url == NULL || *url == '\0') SKIP("RASKIO_TEST_URL is not set: it is the base URL of raskio-testserver");
  return url;
}

/* The URL of an object: "small?status=404". Valid for the calling thread until its eighth next call. */
static inline const char *url_of(const char *object) {
  static __thread char urls[8][512];
  static __thread unsigned next;
  char *url = urls[next++ % 8];
  const char *base = server_url();
  size_t length = strlen(base);
  while (length > 0 && base[length - 1] == '/') length--;
  snprintf(url, sizeof urls[0], "%.*s/%s", (int)length, base, object);
  return url;
}

/* How many requests the server has seen whose line in its log contains `part`. */
static inline long requests_with(const char *part) {
  const char *base = server_url();
  const char *host = strstr(base, "://");
  const char *colon = host == NULL ? NULL : strchr(host + 3, ':');
  struct sockaddr_in address;
  static const char request[] = "GET /ctl/log HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
  size_t size = 0, room = 1 << 16;
  char *text = (char *)malloc(room), *line;
  long count = 0;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(colon != NULL && text != NULL && fd >= 0);
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_port = htons((unsigned short)atoi(colon + 1));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
  REQUIRE(write(fd, request, sizeof request - 1) == (ssize_t)(sizeof request - 1));
  for (;;) {
    ssize_t n = read(fd, text + size, room - size - 1);
    REQUIRE(n >= 0);
    if (n == 0) break;
    size += (size_t)n;
    if (room - size < 2) {
      text = (char *)realloc(text, room *= 2);
      REQUIRE(text != NULL);
    }
  }
  close(fd);
  text[size] = '\0';
  REQUIRE(strncmp(text, "HTTP/1.1 200", 12) == 0);
  for (line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) count += strstr(line, part) != NULL;
  free(text);
  return count;
}

/* ---- clients ---- */

static inline raskio_client_options client_options(uint32_t backend) {
  raskio_client_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.backend = backend;
  options.num_threads = 8;
  options.num_reactors = 1;
  return options;
}

static inline raskio_client *new_client(uint32_t backend) {
  raskio_client_options options = client_options(backend);
  raskio_client *client = NULL;
  raskio_error *error = NULL;
  REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
  return client;
}

static inline raskio_object *open_object(raskio_client *client, const char *object) {
  raskio_object *opened = NULL;
  raskio_error *error = NULL;
  REQUIRE_OK(raskio_object_open(client, url_of(object), NULL, &opened, &error), error);
  return opened;
}

static inline raskio_object *open_sized(raskio_client *client, const char *object, uint64_t size) {
  raskio_object_options options;
  raskio_object *opened = NULL;
  raskio_error *error = NULL;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.flags = RASKIO_OBJECT_SIZE_KNOWN;
  options.size = size;
  REQUIRE_OK(raskio_object_open(client, url_of(object), &options, &opened, &error), error);
  return opened;
}

static inline void shut_down(raskio_client *client) {
  raskio_error *error = NULL;
  REQUIRE_OK(raskio_client_shut_down(client, 20000, &error), error);
  raskio_client_release(client);
}

static const uint32_t BACKENDS[2] = {RASKIO_BACKEND_EASY_THREADPOOL, RASKIO_BACKEND_MULTI_POLL};
#define FOR_EACH_BACKEND(backend)                                              \
  for (uint32_t each = 0, backend = BACKENDS[0]; each < 2; backend = BACKENDS[++each & 1])

/* ---- buffers: 64 bytes of 0xEE on both sides of what RaskIO may write ---- */

#define GUARD 64u
#define GUARD_BYTE 0xEE

static inline unsigned char *buffer_new(size_t size) {
  unsigned char *memory = (unsigned char *)malloc(size + 2 * GUARD);
  REQUIRE(memory != NULL);
  memset(memory, GUARD_BYTE, size + 2 * GUARD);
  return memory + GUARD;
}

static inline unsigned char pattern(uint64_t i) { return (unsigned char)((i % 251 * 31 + 7) % 251); }

static inline void check_guards(const unsigned char *buffer, size_t size, const char *what) {
  for (size_t i = 0; i < GUARD; i++) {
    if (buffer[-1 - (ptrdiff_t)i] != GUARD_BYTE || buffer[size + i] != GUARD_BYTE) {
      CHECK_FAILED("%s: written outside the buffer, %zu bytes from its edge", what, i);
      return;
    }
  }
}

/* Every byte is the object's, and nothing around them was touched. */
static inline void check_buffer(const unsigned char *buffer, uint64_t offset, size_t size, const char *what) {
  for (size_t i = 0; i < size; i++) {
    if (buffer[i] != pattern(offset + i)) {
      CHECK_FAILED("%s: byte %zu of %zu is %u, expected %u", what, i, size, buffer[i], pattern(offset + i));
      break;
    }
  }
  check_guards(buffer, size, what);
}

/* Nothing was written, neither inside nor around. */
static inline void check_untouched(const unsigned char *buffer, size_t size, const char *what) {
  for (size_t i = 0; i < size; i++) {
    if (buffer[i] != GUARD_BYTE) {
      CHECK_FAILED("%s: byte %zu of %zu was written", what, i, size);
      break;
    }
  }
  check_guards(buffer, size, what);
}

static inline void buffer_free(unsigned char *buffer) { free(buffer - GUARD); }

/* ---- callbacks ---- */

/* What a callback was told. outcome_done is the callback, a struct outcome its user data. */
struct outcome {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int calls;
  raskio_status status;
  uint64_t bytes, offset;
  uint32_t attempts;
  raskio_error *error; /* a clone */
};

static inline void outcome_init(struct outcome *outcome) {
  memset(outcome, 0, sizeof *outcome);
  pthread_mutex_init(&outcome->lock, NULL);
  pthread_cond_init(&outcome->changed, NULL);
}

static inline void outcome_done(void *user_data, const raskio_result *result) {
  struct outcome *outcome = (struct outcome *)user_data;
  CHECK(result->struct_size >= sizeof *result);
  CHECK_EQ(result->error != NULL, result->status != RASKIO_OK);
  pthread_mutex_lock(&outcome->lock);
  outcome->calls++;
  outcome->status = result->status;
  outcome->bytes = result->bytes;
  outcome->offset = result->offset;
  outcome->attempts = result->attempts;
  raskio_error_free(outcome->error);
  outcome->error = raskio_error_clone(result->error);
  pthread_cond_broadcast(&outcome->changed);
  pthread_mutex_unlock(&outcome->lock);
}

static inline int outcome_calls(struct outcome *outcome) {
  int calls;
  pthread_mutex_lock(&outcome->lock);
  calls = outcome->calls;
  pthread_mutex_unlock(&outcome->lock);
  return calls;
}

/* Waits for the callback; the time is a limit that a working library is far below. */
static inline void outcome_wait(struct outcome *outcome, const char *what) {
  struct timespec limit;
  int waited = 0;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 60;
  pthread_mutex_lock(&outcome->lock);
  while (outcome->calls == 0 && waited == 0) waited = pthread_cond_timedwait(&outcome->changed, &outcome->lock, &limit);
  pthread_mutex_unlock(&outcome->lock);
  if (waited != 0) {
    CHECK_FAILED("%s: no callback within 60 s", what);
    exit(1);
  }
}

static inline void outcome_free(struct outcome *outcome) {
  raskio_error_free(outcome->error);
  pthread_cond_destroy(&outcome->changed);
  pthread_mutex_destroy(&outcome->lock);
}

/* Reads and waits; the status. `buffer` is a buffer_new of at least `size` bytes. */
static inline raskio_status read_now(raskio_object *object, uint64_t offset, unsigned char *buffer, size_t size) {
  uint64_t bytes = UINT64_MAX;
  raskio_error *error = NULL;
  raskio_status status = raskio_read_sync(object, offset, buffer, size, NULL, &bytes, &error);
  if (status == RASKIO_OK) {
    CHECK_EQ(bytes, size);
    CHECK(error == NULL);
  } else {
    CHECK(bytes == UINT64_MAX);
    CHECK(error != NULL);
  }
  raskio_error_free(error);
  return status;
}

/* One read of a whole small object with checks: the client works. */
static inline void check_works(raskio_client *client, const char *what) {
  raskio_object *object = open_object(client, "small");
  unsigned char *buffer = buffer_new(SMALL);
  CHECK_STATUS(read_now(object, 0, buffer, SMALL), RASKIO_OK);
  check_buffer(buffer, 0, SMALL, what);
  buffer_free(buffer);
  raskio_object_release(object);
}

#endif
