/* struct_size: smaller than the first version is refused, a larger one is accepted while its unknown tail is zero and
 * UNSUPPORTED otherwise; and nothing in a struct that cannot be right, or that this version lacks, is silently dropped. */
#include "support.h"

static raskio_client *client;
static raskio_object *object;
static unsigned char byte;

static raskio_status with_client_options(const void *options, raskio_error **error) {
  raskio_client *made = NULL;
  raskio_status status = raskio_client_new((const raskio_client_options *)options, &made, error);
  CHECK_EQ(made != NULL, status == RASKIO_OK);
  raskio_client_release(made);
  return status;
}

static raskio_status with_object_options(const void *options, raskio_error **error) {
  raskio_object *made = NULL;
  raskio_status status =
      raskio_object_open(client, "http://127.0.0.1:9/x", (const raskio_object_options *)options, &made, error);
  CHECK_EQ(made != NULL, status == RASKIO_OK);
  raskio_object_release(made);
  return status;
}

/* A read of nothing: the options are all that can be wrong. */
static raskio_status with_read_options(const void *options, raskio_error **error) {
  return raskio_read_sync(object, 0, &byte, 0, (const raskio_read_options *)options, NULL, error);
}

typedef raskio_status (*use_fn)(const void *, raskio_error **);

static void sizes(use_fn use, size_t first, size_t size, const char *name) {
  union {
    size_t struct_size;
    unsigned char bytes[1024];
    void *align;
  } options;
  raskio_error *error = NULL;
  const size_t refused[] = {0, sizeof(size_t), first - 8, first - 1, (size_t)-1};

  memset(&options, 0, sizeof options);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    options.struct_size = refused[i];
    CHECK_ERROR(use(&options, &error), RASKIO_ERR_INVALID_ARGUMENT, error, name);
  }
  options.struct_size = first; /* of a program that is older than some fields */
  CHECK_ERROR(use(&options, &error), RASKIO_OK, error, NULL);
  options.struct_size = size;
  CHECK_ERROR(use(&options, &error), RASKIO_OK, error, NULL);
  options.struct_size = size + 40;
  CHECK_ERROR(use(&options, &error), RASKIO_OK, error, NULL);
  options.struct_size = sizeof options;
  CHECK_ERROR(use(&options, &error), RASKIO_OK, error, NULL);
  options.bytes[size] = 1;
  CHECK_ERROR(use(&options, &error), RASKIO_ERR_UNSUPPORTED, error, name);
  options.bytes[size] = 0;
  options.bytes[sizeof options - 1] = 1;
  CHECK_ERROR(use(&options, &error), RASKIO_ERR_UNSUPPORTED, error, name);
  options.struct_size = sizeof options - 1; /* that byte is not part of it any more */
  CHECK_ERROR(use(&options, &error), RASKIO_OK, error, NULL);
}

static void *no_alloc(void *user_data, size_t size) {
  (void)user_data;
  (void)size;
  return NULL;
}
static void no_free(void *user_data, void *memory, size_t size) {
  (void)user_data;
  (void)memory;
  (void)size;
}
static int32_t no_credentials(void *user_data, raskio_credentials *out) {
  (void)user_data;
  (void)out;
  return 1;
}
static int32_t no_bearer(void *user_data, raskio_bearer *out) {
  (void)user_data;
  (void)out;
  return 1;
}

#define EXPECT(use, initial, change, expected, text)                           \
  do {                                                                         \
    options = initial;                                                         \
    change;                                                                    \
    CHECK_ERROR(use(&options, &error), expected, error, text);                 \
  } while (0)

static void client_fields(void) {
  raskio_client_options options, plain = client_options(RASKIO_BACKEND_AUTO);
  raskio_error *error = NULL;
  const uint16_t statuses[] = {429, 503}, bad[] = {99};
#define E(change, expected, text) EXPECT(with_client_options, plain, change, expected, text)
  E(options.backend = RASKIO_BACKEND_EASY_THREADPOOL, RASKIO_OK, NULL);
  E(options.backend = RASKIO_BACKEND_MULTI_POLL, RASKIO_OK, NULL);
  E(options.backend = 3, RASKIO_ERR_INVALID_ARGUMENT, "backend is 3");
  E(options.reactor_dispatch = 3, RASKIO_ERR_INVALID_ARGUMENT, "reactor_dispatch is 3");
  E(options.local_backend = 3, RASKIO_ERR_INVALID_ARGUMENT, "local_backend is 3");
  E(options.local_backend = RASKIO_LOCAL_URING, RASKIO_OK, NULL); /* probed when a file is opened */
  E(options.local_backend = RASKIO_LOCAL_PREAD, RASKIO_OK, NULL);
  E(options.uring_queue_depth = 32769, RASKIO_ERR_INVALID_ARGUMENT, "uring_queue_depth");
  E(options.concurrency = RASKIO_CONCURRENCY_ADAPTIVE, RASKIO_OK, NULL);
  E(options.concurrency = RASKIO_CONCURRENCY_FIXED, RASKIO_OK, NULL);
  E(options.concurrency = 3, RASKIO_ERR_INVALID_ARGUMENT, "concurrency is 3");
  E(options.hedging = RASKIO_HEDGING_ON, RASKIO_OK, NULL);
  E(options.hedging = 3, RASKIO_ERR_INVALID_ARGUMENT, "hedging is 3");
  E(options.max_free_events = 1, RASKIO_OK, NULL);
  E((options.pinned_alloc = no_alloc, options.pinned_free = no_free), RASKIO_OK, NULL);
  E(options.pinned_alloc = no_alloc, RASKIO_ERR_INVALID_ARGUMENT, "pinned_free");
  E(options.pinned_free = no_free, RASKIO_ERR_INVALID_ARGUMENT, "pinned_alloc");
  E(options.credentials = no_credentials, RASKIO_OK, NULL);
  E(options.bearer = no_bearer, RASKIO_OK, NULL);
  E(options.num_reactors = UINT32_MAX, RASKIO_ERR_INVALID_ARGUMENT, "num_reactors");
  E(options.retry_status_count = 1, RASKIO_ERR_INVALID_ARGUMENT, "retry_status");
  E((options.retry_status = statuses, options.retry_status_count = 2), RASKIO_OK, NULL);
  E(options.retry_status = statuses, RASKIO_OK, NULL); /* an empty list */
  E((options.retry_status = bad, options.retry_status_count = 1), RASKIO_ERR_INVALID_ARGUMENT, "retry_status");
  E((options.retry_status = statuses, options.retry_status_count = (size_t)-1), RASKIO_ERR_INVALID_ARGUMENT,
    "retry_status_count");
  E((options.max_concurrent_requests = RASKIO_UNLIMITED, options.stall_timeout_ms = RASKIO_UNLIMITED,
     options.connect_timeout_ms = RASKIO_UNLIMITED, options.request_timeout_ms = RASKIO_UNLIMITED),
    RASKIO_OK, NULL);
#undef E
}

static void object_fields(void) {
  raskio_object_options options, plain;
  raskio_error *error = NULL;
  const char *header[] = {"X-One: 1", NULL}, *crlf[] = {"X-One: 1\r\nX-Two: 2"}, *nameless[] = {"no colon"};
  memset(&plain, 0, sizeof plain);
  plain.struct_size = sizeof plain;
#define E(change, expected, text) EXPECT(with_object_options, plain, change, expected, text)
  E(options.endpoint = RASKIO_ENDPOINT_HTTP, RASKIO_OK, NULL);
  E(options.endpoint = 7, RASKIO_ERR_INVALID_ARGUMENT, "endpoint is 7");
  E(options.endpoint = RASKIO_ENDPOINT_S3_PUBLIC, RASKIO_OK, NULL);
  E(options.endpoint = RASKIO_ENDPOINT_S3_PRESIGNED, RASKIO_OK, NULL);
  E(options.endpoint = RASKIO_ENDPOINT_WEBHDFS, RASKIO_ERR_INVALID_ARGUMENT, "/webhdfs/v1/");
  E(options.endpoint = RASKIO_ENDPOINT_FILE, RASKIO_ERR_INVALID_ARGUMENT, "file:///");
  E(options.flags = 256, RASKIO_ERR_UNSUPPORTED, "0x100");
  E(options.flags = RASKIO_OBJECT_DIRECT | RASKIO_OBJECT_BUFFERED, RASKIO_ERR_INVALID_ARGUMENT, "BUFFERED");
  E(options.flags = RASKIO_OBJECT_DIRECT, RASKIO_OK, NULL); /* of no meaning for a remote object */
  E(options.flags = RASKIO_OBJECT_S3_VIRTUAL_HOST | RASKIO_OBJECT_S3_PATH_STYLE, RASKIO_ERR_INVALID_ARGUMENT, "S3_PATH_STYLE");
  E(options.flags = RASKIO_OBJECT_BEARER_FROM_HOST, RASKIO_ERR_INVALID_ARGUMENT, "bearer callback");
  E(options.allowed_endpoints = 1u << RASKIO_ENDPOINT_HTTP, RASKIO_OK, NULL);
  E(options.allowed_endpoints = 1u << RASKIO_ENDPOINT_S3, RASKIO_ERR_INVALID_ARGUMENT, "allowed_endpoints");
  E(options.reserved0 = 1, RASKIO_ERR_INVALID_ARGUMENT, "reserved0");
  E(options.flags = RASKIO_OBJECT_WRITABLE, RASKIO_ERR_UNSUPPORTED, "WRITABLE");
  E(options.size = 1, RASKIO_ERR_INVALID_ARGUMENT, "RASKIO_OBJECT_SIZE_KNOWN");
  E(options.flags = RASKIO_OBJECT_SIZE_KNOWN, RASKIO_OK, NULL);
  E((options.flags = RASKIO_OBJECT_SIZE_KNOWN, options.size = RASKIO_SIZE_UNKNOWN), RASKIO_ERR_INVALID_ARGUMENT, "size");
  E((options.access_key_id = "k", options.secret_access_key = "SECRET"), RASKIO_OK, NULL);
  E(options.access_key_id = "k", RASKIO_ERR_INVALID_ARGUMENT, "secret_access_key");
  E((options.access_key_id = "k", options.secret_access_key = "SECRET", options.region = "R!"),
    RASKIO_ERR_INVALID_ARGUMENT, "region");
  E((options.access_key_id = "k\n", options.secret_access_key = "SECRET"), RASKIO_ERR_INVALID_ARGUMENT, "access_key_id");
  E((options.endpoint = RASKIO_ENDPOINT_S3, options.endpoint_url = "http://h"), RASKIO_ERR_INVALID_ARGUMENT,
    "endpoint_url");
  E(options.user_name = "u", RASKIO_OK, NULL);
  E(options.bearer_token = "t", RASKIO_OK, NULL);
  E(options.bearer_token = "a b", RASKIO_ERR_INVALID_ARGUMENT, "bearer token");
  E(options.proxy = "", RASKIO_OK, NULL);
  E(options.proxy = "http://user:SECRET@127.0.0.1:9", RASKIO_OK, NULL);
  E(options.proxy = "ftp://user:SECRET@127.0.0.1:9", RASKIO_ERR_INVALID_ARGUMENT, "ftp");
  E(options.unix_socket = "@name", RASKIO_OK, NULL);
  E(options.unix_socket = "@", RASKIO_ERR_INVALID_ARGUMENT, "unix_socket");
  E((options.unix_socket = "/s", options.proxy = "http://h"), RASKIO_ERR_INVALID_ARGUMENT, "proxy");
  E(options.client_certificate = "/does/not/exist", RASKIO_ERR_INVALID_ARGUMENT, "client_certificate");
  E(options.client_key = "/does/not/exist", RASKIO_ERR_INVALID_ARGUMENT, "client_key");
  E(options.ca_file = "\xff", RASKIO_ERR_INVALID_ARGUMENT, "ca_file is not UTF-8");
  E((options.headers = header, options.header_count = 1), RASKIO_OK, NULL);
  E((options.headers = header, options.header_count = 2), RASKIO_ERR_INVALID_ARGUMENT, "headers[1] is NULL");
  E((options.headers = crlf, options.header_count = 1), RASKIO_ERR_INVALID_ARGUMENT, "header");
  E((options.headers = nameless, options.header_count = 1), RASKIO_ERR_INVALID_ARGUMENT, "header");
  E(options.header_count = 1, RASKIO_ERR_INVALID_ARGUMENT, "headers is NULL");
  E((options.headers = header, options.header_count = (size_t)-1), RASKIO_ERR_INVALID_ARGUMENT, "header_count");
#undef E
}

static void read_fields(void) {
  raskio_read_options options, plain;
  raskio_error *error = NULL;
  memset(&plain, 0, sizeof plain);
  plain.struct_size = sizeof plain;
#define E(change, expected, text) EXPECT(with_read_options, plain, change, expected, text)
  E(options.memory = RASKIO_MEMORY_HOST, RASKIO_OK, NULL);
  /* A read of nothing, so that no driver is needed. */
  E(options.memory = RASKIO_MEMORY_CUDA, RASKIO_OK, NULL);
  E(options.memory = 3, RASKIO_ERR_INVALID_ARGUMENT, "memory is 3");
  E(options.flags = RASKIO_READ_FROM_END, RASKIO_OK, NULL);
  E((options.flags = RASKIO_READ_ON_STREAM, options.stream = &options), RASKIO_OK, NULL);
  E(options.flags = 1u << 31, RASKIO_ERR_UNSUPPORTED, "0x80000000");
  E(options.stream = &options, RASKIO_ERR_INVALID_ARGUMENT, "stream");
  E(options.reserved0 = 1, RASKIO_ERR_INVALID_ARGUMENT, "reserved0");
  E(options.deadline_ms = RASKIO_UNLIMITED, RASKIO_OK, NULL);
#undef E
}

int main(void) {
  raskio_error *error = NULL;
  client = new_client(RASKIO_BACKEND_MULTI_POLL);
  REQUIRE_OK(raskio_object_open(client, "http://127.0.0.1:9/x", NULL, &object, &error), error);
  sizes(with_client_options, 152, sizeof(raskio_client_options), "raskio_client_options");
  sizes(with_object_options, 96, sizeof(raskio_object_options), "raskio_object_options");
  sizes(with_read_options, sizeof(raskio_read_options), sizeof(raskio_read_options), "raskio_read_options");
  client_fields();
  object_fields();
  read_fields();
  raskio_object_release(object);
  shut_down(client);
  return CHECK_DONE();
}
