/* Preloaded by the tests of name look-ups: answers for "raskio.test" with 127.0.0.1, for "hang.raskio.test" not for
 * 30 s, and for "none.raskio.test" that there is none; counts the look-ups of the first two. Build: cc -shared -fPIC -o preload.so preload.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static atomic_int lookups;

int raskio_test_lookups(void);
int raskio_test_lookups(void) { return atomic_load(&lookups); }

typedef int (*getaddrinfo_fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  getaddrinfo_fn real = (getaddrinfo_fn)dlsym(RTLD_NEXT, "getaddrinfo");
  if (node && strcmp(node, "raskio.test") == 0) {
    atomic_fetch_add(&lookups, 1);
    /* libcurl asks for both families at once and connects by the first answer; the one that counts comes last here. */
    if (hints && hints->ai_family == AF_INET6) return EAI_NONAME;
    usleep(50 * 1000); /* as long as a real one, so that requests do wait for it */
    return real("127.0.0.1", service, hints, found);
  }
  if (node && strcmp(node, "hang.raskio.test") == 0) {
    atomic_fetch_add(&lookups, 1);
    sleep(30);
    return EAI_AGAIN;
  }
  if (node && strcmp(node, "none.raskio.test") == 0) return EAI_NONAME;
  return real(node, service, hints, found);
}
