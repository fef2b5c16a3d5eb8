/* Without a hook and without being asked by the environment, nothing is written to standard output or standard error, also
 * when reads fail and are retried. */
#include "support.h"

#include <fcntl.h>

static void noise(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client_options options = client_options(backend);
    raskio_client *client = NULL;
    raskio_object *object;
    raskio_error *error = NULL;
    unsigned char byte;
    options.max_attempts = 2;
    REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
    check_works(client, "a read");
    object = open_object(client, "small?status=404");
    CHECK_STATUS(raskio_read_sync(object, 0, &byte, 1, NULL, NULL, NULL), RASKIO_ERR_NOT_FOUND);
    raskio_object_release(object);
    object = open_object(client, "small?status=503&times=1&etag=silent");
    (void)raskio_read_sync(object, 0, &byte, 1, NULL, NULL, NULL);
    raskio_object_release(object);
    REQUIRE_OK(raskio_object_open(client, "http://127.0.0.1:1/x", NULL, &object, &error), error);
    CHECK(raskio_read_sync(object, 0, &byte, 1, NULL, NULL, NULL) != RASKIO_OK);
    raskio_object_release(object);
    shut_down(client);
  }
}

int main(void) {
  char out_name[] = "/tmp/raskio_silent_out_XXXXXX", err_name[] = "/tmp/raskio_silent_err_XXXXXX";
  int out = mkstemp(out_name), err = mkstemp(err_name), old_out = dup(1), old_err = dup(2);
  char text[500];
  off_t written[2];
  ssize_t n;
  REQUIRE(out >= 0 && err >= 0 && old_out >= 0 && old_err >= 0);
  unlink(out_name);
  unlink(err_name);
  server_url();
  unsetenv("RUST_LOG");
  unsetenv("KVIKIO_REMOTE_VERBOSE");
  fflush(NULL);
  REQUIRE(dup2(out, 1) == 1 && dup2(err, 2) == 2);
  noise();
  fflush(NULL);
  written[0] = lseek(out, 0, SEEK_END);
  written[1] = lseek(err, 0, SEEK_END);
  REQUIRE(dup2(old_out, 1) == 1 && dup2(old_err, 2) == 2);
  CHECK_EQ(written[0], 0);
  CHECK_EQ(written[1], 0);
  for (int i = 0; i < 2; i++) {
    n = pread(i == 0 ? out : err, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = '\0';
    if (n > 0) fprintf(stderr, "was written: %s\n", text);
  }
  return CHECK_DONE();
}
