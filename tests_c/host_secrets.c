/* Callbacks for credentials and bearer tokens: called on a RaskIO thread, once for all objects of a client, and a failure of
 * theirs is the failure of what waits. */
#include "support.h"

static pthread_t caller;

struct host {
  raskio_object *object; /* to be read from inside the callback */
  int keys, tokens, fails;
  char origin[128];
};

static int32_t give_keys(void *user_data, raskio_credentials *out) {
  struct host *host = (struct host *)user_data;
  unsigned char byte;
  CHECK(!pthread_equal(pthread_self(), caller));
  CHECK_EQ(out->struct_size, sizeof *out);
  CHECK(out->access_key_id == NULL && out->secret_access_key == NULL && out->session_token == NULL);
  CHECK_EQ(out->expires_unix_s, 0);
  __atomic_add_fetch(&host->keys, 1, __ATOMIC_SEQ_CST);
  if (host->object != NULL)
    CHECK_STATUS(raskio_read_sync(host->object, 0, &byte, 1, NULL, NULL, NULL), RASKIO_ERR_WOULD_DEADLOCK);
  if (host->fails) return host->fails;
  out->access_key_id = "AKIDEXAMPLE";
  out->secret_access_key = "SECRET";
  out->session_token = "TOKEN";
  out->expires_unix_s = (int64_t)time(NULL) + 3600;
  return 0;
}

static int32_t give_token(void *user_data, raskio_bearer *out) {
  struct host *host = (struct host *)user_data;
  CHECK(!pthread_equal(pthread_self(), caller));
  CHECK_EQ(out->struct_size, sizeof *out);
  snprintf(host->origin, sizeof host->origin, "%s", out->origin);
  __atomic_add_fetch(&host->tokens, 1, __ATOMIC_SEQ_CST);
  out->token = host->fails ? NULL : "TOKEN";
  return 0;
}

static raskio_object *open_as(raskio_client *client, uint32_t endpoint, uint32_t flags) {
  raskio_object_options options;
  raskio_object *object = NULL;
  raskio_error *error = NULL;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.endpoint = endpoint;
  options.flags = flags;
  REQUIRE_OK(raskio_object_open(client, url_of("small"), &options, &object, &error), error);
  return object;
}

int main(void) {
  caller = pthread_self();
  FOR_EACH_BACKEND(backend) {
    for (int fails = 0; fails <= 7; fails += 7) {
      raskio_client_options options = client_options(backend);
      raskio_client *client = NULL;
      raskio_object *first, *second, *bearer;
      raskio_error *error = NULL;
      unsigned char *buffer = buffer_new(SMALL);
      struct host host;
      char origin[128];
      memset(&host, 0, sizeof host);
      host.fails = fails;
      options.credentials = give_keys;
      options.bearer = give_token;
      options.user_data = &host;
      REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
      first = open_as(client, RASKIO_ENDPOINT_S3, 0);
      second = open_as(client, RASKIO_ENDPOINT_S3, 0);
      bearer = open_as(client, RASKIO_ENDPOINT_HTTP, RASKIO_OBJECT_BEARER_FROM_HOST);
      host.object = first;
      if (fails) {
        CHECK_ERROR(raskio_read_sync(first, 0, buffer, SMALL, NULL, NULL, &error), RASKIO_ERR_PERMISSION_DENIED, error,
                    "returned 7");
        CHECK_ERROR(raskio_read_sync(bearer, 0, buffer, SMALL, NULL, NULL, &error), RASKIO_ERR_PERMISSION_DENIED, error,
                    "no token");
      } else {
        CHECK_STATUS(read_now(first, 0, buffer, SMALL), RASKIO_OK);
        check_buffer(buffer, 0, SMALL, "the first read");
        CHECK_STATUS(read_now(second, 0, buffer, SMALL), RASKIO_OK);
        CHECK_STATUS(read_now(bearer, 0, buffer, SMALL), RASKIO_OK);
      }
      CHECK_EQ(__atomic_load_n(&host.keys, __ATOMIC_SEQ_CST), 1);
      CHECK_EQ(__atomic_load_n(&host.tokens, __ATOMIC_SEQ_CST), 1);
      snprintf(origin, sizeof origin, "%s", url_of(""));
      origin[strlen(origin) - 1] = '\0'; /* without its slash */
      if (strcmp(host.origin, origin) != 0) CHECK_FAILED("the origin is %s, expected %s", host.origin, origin);
      raskio_object_release(first);
      raskio_object_release(second);
      raskio_object_release(bearer);
      shut_down(client);
      buffer_free(buffer);
    }
  }
  return CHECK_DONE();
}
