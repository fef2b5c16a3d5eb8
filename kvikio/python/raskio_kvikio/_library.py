"""Loads libraskio_kvikio.so into the whole process, before anything loads libkvikio.so."""

import atexit
import ctypes
import os
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

MODES = {1: "on", 2: "off", 3: "exact"}
#: RASKIO_KVIKIO_REASON_*.
REASONS = {
    1: "off", 2: "no_kvikio", 3: "copy", 4: "too_late", 5: "unknown", 6: "no_raskio", 7: "memory",
}  # fmt: skip
TOO_LATE = (
    "raskio_kvikio was imported after KvikIO's library was loaded ({}), and cannot stand before it any more. "
    "Import raskio_kvikio first in this program, before kvikio, libkvikio, cudf and whatever imports them, "
    "or start it with: python -m raskio_kvikio"
)


class _Info(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("mode", c_uint32), ("enabled", c_uint32), ("reason", c_char_p),
        ("kvikio", c_char_p), ("raskio", c_char_p), ("raskio_version", c_char_p), ("reads", c_uint64),
        ("bytes", c_uint64), ("failures", c_uint64), ("size_probes", c_uint64), ("left_to_kvikio", c_uint64),
        ("left_reason", c_char_p), ("batch_items", c_uint64), ("open_objects", c_uint64),
        ("reason_code", c_uint32),
    ]  # fmt: skip


@dataclass(frozen=True)
class Status:
    """What goes on, at one moment."""

    #: RaskIO does KvikIO's remote reads.
    enabled: bool
    #: If not: why.
    reason: Optional[str]
    #: RASKIO_KVIKIO: on, off or exact.
    mode: str
    #: The libkvikio.so of this process, if one is loaded.
    kvikio: Optional[str]
    #: The libraskio.so that is used, and its version.
    raskio: Optional[str]
    raskio_version: Optional[str]
    #: Reads that RaskIO did or does, the bytes that they delivered, and how many of them failed.
    reads: int
    bytes: int
    failures: int
    #: Questions for an object's size.
    size_probes: int
    #: What was left to KvikIO's own code, and why the last of it was.
    left_to_kvikio: int
    left_reason: Optional[str]
    #: Reads that came in batches.
    batch_items: int
    #: Objects that are kept open.
    open_objects: int
    #: The reason for programs: off, no_kvikio, copy, too_late, unknown, no_raskio, memory; None: it is enabled.
    reason_code: Optional[str]


def _loaded_kvikio():
    """The file of a libkvikio.so that this process has loaded already."""
    try:
        with open("/proc/self/maps") as maps:
            lines = maps.readlines()
    except OSError:
        # No /proc here: the library itself sees whether it comes too late.
        return None
    for line in lines:
        path = line[line.find("/") :].rstrip() if "/" in line else ""
        name = os.path.basename(path)
        if name.startswith("libkvikio") and ".so" in name:
            return path
    return None


def _declare(library):
    for name, result, arguments in (
        ("raskio_kvikio_status", c_int, [ctypes.POINTER(_Info)]),
        ("raskio_kvikio_enabled", c_int, []),
        ("raskio_kvikio_stop", None, [c_uint32]),
        ("raskio_kvikio_batch_begin", c_int, []),
        ("raskio_kvikio_batch_submit", c_int64, [c_uint64, c_uint64]),
        ("raskio_kvikio_batch_abandon", None, []),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _load():
    # Already there, by LD_PRELOAD or linked into the program: a second copy would stand behind it.
    process = ctypes.CDLL(None)
    if hasattr(process, "raskio_kvikio_status"):
        return _declare(process)
    kvikio = _loaded_kvikio()
    if kvikio is not None:
        raise ImportError(TOO_LATE.format(kvikio))
    path = Path(__file__).resolve().parent / "lib" / "libraskio_kvikio.so.0"
    if not path.exists():
        raise ImportError(f"{path} is missing: build the package (make wheel, or pip install kvikio/python) and install it")
    # Global: what comes later binds to it.
    return _declare(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL))


library = _load()


def status() -> Status:
    """What goes on now."""
    info = _Info(ctypes.sizeof(_Info))
    library.raskio_kvikio_status(ctypes.byref(info))

    def text(value):
        return None if value is None else value.decode(errors="replace")

    return Status(
        enabled=bool(info.enabled),
        reason=text(info.reason),
        mode=MODES.get(info.mode, str(info.mode)),
        kvikio=text(info.kvikio),
        raskio=text(info.raskio),
        raskio_version=text(info.raskio_version),
        reads=info.reads,
        bytes=info.bytes,
        failures=info.failures,
        size_probes=info.size_probes,
        left_to_kvikio=info.left_to_kvikio,
        left_reason=text(info.left_reason),
        batch_items=info.batch_items,
        open_objects=info.open_objects,
        reason_code=REASONS.get(info.reason_code, str(info.reason_code)) if info.reason_code else None,
    )


def enabled() -> bool:
    """Whether RaskIO does KvikIO's remote reads now: KvikIO is loaded, and was loaded second."""
    return bool(library.raskio_kvikio_enabled())


def stop(timeout_s: float = 5.0) -> None:
    """Ends reads in progress with an error and stops RaskIO's threads. Done when Python ends; seldom needed before."""
    library.raskio_kvikio_stop(int(timeout_s * 1000))


def _is_main_interpreter():
    """Sub-interpreters come and go, and import this too where a .pth file says so."""
    get, main = (
        ctypes.PYFUNCTYPE(ctypes.c_void_p)((name, ctypes.pythonapi))
        for name in ("PyInterpreterState_Get", "PyInterpreterState_Main")
    )
    return get() == main()


# RaskIO's threads must not outlive the interpreter's heap that they may write into.
if _is_main_interpreter():
    atexit.register(stop)

# Linked into the program, or opened by it, but behind KvikIO. Whatever else keeps it from working is no matter of order.
if status().reason_code == "too_late":
    raise ImportError(TOO_LATE.format(status().kvikio))
