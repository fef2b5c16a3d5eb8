"""KvikIO, into device memory. Usage: kvikio_device.py BASE PLAN REQUEST REPS all

Needs an NVIDIA GPU and CuPy. The time ends when the bytes are in device memory.
"""

import cupy as cp
import kvikio
from peer import Job, measure

job = Job()
destination = cp.ones(job.total, dtype=cp.uint8)
files = {read.path: kvikio.RemoteFile.open_http(job.base + read.path) for read in job.reads}


def read_all():
    futures = [
        files[read.path].pread(destination[read.at : read.at + read.length], read.length, read.first)
        for read in job.reads
    ]
    assert sum(future.get() for future in futures) == job.total
    cp.cuda.runtime.deviceSynchronize()


measure(
    job, "kvikio", f"KvikIO {kvikio.__version__}", destination, read_all, cp.asnumpy, cp.cuda.runtime.deviceSynchronize
)
