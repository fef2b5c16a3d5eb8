"""KvikIO's CuFile in compatibility mode. Usage: kvikio_files.py FILE BLOCK DEPTH SECONDS direct|cached [host|device [read|write]]

The file is read, or written, in order, in calls of many blocks that KvikIO cuts into tasks of one block for its DEPTH threads: what it
does best, and no Python runs in between. Into host memory, or into a GPU's by CuPy. One line of JSON, as raskio_files prints it.
"""

import json
import os
import resource
import sys
import time

path, block, depth, seconds, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
where, way = (sys.argv[6:] + ["host", "read"][len(sys.argv[6:]) :])[:2]
direct = "ON" if how == "direct" else "OFF"
os.environ.update(
    KVIKIO_COMPAT_MODE="ON",
    KVIKIO_NTHREADS=str(depth),
    KVIKIO_TASK_SIZE=str(block),
    KVIKIO_AUTO_DIRECT_IO_READ=direct,
    KVIKIO_AUTO_DIRECT_IO_WRITE=direct,
)

import kvikio  # noqa: E402 (after its settings)
import numpy as np  # noqa: E402


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def memory(size):
    """So many bytes that begin with a page."""
    if where == "device":
        import cupy

        return cupy.zeros(size, dtype=cupy.uint8)
    bytes_ = np.zeros(size + 4096, dtype=np.uint8)
    return bytes_[-bytes_.ctypes.data % 4096 :][:size]


size = os.path.getsize(path)
span = min(size, max(block * depth * 8, 16 << 20)) // block * block
buffer = memory(span)
file = kvikio.CuFile(path, "r+" if way == "write" else "r")
move = file.pwrite if way == "write" else file.pread
assert move(buffer, span, 0, task_size=block).get() == span
blocks, at = 0, 0
began, cpu_began = time.monotonic(), cpu()
while time.monotonic() - began < seconds:
    assert move(buffer, span, at, task_size=block).get() == span
    blocks += span // block
    at = at + span if at + 2 * span <= size else 0
took, used = time.monotonic() - began, cpu() - cpu_began
print(json.dumps({"iops": blocks / took, "bytes_per_s": blocks * block / took, "cpu_s": used, "wall_s": took}))
