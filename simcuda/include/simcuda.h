/* Control of the simulated CUDA driver, for tests. Look the functions up with dlsym in libcuda.so.1: a real driver does
 * not have them, and a test that needs them skips there. They may be called in any state, from any thread. */
#ifndef SIMCUDA_H
#define SIMCUDA_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sim_cuda_live {
  uint64_t contexts;       /* primary ones included */
  uint64_t streams;        /* made by cuStreamCreate and not destroyed */
  uint64_t events;
  uint64_t device_buffers; /* device, stream-ordered and managed memory */
  uint64_t device_bytes;
  uint64_t pinned_buffers; /* page-locked host memory, allocated or registered */
  uint64_t pinned_bytes;
  uint64_t pending;        /* operations submitted and not done */
  uint64_t retained;       /* references to primary contexts */
};

/* The nth call (1: the next) of `name` from now on answers `code`; lasting != 0: all calls after it as well. Names are
 * without version suffixes: "cuMemAlloc". "async" stands for executed copies: failing one breaks its context as an illegal
 * address would. code 0 takes back what was asked for under that name. */
void sim_cuda_fail(const char *name, uint64_t nth, int lasting, int code);

/* How often it was called, failures included. */
uint64_t sim_cuda_count(const char *name);

/* What is alive now. */
void sim_cuda_live(struct sim_cuda_live *out);

/* A held stream starts no operation until it is let go; the one under way ends. 0, or CUDA_ERROR_INVALID_HANDLE. */
int sim_cuda_hold_stream(void *stream, int hold);

/* The same for every stream, those made later included. */
void sim_cuda_hold_all(int hold);

/* How long copies take from now on: a fixed time, and a rate (0: no time for each byte). */
void sim_cuda_speed(uint64_t delay_us, double gigabytes_per_second);

/* Breaks a context (0: each that there is) as an illegal address of its own work would, with this code: what its streams
 * have queued is never done and touches no memory once this returns, and its calls answer the code from now on. 0, or
 * CUDA_ERROR_INVALID_CONTEXT. */
int sim_cuda_poison(void *context, int code);

/* Right before the nth call from now on (1: the next), whatever it is and whichever thread makes it, the context is
 * destroyed, or breaks with the code if that is not 0. nth 0 takes back what was asked for, of every context. 0, or
 * CUDA_ERROR_INVALID_CONTEXT: there is none, or a primary one would be destroyed. */
int sim_cuda_end_at(void *context, uint64_t nth, int code);

#ifdef __cplusplus
}
#endif
#endif
