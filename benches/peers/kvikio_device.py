"""KvikIO: one large read into device memory. Usage: kvikio_device.py URL TOTAL REPS

Needs an NVIDIA GPU and CuPy. The time ends when the bytes are in device memory.
"""

import os
import sys

import cupy as cp
import kvikio
from kvikio_common import Stopwatch, report

url, total, reps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
task_size = int(os.environ["KVIKIO_TASK_SIZE"])
remote = kvikio.RemoteFile.open_http(url)
destination = cp.empty(total, dtype=cp.uint8)
for _ in range(reps):
    destination.fill(1)
    cp.cuda.runtime.deviceSynchronize()
    with Stopwatch() as watch:
        size = remote.pread(destination, total).get()
        cp.cuda.runtime.deviceSynchronize()
    assert size == total, f"{size} of {total} bytes"
    report(watch, -(-total // task_size), cp.asnumpy(destination))
