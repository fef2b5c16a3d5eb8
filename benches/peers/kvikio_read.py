"""KvikIO: one large read of an object's head into host memory. Usage: kvikio_read.py URL TOTAL REPS

The KVIKIO_* variables choose the backend; KVIKIO_TASK_SIZE is the size of a request.
"""

import os
import sys

import kvikio
import numpy as np
from kvikio_common import Stopwatch, report

url, total, reps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
task_size = int(os.environ["KVIKIO_TASK_SIZE"])
remote = kvikio.RemoteFile.open_http(url)
destination = np.empty(total, dtype=np.uint8)
for _ in range(reps):
    destination.fill(1)
    with Stopwatch() as watch:
        size = remote.pread(destination, total).get()
    assert size == total, f"{size} of {total} bytes"
    report(watch, -(-total // task_size), destination)
