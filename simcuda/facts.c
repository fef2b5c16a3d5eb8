/* Prints what a driver does where the simulated one claims to do the same, a line a fact: run it over both and compare.
 *   cc -o facts simcuda/facts.c -ldl -lpthread
 * Facts about destroyed contexts are found out in a process of their own each, as a real driver may crash on them. */
#include "../tests_c/cuda.h"

#include <sys/wait.h>

static CUresult (*attribute)(void *, int, CUdeviceptr);
static CUresult (*attributes)(unsigned, int *, void **, CUdeviceptr);
static CUresult (*exchange_mode)(int *);
static CUresult (*context_id)(void *, unsigned long long *);
static CUresult (*is_capturing)(void *, int *);

static void fact(const char *name, CUresult result) { printf("%s: %s\n", name, result == 0 ? "ok" : cuda_name(result)); }

static void look_up(void) {
  cuda_load();
#define LOOK(member, symbol) (*(void **)(&member) = dlsym(cu.library, symbol))
  LOOK(attribute, "cuPointerGetAttribute");
  LOOK(attributes, "cuPointerGetAttributes");
  LOOK(exchange_mode, "cuThreadExchangeStreamCaptureMode");
  LOOK(context_id, "cuCtxGetId");
  LOOK(is_capturing, "cuStreamIsCapturing");
}

static void without_context(void) {
  CUdeviceptr memory;
  void *handle = &memory;
  static char page[8192];
  fact("current context, none", cu.context_current(&handle));
  printf("current context, none, is: %s\n", handle == NULL ? "NULL" : "something");
  fact("without a context: cuMemAlloc", cu.mem_alloc(&memory, 16));
  fact("without a context: cuMemHostAlloc", cu.host_alloc(&handle, 16, 0));
  fact("without a context: cuMemHostRegister", cu.host_register(page, sizeof page, 0));
  fact("without a context: cuStreamCreate", cu.stream_create(&handle, 0));
  fact("without a context: cuEventCreate", cu.event_create(&handle, 2));
  fact("without a context: cuCtxSynchronize", cu.context_synchronize());
  fact("without a context: cuCtxPopCurrent", cu.context_pop(&handle));
  fact("without a context: cuMemcpyHtoD", cu.to_device(4096, page, 16));
}

static void pointer(const char *name, CUdeviceptr address, void *current) {
  void *context = &context;
  unsigned type = 77;
  unsigned managed = 0; /* a driver writes four bytes, and has a say in the first only */
  int device = 77;
  unsigned long long size = 0; /* of memory that it does not know a driver writes none */
  int names[5] = {1, 2, 8, 9, 12};
  void *places[5] = {&context, &type, &managed, &device, &size};
  CUresult result = attributes(5, names, places, address);
  printf("%s, cuPointerGetAttributes: %s, context %s, type %u, managed %u, device %d, size %llu\n", name,
         result == 0 ? "ok" : cuda_name(result),
         context == NULL ? "NULL" : context == current ? "the current one" : "another", type, managed & 0xff, device, size);
  for (int i = 0; i < 5; i++) {
    char what[96];
    unsigned long long value = 0;
    snprintf(what, sizeof what, "%s, cuPointerGetAttribute %d", name, names[i]);
    fact(what, attribute(&value, names[i], address));
  }
}

static void pointers(void *context) {
  CUdeviceptr memory;
  void *host, *registered;
  static char plain[64];
  CUDA_OK(cu.mem_alloc(&memory, 1000));
  pointer("device memory", memory + 10, context);
  CUDA_OK(cu.mem_alloc_managed(&memory, 1000, CU_MEM_ATTACH_GLOBAL));
  pointer("managed memory", memory + 10, context);
  CUDA_OK(cu.mem_alloc_async(&memory, 1000, NULL));
  CUDA_OK(cu.stream_synchronize(NULL));
  pointer("stream-ordered memory", memory, context);
  CUDA_OK(cu.host_alloc(&host, 1000, 0));
  pointer("page-locked memory", (CUdeviceptr)(uintptr_t)host + 10, context);
  REQUIRE(posix_memalign(&registered, 4096, 8192) == 0);
  CUDA_OK(cu.host_register(registered, 8192, 0));
  pointer("registered memory", (CUdeviceptr)(uintptr_t)registered + 5000, context);
  fact("registering twice", cu.host_register(registered, 8192, 0));
  CUDA_OK(cu.host_unregister(registered));
  fact("unregistering twice", cu.host_unregister(registered));
  pointer("plain memory", (CUdeviceptr)(uintptr_t)plain, context);
  pointer("NULL", 0, context);
}

static void events(void) {
  void *event, *stream, *context;
  CUDA_OK(cu.event_create(&event, 2));
  CUDA_OK(cu.stream_create(&stream, 1));
  fact("query of an event never recorded", cu.event_query(event));
  CUDA_OK(cu.context_pop(&context));
  fact("without a context: cuEventRecord in a stream", cu.event_record(event, stream));
  fact("without a context: cuStreamSynchronize", cu.stream_synchronize(stream));
  fact("without a context: cuEventQuery", cu.event_query(event));
  fact("without a context: cuEventDestroy", cu.event_destroy(event));
  fact("without a context: cuStreamDestroy", cu.stream_destroy(stream));
  CUDA_OK(cu.context_push(context));
}

static void pageable(void) {
  size_t size = 32u << 20;
  unsigned char *host = (unsigned char *)malloc(size), *back = (unsigned char *)malloc(size);
  CUdeviceptr memory;
  void *stream;
  REQUIRE(host != NULL && back != NULL);
  CUDA_OK(cu.mem_alloc(&memory, size));
  CUDA_OK(cu.stream_create(&stream, 1));
  memset(host, 1, size);
  CUDA_OK(cu.to_device_async(memory, host, size, stream));
  memset(host, 2, size);
  CUDA_OK(cu.stream_synchronize(stream));
  CUDA_OK(cu.to_host(back, memory, size));
  printf("a pageable source changed after the call: %s\n", back[0] == 1 && back[size - 1] == 1 ? "the old bytes" : "new bytes");
  free(host);
  free(back);
}

/* One call, by another thread in the mode given, while this one captures in global mode. */
struct attempt {
  void *context;
  void *stream, *event, *pinned, *page;
  CUdeviceptr memory;
  int call, mode;
  CUresult result;
};

static const char *const attempts[] = {
    "cuMemAlloc",   "cuMemFree",    "cuMemHostAlloc",      "cuMemHostRegister", "cuStreamCreate", "cuStreamQuery",
    "cuStreamSynchronize", "cuEventCreate", "cuEventQuery", "cuEventRecord",    "cuMemcpyHtoDAsync", "cuMemcpyHtoD",
    "cuPointerGetAttributes", "cuCtxPushCurrent", "cuEventDestroy",
};

static void *attempt(void *argument) {
  struct attempt *a = (struct attempt *)argument;
  CUdeviceptr memory;
  void *handle;
  int type = 2;
  void *place = &type;
  CUDA_OK(cu.context_set(a->context));
  CUDA_OK(exchange_mode(&a->mode));
  switch (a->call) {
    case 0: a->result = cu.mem_alloc(&memory, 16); break;
    case 1: a->result = cu.mem_free(a->memory); break;
    case 2: a->result = cu.host_alloc(&handle, 16, 0); break;
    case 3: a->result = cu.host_register(a->page, 4096, 0); break;
    case 4: a->result = cu.stream_create(&handle, 1); break;
    case 5: a->result = cu.stream_query(a->stream); break;
    case 6: a->result = cu.stream_synchronize(a->stream); break;
    case 7: a->result = cu.event_create(&handle, 2); break;
    case 8: a->result = cu.event_query(a->event); break;
    case 9: a->result = cu.event_record(a->event, a->stream); break;
    case 10: a->result = cu.to_device_async(a->memory, a->pinned, 16, a->stream); break;
    case 11: a->result = cu.to_device(a->memory, a->pinned, 16); break;
    case 12: a->result = attributes(1, &type, &place, a->memory); break;
    case 13: a->result = cu.context_push(a->context); break;
    default: a->result = cu.event_destroy(a->event); break;
  }
  return NULL;
}

static void captures(void *context) {
  static const char *const modes[] = {"global", "thread-local", "relaxed"};
  for (int mode = 0; mode < 3; mode += 2) {
    for (int call = 0; call < (int)(sizeof attempts / sizeof *attempts); call++) {
      struct attempt a;
      void *captured, *graph = NULL;
      pthread_t thread;
      CUresult end;
      memset(&a, 0, sizeof a);
      a.context = context;
      a.call = call;
      a.mode = mode;
      CUDA_OK(cu.mem_alloc(&a.memory, 16));
      CUDA_OK(cu.host_alloc(&a.pinned, 16, 0));
      memset(a.pinned, 0, 16);
      REQUIRE(posix_memalign(&a.page, 4096, 4096) == 0);
      CUDA_OK(cu.stream_create(&a.stream, 1));
      CUDA_OK(cu.event_create(&a.event, 2));
      CUDA_OK(cu.stream_create(&captured, 1));
      CUDA_OK(cu.capture_begin(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
      REQUIRE(pthread_create(&thread, NULL, attempt, &a) == 0);
      pthread_join(thread, NULL);
      end = cu.capture_end(captured, &graph);
      printf("during a global capture, in %s mode, %s: %s, and the capture ends with %s\n", modes[mode], attempts[call],
             a.result == 0 ? "ok" : cuda_name(a.result), end == 0 ? "ok" : cuda_name(end));
    }
  }
  {
    void *stream, *event, *graph = NULL;
    int status = 7;
    CUDA_OK(cu.stream_create(&stream, 1));
    CUDA_OK(cu.event_create(&event, 2));
    fact("capturing the legacy stream", cu.capture_begin(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUDA_OK(cu.capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUDA_OK(is_capturing(stream, &status));
    printf("a capturing stream's status: %d\n", status);
    CUDA_OK(cu.event_record(event, stream));
    fact("query of a captured event", cu.event_query(event));
    fact("and then the end of the capture", cu.capture_end(stream, &graph));
    CUDA_OK(cu.capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fact("synchronising with a capturing stream", cu.stream_synchronize(stream));
    fact("and then the end of the capture", cu.capture_end(stream, &graph));
  }
}

/* What of a destroyed context still answers. */
static void destroyed(int which) {
  void *context = cuda_context(0), *event, *second;
  unsigned long long first_id = 0, second_id = 0;
  CUDA_OK(cu.event_create(&event, 2));
  if (context_id != NULL) CUDA_OK(context_id(context, &first_id));
  CUDA_OK(cu.context_destroy(context));
  switch (which) {
    case 0: fact("pushing a destroyed context", cu.context_push(context)); break;
    case 1: fact("the number of a destroyed context", context_id == NULL ? -1 : context_id(context, &first_id)); break;
    case 2: fact("making a destroyed context current", cu.context_set(context)); break;
    default:
      second = cuda_context(0);
      if (context_id != NULL) CUDA_OK(context_id(second, &second_id));
      printf("the next context has the same handle: %s; and the same number: %s\n", second == context ? "yes" : "no",
             second_id == first_id ? "yes" : "no");
  }
}

int main(int argc, char **argv) {
  void *context;
  int version = 0;
  look_up();
  if (cu.init(0) != CUDA_SUCCESS) SKIP("the driver cannot be used");
  if (argc > 1) {
    destroyed(atoi(argv[1]));
    return 0;
  }
  CUDA_OK(cu.driver_version(&version));
  printf("version: %d\n", version);
  without_context();
  context = cuda_context(0);
  pointers(context);
  events();
  pageable();
  captures(context);
  fflush(stdout);
  for (int i = 0; i < 4; i++) {
    char number[8];
    int status = 0;
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      snprintf(number, sizeof number, "%d", i);
      execl("/proc/self/exe", argv[0], number, (char *)NULL);
      _exit(127);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status)) printf("fact %d of a destroyed context: signal %d\n", i, WTERMSIG(status));
  }
  return CHECK_DONE();
}
