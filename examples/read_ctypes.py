#!/usr/bin/env python3
"""Reads a whole object with nothing but ctypes: read_ctypes.py URL [CRC32]

The library is found as the system finds libraries; RASKIO_LIBRARY names another file.
"""

import ctypes
import os
import sys
import zlib

# For programs that choose no backend themselves. A server far away is read much faster through it.
os.environ.setdefault("KVIKIO_REMOTE_IO_BACKEND", "MULTI_POLL")

lib = ctypes.CDLL(os.environ.get("RASKIO_LIBRARY", "libraskio.so.0"))
pointer, u64, status = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int32
# Pointers are 64 bits wide, and ctypes takes everything undeclared for an int.
for name, result, arguments in [
    ("raskio_client_default", status, [ctypes.POINTER(pointer), ctypes.POINTER(pointer)]),
    ("raskio_client_release", None, [pointer]),
    ("raskio_object_open", status, [pointer, ctypes.c_char_p, pointer, ctypes.POINTER(pointer), ctypes.POINTER(pointer)]),
    ("raskio_object_release", None, [pointer]),
    ("raskio_object_stat_sync", status, [pointer, ctypes.POINTER(u64), ctypes.POINTER(pointer)]),
    ("raskio_read_sync", status, [pointer, u64, pointer, u64, pointer, ctypes.POINTER(u64), ctypes.POINTER(pointer)]),
    ("raskio_status_name", ctypes.c_char_p, [status]),
    ("raskio_error_message", ctypes.c_char_p, [pointer]),
    ("raskio_error_free", None, [pointer]),
]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


class RaskioError(Exception):
    pass


def check(function, *arguments):
    """Calls a function whose last parameter is the error output."""
    error = pointer()
    code = function(*arguments, ctypes.byref(error))
    if code != 0:
        message = lib.raskio_error_message(error).decode() if error else "no message"
        lib.raskio_error_free(error)
        raise RaskioError(f"{lib.raskio_status_name(code).decode()}: {message}")


def read(url):
    """The bytes of the object at the URL. The interpreter lock is free while the library waits."""
    client, object, size = pointer(), pointer(), u64()
    check(lib.raskio_client_default, ctypes.byref(client))
    try:
        check(lib.raskio_object_open, client, url.encode(), None, ctypes.byref(object))
        check(lib.raskio_object_stat_sync, object, ctypes.byref(size))
        data = bytearray(size.value)
        if data:
            view = (ctypes.c_char * len(data)).from_buffer(data)
            check(lib.raskio_read_sync, object, 0, ctypes.addressof(view), len(data), None, None)
        return data
    finally:
        lib.raskio_object_release(object)
        lib.raskio_client_release(client)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    try:
        data = read(sys.argv[1])
    except RaskioError as error:
        sys.exit(str(error))
    crc = f"{zlib.crc32(data):08x}"
    print(f"{len(data)} bytes, crc32 {crc}")
    if len(sys.argv) == 3 and int(sys.argv[2], 16) != int(crc, 16):
        sys.exit(f"wrong bytes: the checksum should be {sys.argv[2]}")


main()
