"""KvikIO: many small reads, submitted together. Usage: kvikio_small.py URL TOTAL REQUEST STRIDE REPS

Range i is [i * STRIDE, i * STRIDE + REQUEST). The KVIKIO_* variables choose the backend.
"""

import sys

import kvikio
import numpy as np
from kvikio_common import Stopwatch, report

url = sys.argv[1]
total, request, stride, reps = map(int, sys.argv[2:6])
count = total // request
remote = kvikio.RemoteFile.open_http(url)
destination = np.empty(count * request, dtype=np.uint8)
for _ in range(reps):
    destination.fill(1)
    with Stopwatch() as watch:
        futures = [
            remote.pread(destination[i * request : (i + 1) * request], request, i * stride) for i in range(count)
        ]
        for future in futures:
            future.get()
    report(watch, count, destination)
