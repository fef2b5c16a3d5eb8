/* An error object names the object and carries the HTTP status or errno; it may be kept beyond the callback that lent it; and
 * it holds no secret. */
#include "support.h"

#include <ctype.h>

static void one_line(const char *message) {
  CHECK(strlen(message) > 10);
  for (; *message != '\0'; message++) CHECK(!iscntrl((unsigned char)*message));
}

static void http_error(raskio_client *client, int status, raskio_status expected) {
  char url[64], path[32];
  raskio_object *object;
  raskio_error *error = NULL, *kept;
  struct outcome outcome;
  unsigned char *buffer = buffer_new(SMALL);
  snprintf(path, sizeof path, "/small");
  snprintf(url, sizeof url, "small?status=%d", status);
  object = open_object(client, url);

  CHECK_STATUS(raskio_read_sync(object, 0, buffer, SMALL, NULL, NULL, &error), expected);
  CHECK_STATUS(raskio_error_status(error), expected);
  CHECK_EQ(raskio_error_http_status(error), status);
  CHECK_EQ(raskio_error_os_code(error), 0);
  CHECK(strstr(raskio_error_message(error), path) != NULL);
  one_line(raskio_error_message(error));
  kept = raskio_error_clone(error);
  raskio_error_free(error);
  CHECK_EQ(raskio_error_http_status(kept), status);
  raskio_error_free(kept);

  outcome_init(&outcome);
  CHECK_STATUS(raskio_read(object, 0, buffer, SMALL, NULL, outcome_done, &outcome, NULL, NULL), RASKIO_OK);
  outcome_wait(&outcome, url);
  CHECK_STATUS(outcome.status, expected);
  CHECK_EQ(outcome.attempts, 1);
  CHECK_EQ(outcome.bytes, 0);
  CHECK_EQ(raskio_error_http_status(outcome.error), status);
  CHECK(strstr(raskio_error_message(outcome.error), path) != NULL);
  outcome_free(&outcome);

  check_untouched(buffer, SMALL, url);
  raskio_object_release(object);
  buffer_free(buffer);
}

static void refused_connection(raskio_client *client) {
  struct sockaddr_in address;
  socklen_t length = sizeof address;
  char url[64], port[16];
  raskio_object *object = NULL;
  raskio_error *error = NULL;
  int fd = socket(AF_INET, SOCK_STREAM, 0); /* bound but not listening: nobody else gets the port */
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
  REQUIRE(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
  snprintf(port, sizeof port, "%d", ntohs(address.sin_port));
  snprintf(url, sizeof url, "http://127.0.0.1:%s/x", port);
  REQUIRE_OK(raskio_object_open(client, url, NULL, &object, &error), error);
  CHECK_ERROR(raskio_object_stat_sync(object, NULL, &error), RASKIO_ERR_CONNECTION, error, port);
  raskio_object_release(object);
  close(fd);
}

static void no_secrets(raskio_client *client) {
  const char *base = strstr(server_url(), "://");
  char url[256];
  const char *header[] = {"Authorization: Bearer SECRET3"};
  raskio_object_options options;
  raskio_object *object = NULL;
  raskio_error *error = NULL;
  REQUIRE(base != NULL);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.headers = header;
  options.header_count = 1;
  snprintf(url, sizeof url, "http://user:SECRET1@%s/small?status=403&etag=SECRET2", base + 3);
  if (raskio_object_open(client, url, &options, &object, &error) == RASKIO_OK) {
    CHECK_STATUS(raskio_object_stat_sync(object, NULL, &error), RASKIO_ERR_PERMISSION_DENIED);
  } else {
    CHECK_STATUS(raskio_error_status(error), RASKIO_ERR_INVALID_ARGUMENT); /* a password in a URL may be refused */
  }
  CHECK(strstr(raskio_error_message(error), "SECRET") == NULL);
  CHECK(strstr(raskio_error_message(error), "127.0.0.1") != NULL);
  raskio_error_free(error);
  raskio_object_release(object);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client_options options = client_options(backend);
    raskio_client *client = NULL;
    raskio_error *error = NULL;
    options.max_attempts = 1;
    REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
    http_error(client, 400, RASKIO_ERR_HTTP);
    http_error(client, 401, RASKIO_ERR_PERMISSION_DENIED);
    http_error(client, 403, RASKIO_ERR_PERMISSION_DENIED);
    http_error(client, 404, RASKIO_ERR_NOT_FOUND);
    http_error(client, 410, RASKIO_ERR_NOT_FOUND);
    http_error(client, 429, RASKIO_ERR_UNAVAILABLE);
    http_error(client, 503, RASKIO_ERR_UNAVAILABLE);
    refused_connection(client);
    no_secrets(client);
    shut_down(client);
  }
  return CHECK_DONE();
}
