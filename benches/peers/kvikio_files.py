"""KvikIO's CuFile in compatibility mode, into host memory. Usage: kvikio_files.py FILE BLOCK DEPTH SECONDS direct|cached

The file is read in order, in reads of many blocks that KvikIO cuts into tasks of one block for its DEPTH threads: what it does best, and
no Python runs in between. One line of JSON, as raskio_files prints it.
"""

import json
import os
import resource
import sys
import time

path, block, depth, seconds, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
os.environ.update(
    KVIKIO_COMPAT_MODE="ON",
    KVIKIO_NTHREADS=str(depth),
    KVIKIO_TASK_SIZE=str(block),
    KVIKIO_AUTO_DIRECT_IO_READ="ON" if how == "direct" else "OFF",
)

import kvikio  # noqa: E402 (after its settings)
import numpy as np  # noqa: E402


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


size = os.path.getsize(path)
span = min(size, max(block * depth * 8, 16 << 20)) // block * block
memory = np.zeros(span + 4096, dtype=np.uint8)
aligned = memory[-memory.ctypes.data % 4096 :][:span]
file = kvikio.CuFile(path, "r")
assert file.pread(aligned, span, 0, task_size=block).get() == span
blocks, at, latencies = 0, 0, []
began, cpu_began = time.monotonic(), cpu()
while time.monotonic() - began < seconds:
    assert file.pread(aligned, span, at, task_size=block).get() == span
    blocks += span // block
    at = at + span if at + 2 * span <= size else 0
took, used = time.monotonic() - began, cpu() - cpu_began
print(json.dumps({"iops": blocks / took, "bytes_per_s": blocks * block / took, "cpu_s": used, "wall_s": took}))
