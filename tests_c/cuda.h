/* What the test programs of device reads share: the CUDA driver, looked up at run time as RaskIO does it, so that they run
 * over the simulated driver and on a GPU alike; device buffers with guards; reads into them. */
#ifndef CUDA_H
#define CUDA_H
#include "support.h"

#include "../simcuda/include/simcuda.h"

#include <dlfcn.h>

typedef unsigned long long CUdeviceptr;
typedef int CUresult;

#define CUDA_SUCCESS                   0
#define CUDA_ERROR_INVALID_CONTEXT     201
#define CUDA_ERROR_NOT_READY           600
#define CU_STREAM_NON_BLOCKING         1u
#define CU_EVENT_DISABLE_TIMING        2u
#define CU_MEM_ATTACH_GLOBAL           1u
#define CU_STREAM_CAPTURE_MODE_GLOBAL  0
#define CU_STREAM_CAPTURE_MODE_RELAXED 2

/* Result, name in the library, name in `cu`, parameters. */
#define CUDA_FUNCTIONS(F)                                                                     \
  F(cuInit, init, (unsigned flags))                                                           \
  F(cuDriverGetVersion, driver_version, (int *version))                                       \
  F(cuGetErrorName, error_name, (CUresult result, const char **name))                         \
  F(cuDeviceGetCount, device_count, (int *count))                                             \
  F(cuDeviceGetName, device_name, (char *name, int size, int device))                         \
  F(cuDevicePrimaryCtxRetain, primary_retain, (void **context, int device))                   \
  F(cuDevicePrimaryCtxRelease_v2, primary_release, (int device))                              \
  F(cuCtxCreate_v2, context_create, (void **context, unsigned flags, int device))             \
  F(cuCtxDestroy_v2, context_destroy, (void *context))                                        \
  F(cuCtxPushCurrent_v2, context_push, (void *context))                                       \
  F(cuCtxPopCurrent_v2, context_pop, (void **context))                                        \
  F(cuCtxGetCurrent, context_current, (void **context))                                       \
  F(cuCtxSetCurrent, context_set, (void *context))                                            \
  F(cuCtxSynchronize, context_synchronize, (void))                                            \
  F(cuMemAlloc_v2, mem_alloc, (CUdeviceptr *memory, size_t size))                             \
  F(cuMemAllocManaged, mem_alloc_managed, (CUdeviceptr *memory, size_t size, unsigned flags)) \
  F(cuMemAllocAsync, mem_alloc_async, (CUdeviceptr *memory, size_t size, void *stream))       \
  F(cuMemFree_v2, mem_free, (CUdeviceptr memory))                                             \
  F(cuMemFreeAsync, mem_free_async, (CUdeviceptr memory, void *stream))                       \
  F(cuMemHostAlloc, host_alloc, (void **memory, size_t size, unsigned flags))                 \
  F(cuMemFreeHost, host_free, (void *memory))                                                 \
  F(cuMemHostRegister_v2, host_register, (void *memory, size_t size, unsigned flags))         \
  F(cuMemHostUnregister, host_unregister, (void *memory))                                     \
  F(cuMemcpyHtoD_v2, to_device, (CUdeviceptr to, const void *from, size_t size))              \
  F(cuMemcpyDtoH_v2, to_host, (void *to, CUdeviceptr from, size_t size))                      \
  F(cuMemcpyHtoDAsync_v2, to_device_async,                                                    \
    (CUdeviceptr to, const void *from, size_t size, void *stream))                            \
  F(cuMemsetD8_v2, set, (CUdeviceptr to, unsigned char value, size_t size))                   \
  F(cuMemsetD8Async, set_async, (CUdeviceptr to, unsigned char value, size_t size, void *stream)) \
  F(cuStreamCreate, stream_create, (void **stream, unsigned flags))                           \
  F(cuStreamDestroy_v2, stream_destroy, (void *stream))                                       \
  F(cuStreamQuery, stream_query, (void *stream))                                              \
  F(cuStreamSynchronize, stream_synchronize, (void *stream))                                  \
  F(cuStreamBeginCapture_v2, capture_begin, (void *stream, int mode))                         \
  F(cuStreamEndCapture, capture_end, (void *stream, void **graph))                            \
  F(cuGraphDestroy, graph_destroy, (void *graph))                                             \
  F(cuEventCreate, event_create, (void **event, unsigned flags))                              \
  F(cuEventDestroy_v2, event_destroy, (void *event))                                          \
  F(cuEventRecord, event_record, (void *event, void *stream))                                 \
  F(cuEventQuery, event_query, (void *event))                                                 \
  F(cuLaunchHostFunc, launch_host, (void *stream, void (*function)(void *), void *data))

#define CUDA_MEMBER(symbol, member, parameters) CUresult(*member) parameters;
static struct {
  void *library;
  CUDA_FUNCTIONS(CUDA_MEMBER)
  int devices;
  /* The simulated driver's own; NULL with a real one. */
  void (*sim_fail)(const char *, uint64_t, int, int);
  uint64_t (*sim_count)(const char *);
  void (*sim_live)(struct sim_cuda_live *);
  int (*sim_hold_stream)(void *, int);
  void (*sim_hold_all)(int);
  void (*sim_speed)(uint64_t, double);
} cu;

static inline const char *cuda_name(CUresult result) {
  const char *name = NULL;
  cu.error_name(result, &name);
  return name == NULL ? "an unknown result" : name;
}

#define CUDA_OK(call)                                                          \
  do {                                                                         \
    CUresult cuda_r = (call);                                                  \
    if (cuda_r != CUDA_SUCCESS) {                                              \
      CHECK_FAILED("%s is %d, %s", #call, cuda_r, cuda_name(cuda_r));          \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

/* A function pointer from dlsym, without a cast that ISO C forbids. */
#define CUDA_LOOK_UP(member, symbol) (*(void **)(&cu.member) = dlsym(cu.library, symbol))

/* Loads the driver; nothing is called yet. A machine without one skips the program. */
static inline void cuda_load(void) {
  cu.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (cu.library == NULL) SKIP("there is no libcuda.so.1 here: %s", dlerror());
#define CUDA_FIND(symbol, member, parameters) CUDA_LOOK_UP(member, #symbol);
  CUDA_FUNCTIONS(CUDA_FIND)
  CUDA_LOOK_UP(sim_fail, "sim_cuda_fail");
  CUDA_LOOK_UP(sim_count, "sim_cuda_count");
  CUDA_LOOK_UP(sim_live, "sim_cuda_live");
  CUDA_LOOK_UP(sim_hold_stream, "sim_cuda_hold_stream");
  CUDA_LOOK_UP(sim_hold_all, "sim_cuda_hold_all");
  CUDA_LOOK_UP(sim_speed, "sim_cuda_speed");
}

static inline void *cuda_context(int device) {
  void *context = NULL;
  CUDA_OK(cu.context_create(&context, 0, device));
  return context;
}

/* Loads and initialises the driver, and makes a context on device 0 current; the context. */
static inline void *cuda_start(void) {
  CUresult result;
  server_url();
  cuda_load();
  result = cu.init(0);
  if (result != CUDA_SUCCESS) SKIP("cuInit says %s", cuda_name(result));
  CUDA_OK(cu.device_count(&cu.devices));
  if (cu.devices < 1) SKIP("there is no CUDA device here");
  return cuda_context(0);
}

static inline void simulated_only(const char *why) {
  if (cu.sim_fail == NULL) SKIP("this is a real driver, and the test %s", why);
}

/* ---- device buffers: 64 bytes of 0xEE on both sides, as those in host memory ---- */

static inline CUdeviceptr device_new(size_t size) {
  CUdeviceptr memory = 0;
  CUDA_OK(cu.mem_alloc(&memory, size + 2 * GUARD));
  CUDA_OK(cu.set(memory, GUARD_BYTE, size + 2 * GUARD));
  CUDA_OK(cu.context_synchronize());
  return memory + GUARD;
}

static inline void device_free(CUdeviceptr memory) { CUDA_OK(cu.mem_free(memory - GUARD)); }

/* A copy with its guards, for the checks of support.h; buffer_free frees it. */
static inline unsigned char *device_copy(CUdeviceptr memory, size_t size) {
  unsigned char *copy = buffer_new(size);
  CUDA_OK(cu.to_host(copy - GUARD, memory - GUARD, size + 2 * GUARD));
  return copy;
}

static inline void check_device(CUdeviceptr memory, uint64_t offset, size_t size, const char *what) {
  unsigned char *copy = device_copy(memory, size);
  check_buffer(copy, offset, size, what);
  buffer_free(copy);
}

static inline void check_device_untouched(CUdeviceptr memory, size_t size, const char *what) {
  unsigned char *copy = device_copy(memory, size);
  check_untouched(copy, size, what);
  buffer_free(copy);
}

static inline void *pointer_to(CUdeviceptr memory) { return (void *)(uintptr_t)memory; }

/* ---- reads ---- */

static inline raskio_read_options memory_options(uint32_t memory) {
  raskio_read_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.memory = memory;
  return options;
}

static inline raskio_read_options stream_options(void *stream) {
  raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
  options.flags = RASKIO_READ_ON_STREAM;
  options.stream = stream;
  return options;
}

/* Reads and waits; the status, and the error if `error_out` is not NULL. */
static inline raskio_status device_read(raskio_object *object, uint64_t offset, CUdeviceptr memory, size_t size,
                                        const raskio_read_options *options, raskio_error **error_out) {
  uint64_t bytes = UINT64_MAX;
  raskio_error *error = NULL;
  raskio_status status = raskio_read_sync(object, offset, pointer_to(memory), size, options, &bytes, &error);
  if (status == RASKIO_OK) CHECK_EQ(bytes, size);
  if (error_out != NULL) {
    *error_out = error;
  } else {
    if (error != NULL) fprintf(stderr, "%s\n", raskio_error_message(error));
    raskio_error_free(error);
  }
  return status;
}

/* One read of a whole small object into device memory, with checks: device reads of this client work. */
static inline void check_device_works(raskio_client *client, const char *what) {
  raskio_object *object = open_object(client, "small");
  raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
  CUdeviceptr memory = device_new(SMALL);
  CHECK_STATUS(device_read(object, 0, memory, SMALL, &options, NULL), RASKIO_OK);
  check_device(memory, 0, SMALL, what);
  device_free(memory);
  raskio_object_release(object);
}

static inline raskio_stats stats_of(raskio_client *client) {
  raskio_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  CHECK_STATUS(raskio_client_stats(client, &stats), RASKIO_OK);
  return stats;
}

/* Waits until all buffers and events are back: that may be a little after the callbacks. */
static inline raskio_stats wait_idle(raskio_client *client) {
  raskio_stats stats = stats_of(client);
  for (int i = 0; i < 500 && (stats.bounce_buffers_in_use > 0 || stats.events_free < stats.events_total); i++) {
    sleep_ms(10);
    stats = stats_of(client);
  }
  CHECK_EQ(stats.bounce_buffers_in_use, 0);
  CHECK_EQ(stats.events_free, stats.events_total);
  return stats;
}

/* Small buffers, so that reads of a few MiB need many of them. */
static inline raskio_client *new_device_client(uint32_t backend, uint64_t buffer, unsigned buffers) {
  raskio_client_options options = client_options(backend);
  raskio_client *client = NULL;
  raskio_error *error = NULL;
  options.bounce_buffer_size = buffer;
  options.max_pinned_bytes = buffer * buffers;
  REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
  return client;
}

/* After the end of all clients the driver holds nothing of RaskIO's: what is alive is what the program made itself. */
static inline void check_nothing_left(struct sim_cuda_live before, const char *what) {
  struct sim_cuda_live now_live;
  if (cu.sim_live == NULL) return;
  cu.sim_live(&now_live);
#define NOTHING_LEFT(member)                                                                  \
  if (now_live.member != before.member)                                                       \
    CHECK_FAILED("%s: %llu " #member " are alive, and %llu were before", what,                \
                 (unsigned long long)now_live.member, (unsigned long long)before.member);
  NOTHING_LEFT(contexts)
  NOTHING_LEFT(streams)
  NOTHING_LEFT(events)
  NOTHING_LEFT(pinned_buffers)
  NOTHING_LEFT(pinned_bytes)
  NOTHING_LEFT(pending)
  NOTHING_LEFT(retained)
}

static inline struct sim_cuda_live live_now(void) {
  struct sim_cuda_live live;
  memset(&live, 0, sizeof live);
  if (cu.sim_live != NULL) cu.sim_live(&live);
  return live;
}

/* ---- a stream that does not go on until it is let go ---- */

struct gate {
  void *stream;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int open;
};

static inline void gate_wait(void *data) {
  struct gate *gate = (struct gate *)data;
  pthread_mutex_lock(&gate->lock);
  while (!gate->open) pthread_cond_wait(&gate->changed, &gate->lock);
  pthread_mutex_unlock(&gate->lock);
}

/* The simulated driver holds the stream. A real one runs a host function in it, which waits: other streams' host functions
 * may wait for that one, and RaskIO must not need any. */
static inline void gate_close(struct gate *gate, void *stream) {
  memset(gate, 0, sizeof *gate);
  gate->stream = stream;
  pthread_mutex_init(&gate->lock, NULL);
  pthread_cond_init(&gate->changed, NULL);
  if (cu.sim_hold_stream != NULL) {
    CUDA_OK(cu.sim_hold_stream(stream, 1));
  } else {
    CUDA_OK(cu.launch_host(stream, gate_wait, gate));
  }
}

static inline void gate_open(struct gate *gate) {
  if (cu.sim_hold_stream != NULL) {
    CUDA_OK(cu.sim_hold_stream(gate->stream, 0));
  } else {
    pthread_mutex_lock(&gate->lock);
    gate->open = 1;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
  }
  CUDA_OK(cu.stream_synchronize(gate->stream));
  pthread_cond_destroy(&gate->changed);
  pthread_mutex_destroy(&gate->lock);
}

#endif
