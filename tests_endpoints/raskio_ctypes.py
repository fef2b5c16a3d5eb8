"""The C interface over ctypes, as far as these tests need it. RASKIO_LIBRARY names the library."""

import ctypes
import os
import threading
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

STATUS = {
    0: "OK", 1: "INVALID_ARGUMENT", 2: "UNSUPPORTED", 3: "CANCELLED", 4: "TIMED_OUT", 5: "NOT_FOUND",
    6: "PERMISSION_DENIED", 7: "UNAVAILABLE", 8: "RANGE", 9: "IO", 17: "CONNECTION", 18: "TLS", 19: "HTTP",
}  # fmt: skip
MULTI_POLL, EASY_THREADPOOL = 2, 1
KINDS = {"HTTP": 1, "S3": 2, "S3_PUBLIC": 3, "S3_PRESIGNED": 4, "WEBHDFS": 5}
TLS_UNVERIFIED, S3_VIRTUAL_HOST = 4, 8


class ClientOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("backend", c_uint32), ("rest", ctypes.c_char * 148)]


class ObjectOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("endpoint", c_uint32), ("flags", c_uint32), ("size", c_uint64),
        ("region", c_char_p), ("endpoint_url", c_char_p), ("access_key_id", c_char_p),
        ("secret_access_key", c_char_p), ("session_token", c_char_p), ("user_name", c_char_p), ("ca_file", c_char_p),
        ("headers", POINTER(c_char_p)), ("header_count", c_size_t), ("allowed_endpoints", c_uint32),
        ("reserved0", c_uint32), ("bearer_token", c_char_p), ("client_certificate", c_char_p), ("client_key", c_char_p),
        ("client_key_password", c_char_p), ("proxy", c_char_p), ("unix_socket", c_char_p),
    ]  # fmt: skip


class LogRecord(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("level", c_uint32), ("line", c_uint32), ("target", c_void_p),
        ("target_size", c_size_t), ("message", c_void_p), ("message_size", c_size_t),
    ]  # fmt: skip


class ReadOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("memory", c_uint32), ("flags", c_uint32), ("task_size", c_uint64),
        ("deadline_ms", c_uint32), ("reserved0", c_uint32), ("stream", c_void_p),
    ]  # fmt: skip


class ReadSpec(ctypes.Structure):
    _fields_ = [
        ("object", c_void_p), ("offset", c_uint64), ("data", c_void_p), ("size", c_uint64), ("user_data", c_void_p),
        ("flags", c_uint32), ("reserved0", c_uint32),
    ]  # fmt: skip


class ItemResult(ctypes.Structure):
    _fields_ = [
        ("status", c_int32), ("attempts", c_uint32), ("bytes", c_uint64), ("error", c_void_p), ("offset", c_uint64),
    ]  # fmt: skip


class Result(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("status", c_int32), ("attempts", c_uint32), ("bytes", c_uint64),
        ("offset", c_uint64), ("error", c_void_p), ("items", c_void_p), ("item_count", c_size_t),
        ("item_size", c_size_t),
    ]  # fmt: skip


FROM_END = 1
DoneFunction = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Result))
LogFunction = ctypes.CFUNCTYPE(None, c_void_p, POINTER(LogRecord))

assert ctypes.sizeof(ClientOptions) == 160 and ctypes.sizeof(ObjectOptions) == 152
assert ctypes.sizeof(ReadSpec) == 48 and ctypes.sizeof(ItemResult) == 32

lib = ctypes.CDLL(os.environ["RASKIO_LIBRARY"])
for name, result, arguments in [
    ("raskio_client_new", c_int32, [c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
    ("raskio_client_shut_down", c_int32, [c_void_p, c_uint32, c_void_p]),
    ("raskio_client_release", None, [c_void_p]),
    ("raskio_object_open", c_int32, [c_void_p, c_char_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
    ("raskio_object_stat_sync", c_int32, [c_void_p, POINTER(c_uint64), POINTER(c_void_p)]),
    ("raskio_object_release", None, [c_void_p]),
    ("raskio_read_sync", c_int32,
     [c_void_p, c_uint64, c_void_p, c_uint64, c_void_p, POINTER(c_uint64), POINTER(c_void_p)]),
    ("raskio_read_batch", c_int32,
     [c_void_p, c_void_p, c_size_t, c_size_t, c_void_p, DoneFunction, c_void_p, c_void_p, POINTER(c_void_p)]),
    ("raskio_error_message", c_char_p, [c_void_p]),
    ("raskio_error_http_status", c_int32, [c_void_p]),
    ("raskio_error_free", None, [c_void_p]),
    ("raskio_set_log_hook", c_int32, [c_void_p, c_void_p, c_uint32]),
    ("raskio_stats_text", c_size_t, [c_void_p, c_uint32, c_void_p, c_size_t]),
]:  # fmt: skip
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


class Failure(Exception):
    def __init__(self, status, message, http_status):
        super().__init__(f"{status}: {message}")
        self.status, self.message, self.http_status = status, message, http_status


def check(status, error):
    if status == 0:
        return
    message, http_status = "", 0
    if error:
        message = lib.raskio_error_message(error).decode()
        http_status = lib.raskio_error_http_status(error)
        lib.raskio_error_free(error)
    raise Failure(STATUS.get(status, str(status)), message, http_status)


class Client:
    """A client, to be used in a with statement."""

    def __init__(self, backend):
        options = ClientOptions(ctypes.sizeof(ClientOptions), backend)
        self.handle, error = c_void_p(), c_void_p()
        check(lib.raskio_client_new(byref(options), byref(self.handle), byref(error)), error)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        check(lib.raskio_client_shut_down(self.handle, 30_000, None), None)
        lib.raskio_client_release(self.handle)

    def open(self, url, **options):
        return Object(self, url, options)

    def stats_text(self, form):
        room = lib.raskio_stats_text(self.handle, form, None, 0) + 1000
        text = ctypes.create_string_buffer(room)
        assert lib.raskio_stats_text(self.handle, form, text, room) < room
        return text.value.decode()

    def read_batch(self, items):
        """Items are (object, offset, size), or (object, None, size) for the last bytes. Their bytes, or a Failure for each."""
        buffers = [ctypes.create_string_buffer(max(size, 1)) for _, _, size in items]
        specs = (ReadSpec * len(items))(*[
            ReadSpec(opened.handle, offset or 0, ctypes.addressof(buffer), size, None, FROM_END if offset is None else 0, 0)
            for (opened, offset, size), buffer in zip(items, buffers)
        ])  # fmt: skip
        over, outcome = threading.Event(), []

        def done(_, result):
            result = result.contents
            for number, buffer in enumerate(buffers):
                item = ItemResult.from_address(result.items + number * result.item_size)
                if item.status == 0:
                    outcome.append(buffer.raw[: item.bytes])
                else:
                    message = lib.raskio_error_message(item.error).decode()
                    status = STATUS.get(item.status, str(item.status))
                    outcome.append(Failure(status, message, lib.raskio_error_http_status(item.error)))
            over.set()

        callback, error = DoneFunction(done), c_void_p()
        size = ctypes.sizeof(ReadSpec)
        check(
            lib.raskio_read_batch(self.handle, specs, len(items), size, None, callback, None, None, byref(error)), error
        )
        if not over.wait(60):
            raise AssertionError("no callback within 60 s")
        return outcome


class Object:
    """An object, to be used in a with statement. Options are fields of raskio_object_options."""

    def __init__(self, client, url, options):
        given = ObjectOptions(ctypes.sizeof(ObjectOptions))
        for name, value in options.items():
            if name == "headers":
                given.headers = (c_char_p * len(value))(*[line.encode() for line in value])
                given.header_count = len(value)
            else:
                setattr(given, name, value.encode() if isinstance(value, str) else value)
        self.handle, error = c_void_p(), c_void_p()
        check(
            lib.raskio_object_open(client.handle, url.encode(), byref(given), byref(self.handle), byref(error)), error
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.raskio_object_release(self.handle)

    def stat(self):
        size, error = c_uint64(), c_void_p()
        check(lib.raskio_object_stat_sync(self.handle, byref(size), byref(error)), error)
        return size.value

    def read(self, offset, size):
        data, error = ctypes.create_string_buffer(size), c_void_p()
        check(lib.raskio_read_sync(self.handle, offset, data, size, None, None, byref(error)), error)
        return data.raw


    def read_end(self, size):
        data, got, error = ctypes.create_string_buffer(size), c_uint64(), c_void_p()
        options = ReadOptions(ctypes.sizeof(ReadOptions), flags=FROM_END)
        check(lib.raskio_read_sync(self.handle, 0, data, size, byref(options), byref(got), byref(error)), error)
        return data.raw[: got.value]


def read(client, url, offset, size, **options):
    with client.open(url, **options) as opened:
        return opened.read(offset, size)


class Log:
    """What RaskIO logs meanwhile: lines of a level and a message."""

    def __enter__(self):
        self.lines = []

        def hook(_, record):
            self.lines.append(
                f"{record.contents.level} "
                + ctypes.string_at(record.contents.message, record.contents.message_size).decode()
            )

        self.hook = LogFunction(hook)
        check(lib.raskio_set_log_hook(self.hook, None, 5), None)
        return self

    def __exit__(self, *_):
        check(lib.raskio_set_log_hook(None, None, 0), None)
