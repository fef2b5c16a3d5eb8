/* Each kind of memory that CUDA knows gets the right bytes: device, managed, stream-ordered, pinned and registered host
 * memory; named and found out; from a thread with the memory's context and from one without any. */
#include "cuda.h"

#define SIZE 200001

static raskio_client *client;
static raskio_object *object;

enum kind { DEVICE, MANAGED, ORDERED, PINNED, REGISTERED, KINDS };
static const char *const names[KINDS] = {"device", "managed", "stream-ordered", "pinned", "registered"};

static void *stream;

static void *make(enum kind kind) {
  CUdeviceptr device = 0;
  void *host = NULL;
  size_t size = SIZE + 2 * GUARD;
  switch (kind) {
    case DEVICE: CUDA_OK(cu.mem_alloc(&device, size)); break;
    case MANAGED: CUDA_OK(cu.mem_alloc_managed(&device, size, CU_MEM_ATTACH_GLOBAL)); break;
    case ORDERED: CUDA_OK(cu.mem_alloc_async(&device, size, stream)); break;
    case PINNED: CUDA_OK(cu.host_alloc(&host, size, 0)); break;
    default:
      REQUIRE(posix_memalign(&host, 4096, size) == 0);
      CUDA_OK(cu.host_register(host, size, 0));
  }
  if (host != NULL) {
    memset(host, GUARD_BYTE, size);
    return (unsigned char *)host + GUARD;
  }
  CUDA_OK(cu.stream_synchronize(stream));
  CUDA_OK(cu.set(device, GUARD_BYTE, size));
  CUDA_OK(cu.context_synchronize());
  return pointer_to(device + GUARD);
}

static void check(enum kind kind, void *memory, const char *what) {
  if (kind == PINNED || kind == REGISTERED) {
    check_buffer((unsigned char *)memory, 7, SIZE, what);
  } else {
    check_device((CUdeviceptr)(uintptr_t)memory, 7, SIZE, what);
    if (kind == MANAGED) check_buffer((unsigned char *)memory, 7, SIZE, "managed, as the host sees it");
  }
}

static void end(enum kind kind, void *memory) {
  void *start = (unsigned char *)memory - GUARD;
  switch (kind) {
    case PINNED: CUDA_OK(cu.host_free(start)); break;
    case REGISTERED:
      CUDA_OK(cu.host_unregister(start));
      free(start);
      break;
    case ORDERED:
      CUDA_OK(cu.mem_free_async((CUdeviceptr)(uintptr_t)start, stream));
      CUDA_OK(cu.stream_synchronize(stream));
      break;
    default: CUDA_OK(cu.mem_free((CUdeviceptr)(uintptr_t)start));
  }
}

struct call {
  void *memory;
  uint32_t how;
  raskio_status status;
};

static void *without_context(void *argument) {
  struct call *call = (struct call *)argument;
  raskio_read_options options = memory_options(call->how);
  void *context = argument;
  CUDA_OK(cu.context_current(&context));
  CHECK(context == NULL);
  call->status = device_read(object, 7, (CUdeviceptr)(uintptr_t)call->memory, SIZE, &options, NULL);
  CUDA_OK(cu.context_current(&context));
  CHECK(context == NULL);
  return NULL;
}

int main(void) {
  struct sim_cuda_live before;
  cuda_start();
  CUDA_OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  before = live_now();
  FOR_EACH_BACKEND(backend) {
    client = new_device_client(backend, 64 << 10, 3);
    object = open_object(client, "medium");
    for (int kind = 0; kind < KINDS; kind++) {
      for (int how = 0; how < 4; how++) {
        /* Host memory that CUDA knows is host memory: it is read into without a copy, however it was named. */
        int host = kind == PINNED || kind == REGISTERED;
        struct call call;
        char what[64];
        uint64_t staged = stats_of(client).bytes_staged;
        call.how = how < 2 ? RASKIO_MEMORY_AUTO : host ? RASKIO_MEMORY_HOST : RASKIO_MEMORY_CUDA;
        call.memory = make((enum kind)kind);
        snprintf(what, sizeof what, "%s memory, way %d, backend %u", names[kind], how, backend);
        if (how % 2 == 0) {
          raskio_read_options options = memory_options(call.how);
          call.status = device_read(object, 7, (CUdeviceptr)(uintptr_t)call.memory, SIZE, &options, NULL);
        } else {
          pthread_t thread;
          REQUIRE(pthread_create(&thread, NULL, without_context, &call) == 0);
          pthread_join(thread, NULL);
        }
        if (call.status != RASKIO_OK) CHECK_FAILED("%s: %s", what, raskio_status_name(call.status));
        check((enum kind)kind, call.memory, what);
        if (host || kind == DEVICE) CHECK_EQ(stats_of(client).bytes_staged - staged, host ? 0 : SIZE);
        end((enum kind)kind, call.memory);
      }
    }
    raskio_object_release(object);
    shut_down(client);
    check_nothing_left(before, "after the shutdown");
  }
  return CHECK_DONE();
}
