#!/usr/bin/env python3
"""What a data loader does: the parent uses RaskIO, then forks workers, and each worker reads through the library.

A worker that inherited a client must be told FORKED at once, and must be able to read with a client of its own. The
library is reached through ctypes and the table of raskio_get_api alone. RASKIO_TEST_URL and RASKIO_LIBRARY are set by
`make test-python`.
"""

import ctypes
import multiprocessing
import os
import pathlib
import re
import sys
import time

URL = os.environ["RASKIO_TEST_URL"]
LIBRARY = pathlib.Path(os.environ["RASKIO_LIBRARY"])
HEADER = (LIBRARY.parent.parent / "include" / "raskio.h").read_text()
WORKERS = 4
READS = 25
SIZE = 100_000

pointer, u64, status = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int32
out = ctypes.POINTER(pointer)
SIGNATURES = {
    "version": ctypes.CFUNCTYPE(ctypes.c_char_p),
    "client_new": ctypes.CFUNCTYPE(status, pointer, out, out),
    "client_default": ctypes.CFUNCTYPE(status, out, out),
    "client_release": ctypes.CFUNCTYPE(None, pointer),
    "object_open": ctypes.CFUNCTYPE(status, pointer, ctypes.c_char_p, pointer, out, out),
    "object_release": ctypes.CFUNCTYPE(None, pointer),
    "object_stat_sync": ctypes.CFUNCTYPE(status, pointer, ctypes.POINTER(u64), out),
    "read_sync": ctypes.CFUNCTYPE(status, pointer, u64, pointer, u64, pointer, ctypes.POINTER(u64), out),
    "error_message": ctypes.CFUNCTYPE(ctypes.c_char_p, pointer),
    "error_free": ctypes.CFUNCTYPE(None, pointer),
}


def constant(name):
    return int(re.search(rf"#define {name}\s+(?:\(\(raskio_status\))?(\d+)", HEADER).group(1))


def load():
    """The table, with the members in the header's order; the functions not needed here stay plain pointers."""
    body = re.search(r"struct raskio_api\s*\{(.*?)\n\}", HEADER, re.S).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    names = re.findall(r"\(\*\s*([a-z0-9_]+)\)\s*\(", body)
    assert names[0] == "version" and len(names) > 30, names

    class Api(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t), ("abi_major", ctypes.c_uint32), ("abi_minor", ctypes.c_uint32)]
        _fields_ += [(name, SIGNATURES.get(name, pointer)) for name in names]

    library = ctypes.CDLL(str(LIBRARY))
    library.raskio_get_api.restype = ctypes.POINTER(Api)
    library.raskio_get_api.argtypes = [ctypes.c_uint32]
    table = library.raskio_get_api(constant("RASKIO_ABI_MAJOR"))
    assert table, "raskio_get_api returned NULL for the header's own major version"
    assert table.contents.struct_size == ctypes.sizeof(Api), (table.contents.struct_size, ctypes.sizeof(Api))
    return table.contents


def must(api, function, *arguments):
    error = pointer()
    code = function(*arguments, ctypes.byref(error))
    if code != 0:
        message = api.error_message(error)
        api.error_free(error)
        raise AssertionError(f"status {code}: {message}")


def open_object(api, client):
    handle = pointer()
    must(api, api.object_open, client, f"{URL}/medium".encode(), None, ctypes.byref(handle))
    return handle


def read_and_compare(api, handle, offset):
    guard = 16
    buffer = (ctypes.c_ubyte * (SIZE + 2 * guard))(*([0xEE] * (SIZE + 2 * guard)))
    got = u64()
    must(api, api.read_sync, handle, offset, ctypes.addressof(buffer) + guard, SIZE, None, ctypes.byref(got))
    assert got.value == SIZE, got.value
    data = bytes(buffer)
    assert data[:guard] == data[-guard:] == b"\xee" * guard, "bytes beside the buffer were written"
    pattern = bytes((i * 31 + 7) % 251 for i in range(251))
    first = offset % 251
    assert data[guard:-guard] == (pattern * (SIZE // 251 + 2))[first : first + SIZE], f"wrong bytes at {offset}"


def worker(number, inherited_client, inherited_object, results):
    try:
        api = load()
        forked = constant("RASKIO_ERR_FORKED")
        error, handle, size = pointer(), pointer(), u64()
        begin = time.monotonic()
        code = api.object_open(inherited_client, f"{URL}/medium".encode(), None, ctypes.byref(handle), ctypes.byref(error))
        assert code == forked, f"open with the parent's client: status {code}, and should be FORKED ({forked})"
        api.error_free(error)
        error = pointer()
        code = api.object_stat_sync(inherited_object, ctypes.byref(size), ctypes.byref(error))
        assert code == forked, f"stat of the parent's object: status {code}, and should be FORKED ({forked})"
        api.error_free(error)
        # Letting go of what was inherited is allowed, and must not wait for threads that are not here.
        api.object_release(inherited_object)
        api.client_release(inherited_client)
        assert time.monotonic() - begin < 1, "calls with inherited handles took a second"

        client = pointer()
        if number % 2 == 0:
            must(api, api.client_new, None, ctypes.byref(client))
        else:
            must(api, api.client_default, ctypes.byref(client))
        handle = open_object(api, client)
        for i in range(READS):
            read_and_compare(api, handle, (number * READS + i) * 7919 % (1_048_576 - SIZE))
        api.object_release(handle)
        api.client_release(client)
        results.put((number, None))
    except BaseException as problem:  # also an assertion: the parent reports it
        results.put((number, repr(problem)))


def main():
    api = load()
    client = pointer()
    must(api, api.client_default, ctypes.byref(client))
    handle = open_object(api, client)
    read_and_compare(api, handle, 12345)

    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=worker, args=(i, client, handle, results)) for i in range(WORKERS)]
    for process in workers:
        process.start()
    problems = [problem for _, problem in (results.get(timeout=60) for _ in workers) if problem]
    for process in workers:
        process.join(30)
        if process.exitcode != 0:
            problems.append(f"a worker ended with exit code {process.exitcode}")

    # The parent is undisturbed by what its children did.
    read_and_compare(api, handle, 54321)
    api.object_release(handle)
    api.client_release(client)
    if problems:
        sys.exit("\n".join(problems))
    print(f"RaskIO {api.version().decode()}: {WORKERS} forked workers made {WORKERS * READS} reads")


main()
