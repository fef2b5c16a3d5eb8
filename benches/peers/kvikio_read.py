"""KvikIO, into host memory. Usage: kvikio_read.py BASE PLAN REQUEST REPS all|one

The KVIKIO_* variables choose the backend; KVIKIO_TASK_SIZE is REQUEST. `all` submits every read of the plan at once,
`one` a read after the other.
"""

import time

import kvikio
import numpy as np
from peer import Job, measure

job = Job()
(submit,) = job.more
destination = np.ones(job.total, dtype=np.uint8)
ends = {}
for read in job.reads:
    ends[read.path] = max(ends.get(read.path, 0), read.first + read.length)
files, reads = {}, []


def open_files():
    # With a length, it does not ask the server for one. None of the reads goes beyond it.
    for path, end in ends.items():
        files[path] = kvikio.RemoteFile.open_http(job.base + path, end)
    reads.extend((files[read.path], destination[read.at : read.at + read.length], read) for read in job.reads)


def read_all():
    # The first repetition has everything that a fresh process has to do.
    if not files:
        open_files()
    if submit == "all":
        futures = [file.pread(part, read.length, read.first) for file, part, read in reads]
        assert sum(future.get() for future in futures) == job.total
        return None
    latencies = []
    for file, part, read in reads:
        start = time.perf_counter()
        assert file.pread(part, read.length, read.first).get() == read.length
        latencies.append(time.perf_counter() - start)
    return latencies


measure(job, "kvikio", f"KvikIO {kvikio.__version__}", destination, read_all)
