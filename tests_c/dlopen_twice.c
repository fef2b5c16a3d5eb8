/* A host that loads the library at run time: dlopen, read, dlclose, dlopen again and read again, in a process that has
 * another libcurl loaded and uses it. This program is not linked with RaskIO. */
#include "check.h"

#include <raskio.h>

#include <dlfcn.h>

static const char *library_path, *base_url;

static void read_through_table(const raskio_api *api, uint32_t backend) {
  raskio_client_options options;
  raskio_client *client = NULL;
  raskio_object *object = NULL;
  raskio_error *error = NULL;
  unsigned char bytes[102];
  uint64_t read = 0;
  char url[512];
  memset(bytes, 0xEE, sizeof bytes);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.backend = backend;
  options.num_threads = 4;
  snprintf(url, sizeof url, "%s/small", base_url);
  CHECK_EQ(api->client_new(&options, &client, &error), RASKIO_OK);
  CHECK_EQ(api->object_open(client, url, NULL, &object, &error), RASKIO_OK);
  CHECK_EQ(api->read_sync(object, 0, bytes + 1, 100, NULL, &read, &error), RASKIO_OK);
  if (error != NULL) CHECK_FAILED("%s", api->error_message(error));
  api->error_free(error);
  CHECK_EQ(read, 100);
  for (unsigned i = 0; i < 100; i++) CHECK_EQ(bytes[i + 1], (i * 31 + 7) % 251);
  CHECK_EQ(bytes[0], 0xEE);
  CHECK_EQ(bytes[101], 0xEE);
  api->object_release(object);
  CHECK_EQ(api->client_shut_down(client, 20000, NULL), RASKIO_OK);
  api->client_release(client);
}

static const raskio_api *load_and_read(void) {
  void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  void *symbol;
  raskio_get_api_fn get_api;
  const raskio_api *api;
  if (library == NULL) {
    CHECK_FAILED("%s", dlerror());
    exit(1);
  }
  symbol = dlsym(library, "raskio_get_api");
  REQUIRE(symbol != NULL);
  memcpy(&get_api, &symbol, sizeof get_api);
  CHECK(get_api(RASKIO_ABI_MAJOR + 1) == NULL);
  api = get_api(RASKIO_ABI_MAJOR);
  REQUIRE(api != NULL);
  CHECK(RASKIO_API_HAS(api, read_sync));
  read_through_table(api, RASKIO_BACKEND_MULTI_POLL);
  read_through_table(api, RASKIO_BACKEND_EASY_THREADPOOL);
  CHECK_EQ(dlclose(library), 0);
  return api;
}

/* The few functions of the system's libcurl that fetch a URL. */
typedef struct {
  int (*global_init)(long);
  void *(*easy_init)(void);
  int (*easy_setopt)(void *, int, ...);
  int (*easy_perform)(void *);
  void (*easy_cleanup)(void *);
  char *(*version)(void);
} other_curl;

static size_t count_bytes(char *data, size_t size, size_t count, void *total) {
  (void)data;
  *(size_t *)total += size * count;
  return size * count;
}

static void fetch(const other_curl *curl) {
  enum { WRITEDATA = 10001, URL = 10002, WRITEFUNCTION = 20011, NOSIGNAL = 99, NOPROXY = 10177 };
  char url[512];
  size_t total = 0;
  void *easy = curl->easy_init();
  REQUIRE(easy != NULL);
  snprintf(url, sizeof url, "%s/small", base_url);
  curl->easy_setopt(easy, URL, url);
  curl->easy_setopt(easy, NOSIGNAL, 1L);
  curl->easy_setopt(easy, NOPROXY, "*");
  curl->easy_setopt(easy, WRITEFUNCTION, count_bytes);
  curl->easy_setopt(easy, WRITEDATA, &total);
  CHECK_EQ(curl->easy_perform(easy), 0);
  CHECK_EQ(total, 100);
  curl->easy_cleanup(easy);
}

static int load_other_curl(other_curl *curl) {
  static const char *const names[] = {"curl_global_init", "curl_easy_init", "curl_easy_setopt",
                                      "curl_easy_perform", "curl_easy_cleanup", "curl_version"};
  void *symbols[6];
  void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) return 0;
  for (int i = 0; i < 6; i++) {
    symbols[i] = dlsym(library, names[i]);
    REQUIRE(symbols[i] != NULL);
  }
  memcpy(curl, symbols, sizeof symbols);
  CHECK_EQ(curl->global_init(3), 0);
  fprintf(stderr, "beside the system's %s\n", curl->version());
  return 1;
}

int main(void) {
  const raskio_api *first, *second;
  other_curl curl;
  int have_curl;
  library_path = getenv("RASKIO_LIBRARY");
  base_url = getenv("RASKIO_TEST_URL");
  if (library_path == NULL || base_url == NULL) SKIP("RASKIO_LIBRARY or RASKIO_TEST_URL is not set");
  REQUIRE(sizeof(other_curl) == 6 * sizeof(void *));
  CHECK(dlopen(library_path, RTLD_NOW | RTLD_NOLOAD) == NULL);

  have_curl = load_other_curl(&curl);
  if (have_curl) fetch(&curl);
  first = load_and_read();
  if (have_curl) fetch(&curl);
  second = load_and_read();
  if (have_curl) fetch(&curl);
  /* Linked -z nodelete: dlclose leaves it where it was, with its threads' code and its exit handlers. */
  CHECK(first == second);
  CHECK_EQ(first->abi_major, RASKIO_ABI_MAJOR);
  if (!have_curl) fprintf(stderr, "there is no other libcurl on this machine: that part was left out\n");
  return CHECK_DONE();
}
