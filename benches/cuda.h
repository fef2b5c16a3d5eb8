/* The CUDA driver for the C clients, looked up at run time: they build and run without it. */
#ifndef RASKIO_BENCH_CUDA_H
#define RASKIO_BENCH_CUDA_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long CUdeviceptr;

#define CUDA_NOT_READY 600
#define CUDA_STREAM_NON_BLOCKING 1u
#define CUDA_EVENT_BLOCKING_SYNC 1u
#define CUDA_EVENT_DISABLE_TIMING 2u

/* Name in the library, name in `cuda`, parameters. */
#define CUDA_FUNCTIONS(F)                                                                  \
    F(cuInit, init, (unsigned flags))                                                      \
    F(cuGetErrorName, error_name, (int result, const char **name))                         \
    F(cuDriverGetVersion, driver_version, (int *version))                                  \
    F(cuDeviceGetName, device_name, (char *name, int size, int device))                    \
    F(cuDevicePrimaryCtxRetain, primary_retain, (void **context, int device))              \
    F(cuCtxSetCurrent, context_set, (void *context))                                       \
    F(cuCtxSynchronize, context_synchronize, (void))                                       \
    F(cuMemAlloc_v2, mem_alloc, (CUdeviceptr *memory, size_t size))                        \
    F(cuMemHostAlloc, host_alloc, (void **memory, size_t size, unsigned flags))            \
    F(cuMemcpyDtoH_v2, to_host, (void *to, CUdeviceptr from, size_t size))                 \
    F(cuMemcpyHtoDAsync_v2, to_device, (CUdeviceptr to, const void *from, size_t size, void *stream)) \
    F(cuMemcpyDtoHAsync_v2, from_device, (void *to, CUdeviceptr from, size_t size, void *stream)) \
    F(cuMemsetD8_v2, set, (CUdeviceptr to, unsigned char value, size_t size))              \
    F(cuStreamCreate, stream_create, (void **stream, unsigned flags))                      \
    F(cuStreamSynchronize, stream_synchronize, (void *stream))                             \
    F(cuEventCreate, event_create, (void **event, unsigned flags))                         \
    F(cuEventDestroy_v2, event_destroy, (void *event))                                     \
    F(cuEventRecord, event_record, (void *event, void *stream))                            \
    F(cuEventQuery, event_query, (void *event))                                            \
    F(cuEventSynchronize, event_synchronize, (void *event))                                \
    F(cuLaunchHostFunc, launch_host, (void *stream, void (*function)(void *), void *data))

#define CUDA_MEMBER(symbol, member, parameters) int(*member) parameters;
static struct {
    CUDA_FUNCTIONS(CUDA_MEMBER)
    void *context;
} cuda;

/* A call that must succeed. */
#define CUDA(call)                                                              \
    do {                                                                        \
        int cuda_result = cuda.call;                                            \
        if (cuda_result) {                                                      \
            const char *cuda_text = "unknown";                                  \
            cuda.error_name(cuda_result, &cuda_text);                           \
            fprintf(stderr, "%s: %d, %s\n", #call, cuda_result, cuda_text);     \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

/* Loads the driver and makes the first device's primary context current. */
static inline void cuda_start(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "no CUDA driver: %s\n", dlerror());
        exit(1);
    }
#define CUDA_FIND(symbol, member, parameters) *(void **)(&cuda.member) = dlsym(library, #symbol);
    CUDA_FUNCTIONS(CUDA_FIND)
    CUDA(init(0));
    CUDA(primary_retain(&cuda.context, 0));
    CUDA(context_set(cuda.context));
}

#endif
