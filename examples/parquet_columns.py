#!/usr/bin/env python3
"""Reads columns of a Parquet file as a data loader would: parquet_columns.py URL [COLUMN...]

Two round trips, however large the file is: its footer, read from the end, tells where the column chunks lie; one batch reads
them all, and RaskIO reads by one request what lies close together. pyarrow understands the footer; ctypes is all that RaskIO
needs. The library is found as the system finds libraries; RASKIO_LIBRARY names another file.
"""

import ctypes
import os
import sys
import threading
import zlib
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p, sizeof

import pyarrow
import pyarrow.parquet

os.environ.setdefault("KVIKIO_REMOTE_IO_BACKEND", "MULTI_POLL")

# Enough for most footers; a longer one says how long it is, and is read again.
GUESS = 64 << 10
FROM_END, UNLIMITED = 1, 2**32 - 1


class ReadOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("memory", c_uint32), ("flags", c_uint32), ("task_size", c_uint64),
                ("deadline_ms", c_uint32), ("reserved0", c_uint32), ("stream", c_void_p)]  # fmt: skip


class ReadSpec(ctypes.Structure):
    _fields_ = [("object", c_void_p), ("offset", c_uint64), ("data", c_void_p), ("size", c_uint64), ("user_data", c_void_p),
                ("flags", c_uint32), ("reserved0", c_uint32)]  # fmt: skip


class ItemResult(ctypes.Structure):
    _fields_ = [("status", c_int32), ("attempts", c_uint32), ("bytes", c_uint64), ("error", c_void_p), ("offset", c_uint64)]


class Result(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("status", c_int32), ("attempts", c_uint32), ("bytes", c_uint64),
                ("offset", c_uint64), ("error", c_void_p), ("items", c_void_p), ("item_count", c_size_t),
                ("item_size", c_size_t)]  # fmt: skip


Done = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Result))

lib = ctypes.CDLL(os.environ.get("RASKIO_LIBRARY", "libraskio.so.0"))
for name, result, arguments in [
    ("raskio_client_default", c_int32, [POINTER(c_void_p), POINTER(c_void_p)]),
    ("raskio_client_release", None, [c_void_p]),
    ("raskio_object_open", c_int32, [c_void_p, c_char_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
    ("raskio_object_release", None, [c_void_p]),
    ("raskio_object_size", c_uint64, [c_void_p]),
    ("raskio_read_sync", c_int32,
     [c_void_p, c_uint64, c_void_p, c_uint64, POINTER(ReadOptions), POINTER(c_uint64), POINTER(c_void_p)]),
    ("raskio_read_batch", c_int32,
     [c_void_p, c_void_p, c_size_t, c_size_t, c_void_p, Done, c_void_p, c_void_p, POINTER(c_void_p)]),
    ("raskio_status_name", c_char_p, [c_int32]),
    ("raskio_error_message", c_char_p, [c_void_p]),
    ("raskio_error_free", None, [c_void_p]),
]:  # fmt: skip
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


def check(function, *arguments):
    """Calls a function whose last parameter is the error output."""
    error = c_void_p()
    status = function(*arguments, byref(error))
    if status != 0:
        message = lib.raskio_error_message(error).decode() if error else "no message"
        lib.raskio_error_free(error)
        raise OSError(f"{lib.raskio_status_name(status).decode()}: {message}")


def read_end(opened, size):
    """The last bytes of an object, or all of them if it has fewer: one round trip, which also tells its size."""
    data, bytes_read = bytearray(size), c_uint64()
    view = (ctypes.c_char * size).from_buffer(data)
    options = ReadOptions(sizeof(ReadOptions), flags=FROM_END)
    check(lib.raskio_read_sync, opened, 0, ctypes.addressof(view), size, byref(options), byref(bytes_read))
    return bytes(data[: bytes_read.value])


def read_metadata(opened):
    """The footer's contents: its length and a magic word are the file's last 8 bytes."""
    end = read_end(opened, GUESS)
    if end[-4:] != b"PAR1":
        raise OSError("this is no Parquet file: it does not end with PAR1")
    footer = int.from_bytes(end[-8:-4], "little") + 8
    if footer > len(end):
        end = read_end(opened, footer)
    return pyarrow.parquet.read_metadata(pyarrow.BufferReader(end)), footer


def chunks_of(metadata, columns):
    """Where the chunks of these columns lie: (row group, name, offset, size)."""
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for index in range(row_group.num_columns):
            column = row_group.column(index)
            if not columns or column.path_in_schema in columns:
                start = column.data_page_offset
                if column.has_dictionary_page:
                    start = min(start, column.dictionary_page_offset)
                yield group, column.path_in_schema, start, column.total_compressed_size


def read_batch(client, opened, ranges):
    """The bytes of these (offset, size), by one call, and how many requests that took."""
    buffers = [bytearray(size) for _, size in ranges]
    views = [(ctypes.c_char * len(buffer)).from_buffer(buffer) for buffer in buffers]
    specs = (ReadSpec * len(ranges))(
        *[ReadSpec(opened, offset, ctypes.addressof(view), size) for (offset, size), view in zip(ranges, views)]
    )
    over, failures, attempts = threading.Event(), [], []

    def done(_, result):
        result = result.contents
        attempts.append(result.attempts)
        for number, (offset, size) in enumerate(ranges):
            item = ItemResult.from_address(result.items + number * result.item_size)
            if item.status != 0:
                failures.append(f"{offset}+{size}: {lib.raskio_error_message(item.error).decode()}")
        over.set()

    callback = Done(done)
    check(lib.raskio_read_batch, client, specs, len(ranges), sizeof(ReadSpec), None, callback, None, None)
    over.wait()
    if failures:
        raise OSError("; ".join(failures))
    return buffers, attempts[0]


def read_columns(url, columns):
    client, opened = c_void_p(), c_void_p()
    check(lib.raskio_client_default, byref(client))
    try:
        check(lib.raskio_object_open, client, url.encode(), None, byref(opened))
        metadata, footer = read_metadata(opened)
        size = lib.raskio_object_size(opened)
        chunks = list(chunks_of(metadata, columns))
        data, requests = read_batch(client, opened, [(offset, length) for _, _, offset, length in chunks])
        return size, footer, chunks, data, requests
    finally:
        lib.raskio_object_release(opened)
        lib.raskio_client_release(client)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        size, footer, chunks, data, requests = read_columns(sys.argv[1], set(sys.argv[2:]))
    except OSError as error:
        sys.exit(str(error))
    for (group, name, offset, length), got in zip(chunks, data):
        print(f"row group {group}  {name}  {offset}+{length}  crc32 {zlib.crc32(got):08x}")
    total = sum(map(len, data))
    print(f"{len(chunks)} column chunks, {total} of {size} bytes, by {requests} requests after a footer of {footer} bytes")


if __name__ == "__main__":
    main()
