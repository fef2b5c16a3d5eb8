/* A libcuda.so.1 for machines without an NVIDIA driver: every function says CUDA_ERROR_NOT_INITIALIZED.
 *
 * KvikIO's wheels look these symbols up before every read, host reads included, and fail without them; with them they
 * take the memory for host memory, which it is. Only KvikIO's process gets this library (LD_LIBRARY_PATH). */
#define NOT_INITIALIZED 3
#define STUB(name) \
    int name(void) \
    { \
        return NOT_INITIALIZED; \
    }

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

STUB(cuCtxCreate_v4)
STUB(cuCtxDestroy_v2)
STUB(cuCtxGetCurrent)
STUB(cuCtxGetDevice)
STUB(cuCtxPopCurrent_v2)
STUB(cuCtxPushCurrent_v2)
STUB(cuDeviceGet)
STUB(cuDeviceGetAttribute)
STUB(cuDeviceGetCount)
STUB(cuDevicePrimaryCtxRelease_v2)
STUB(cuDevicePrimaryCtxRetain)
STUB(cuEventCreate)
STUB(cuEventDestroy_v2)
STUB(cuEventQuery)
STUB(cuEventRecord)
STUB(cuEventSynchronize)
STUB(cuGetErrorName)
STUB(cuGetErrorString)
STUB(cuLaunchHostFunc)
STUB(cuMemFreeHost)
STUB(cuMemGetAddressRange_v2)
STUB(cuMemHostAlloc)
STUB(cuMemHostRegister_v2)
STUB(cuMemHostUnregister)
STUB(cuMemcpyAsync)
STUB(cuMemcpyBatchAsync_v2)
STUB(cuMemcpyDtoHAsync_v2)
STUB(cuMemcpyHtoDAsync_v2)
STUB(cuPointerGetAttribute)
STUB(cuPointerGetAttributes)
STUB(cuStreamCreate)
STUB(cuStreamDestroy_v2)
STUB(cuStreamSynchronize)
