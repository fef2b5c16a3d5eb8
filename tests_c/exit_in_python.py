#!/usr/bin/env python3
"""The interpreter exits with reads in flight: no crash, no hang, and with a shut-down in atexit every callback comes.

The library is reached through ctypes. RASKIO_TEST_URL and RASKIO_LIBRARY are set by `make test-python`.
"""

import atexit
import ctypes
import os
import subprocess
import sys
import time

URL = os.environ["RASKIO_TEST_URL"]
READS = 50


class ClientOptions(ctypes.Structure):
    """The first fields of raskio_client_options, and room for the rest, which stays zero."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("backend", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 148)]


DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def child(backend, way):
    library = ctypes.CDLL(os.environ["RASKIO_LIBRARY"])
    pointer = ctypes.c_void_p
    library.raskio_read.argtypes = [
        pointer, ctypes.c_uint64, pointer, ctypes.c_uint64, pointer, DONE, pointer, pointer, pointer,
    ]
    library.raskio_object_open.argtypes = [pointer, ctypes.c_char_p, pointer, pointer, pointer]
    library.raskio_client_shut_down.argtypes = [pointer, ctypes.c_uint32, pointer]
    options = ClientOptions(struct_size=160, backend=backend)
    assert ctypes.sizeof(options) == 160
    client, stalled, quick = pointer(), pointer(), pointer()
    assert library.raskio_client_new(ctypes.byref(options), ctypes.byref(client), None) == 0
    assert library.raskio_object_open(client, f"{URL}/medium?stall=1".encode(), None, ctypes.byref(stalled), None) == 0
    assert library.raskio_object_open(client, f"{URL}/medium".encode(), None, ctypes.byref(quick), None) == 0
    calls = []
    done = DONE(lambda user, result: calls.append(user))
    buffers = [ctypes.create_string_buffer(1000) for _ in range(READS)]

    def check():
        # Waits with the interpreter's lock released, so the callbacks can run; afterwards no thread of RaskIO is left.
        assert library.raskio_client_shut_down(client, 10_000, None) == 0
        assert len(calls) == READS, calls
        print("every callback came", flush=True)

    # A callback into an interpreter that is gone would be fatal: whoever has reads that may end then shuts down first.
    if way == "shut_down":
        atexit.register(check)
    for number, buffer in enumerate(buffers):
        target = quick if way == "shut_down" and number % 2 else stalled
        assert library.raskio_read(target, 0, buffer, 1000, None, done, None, None, None) == 0
    # Kept, like everything that RaskIO was lent.
    child.kept = (library, done, buffers)
    print("exits", flush=True)


def main():
    runs = 0
    for backend in (1, 2):
        for way in ("shut_down", "nothing"):
            for _ in range(5):
                began = time.monotonic()
                command = [sys.executable, __file__, str(backend), way]
                run = subprocess.run(command, capture_output=True, text=True, timeout=60)
                took = time.monotonic() - began
                wanted = ["exits", "every callback came"] if way == "shut_down" else ["exits"]
                assert run.returncode == 0, (backend, way, run)
                assert run.stdout.split("\n")[:-1] == wanted and run.stderr == "", (backend, way, run)
                assert took < 20, (backend, way, took)
                runs += 1
    print(f"{runs} interpreters ended well")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        child(int(sys.argv[1]), sys.argv[2])
    else:
        main()
