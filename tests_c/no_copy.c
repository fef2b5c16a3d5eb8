/* A large body over plain TCP is received straight into the caller's buffer: no byte of it is copied by RaskIO but those that came
 * with the head. */
#define _GNU_SOURCE
/* Its declaration takes a union of all kinds of addresses, which ISO C does not know. */
#define recvfrom declared_recvfrom
#include "support.h"
#undef recvfrom

#include <stdatomic.h>
#include <sys/syscall.h>

static _Atomic(unsigned char *) expected;
static atomic_size_t in_place;

/* The library's calls come here. */
ssize_t recvfrom(int fd, void *to, size_t size, int flags, void *from, socklen_t *length);
ssize_t recvfrom(int fd, void *to, size_t size, int flags, void *from, socklen_t *length) {
  ssize_t n = syscall(SYS_recvfrom, fd, to, size, flags, from, length);
  unsigned char *start = atomic_load(&expected);
  if (n > 0 && start != NULL && (unsigned char *)to >= start && (unsigned char *)to + n <= start + LARGE)
    atomic_fetch_add(&in_place, (size_t)n);
  return n;
}

int main(void) {
  void *buffer = NULL;
  /* At the beginning of a page, as the object is: some processors receive slowly to other places, and then it is copied. */
  REQUIRE(posix_memalign(&buffer, 4096, LARGE) == 0);
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_client(backend);
    raskio_object *object = open_object(client, "large");
    memset(buffer, 0, LARGE);
    atomic_store(&in_place, 0);
    atomic_store(&expected, buffer);
    CHECK_STATUS(read_now(object, 0, buffer, LARGE), RASKIO_OK);
    atomic_store(&expected, NULL);
    for (size_t i = 0; i < LARGE; i++) {
      if (((unsigned char *)buffer)[i] == pattern(i)) continue;
      CHECK_FAILED("byte %zu is wrong", i);
      break;
    }
    if (atomic_load(&in_place) < LARGE / 8 * 7)
      CHECK_FAILED("%zu of %u bytes were received in place", atomic_load(&in_place), LARGE);
    raskio_object_release(object);
    shut_down(client);
  }
  free(buffer);
  return CHECK_DONE();
}
