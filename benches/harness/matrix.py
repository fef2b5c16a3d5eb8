"""What is measured: cases, and the clients of each."""

from dataclasses import dataclass, replace

from .clients import Client

MIB = 1 << 20
EASY, MULTI = "EASY_THREADPOOL", "MULTI_POLL"


@dataclass(frozen=True)
class Case:
    name: str
    server: str  # what the server does
    port: int  # as nginx's configuration names it
    mode: str  # large: one read; small: many reads; device: one read into GPU memory
    total: int
    request: int
    clients: tuple
    stride: int = 0

    def __post_init__(self):
        object.__setattr__(self, "stride", self.stride or self.request)

    @property
    def title(self):
        if self.mode == "small":
            return f"{self.total // self.request:,} reads of {size(self.request)}, {self.server}"
        memory = "GPU memory, " if self.mode == "device" else ""
        return f"{size(self.total)} in {size(self.request)} requests, {memory}{self.server}"

    def scaled(self, factor):
        """The same with less (or more) to read, in whole requests."""
        requests = max(1, round(self.total / self.request * factor))
        return replace(self, total=requests * self.request)

    @property
    def object_bytes(self):
        """How long the object must be."""
        return (self.total // self.request - 1) * self.stride + self.request


def size(count):
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if count >= unit and count * 10 % unit == 0:
            return f"{count / unit:g} {name}"
    return f"{count:,} bytes"


def raw(width, threads=1):
    return Client("raw", threads, width)


def curl(width, buffer_kib=256):
    return Client("curl", 1, width, buffer=buffer_kib << 10)


def both(backend, threads, width=0):
    """KvikIO and RaskIO with the same settings."""
    return tuple(Client(kind, threads, width, backend) for kind in ("kvikio", "raskio"))


SMALL_MACHINE = (
    Case(
        "large",
        "plain HTTP, no delay",
        8090,
        "large",
        1024 * MIB,
        4 * MIB,
        (
            raw(16),
            curl(16, 16),
            curl(16),
            *both(EASY, 16),
            *both(MULTI, 1, 16),
            *both(MULTI, 1, 64),
            *both(MULTI, 2, 64),
        ),
    ),
    Case(
        "store",
        "plain HTTP, 25 ms to the first byte, 64 MB/s a connection",
        8091,
        "large",
        1024 * MIB,
        4 * MIB,
        (
            raw(64),
            raw(128),
            curl(64),
            *both(EASY, 16),
            *both(EASY, 64),
            *both(MULTI, 1, 64),
            *both(MULTI, 1, 256),
            *both(MULTI, 2, 256),
        ),
    ),
    Case(
        "small",
        "plain HTTP, no delay",
        8090,
        "small",
        20_000 * 4096,
        4096,
        (raw(16), curl(16, 16), *both(EASY, 16), *both(MULTI, 1, 16), *both(MULTI, 1, 64), *both(MULTI, 1, 256)),
        stride=3 * 4096,
    ),
    Case(
        "small-5ms",
        "plain HTTP, 5 ms to the first byte",
        8092,
        "small",
        20_000 * 4096,
        4096,
        (raw(256), curl(256, 16), *both(EASY, 64), *both(MULTI, 1, 256)),
        stride=3 * 4096,
    ),
    Case(
        "tls",
        "TLS, no delay",
        8443,
        "large",
        512 * MIB,
        4 * MIB,
        (curl(16), *both(EASY, 16), *both(MULTI, 1, 16), *both(MULTI, 2, 64)),
    ),
    Case(
        "tls-store",
        "TLS, 25 ms to the first byte, 64 MB/s a connection",
        8444,
        "large",
        512 * MIB,
        4 * MIB,
        (curl(64), *both(EASY, 64), *both(MULTI, 1, 64), *both(MULTI, 2, 256)),
    ),
)

_H200_BACKENDS = (
    *both(EASY, 16),
    *both(EASY, 64),
    *both(MULTI, 1, 64),
    *both(MULTI, 4, 256),
    *both(MULTI, 8, 256),
)

H200_MACHINE = (
    Case(
        "large",
        "plain HTTP, no delay",
        8090,
        "large",
        4096 * MIB,
        4 * MIB,
        (raw(16), raw(64, 4), raw(128, 8), curl(64), *_H200_BACKENDS),
    ),
    Case(
        "store",
        "plain HTTP, 64 MB/s a connection",
        8091,
        "large",
        4096 * MIB,
        4 * MIB,
        (raw(256, 8), curl(256), *_H200_BACKENDS),
    ),
    Case(
        "device",
        "plain HTTP, no delay",
        8090,
        "device",
        4096 * MIB,
        4 * MIB,
        _H200_BACKENDS,
    ),
)

# Name: nginx's configuration, cases.
PROFILES = {
    "small": ("nginx_bench.conf", SMALL_MACHINE),
    "h200": ("nginx_h200.conf", H200_MACHINE),
}
