"""What is measured: cases, and the clients of each."""

from dataclasses import dataclass, replace

from . import plans
from .clients import Client

KIB, MIB = 1 << 10, 1 << 20
EASY, MULTI = "EASY_THREADPOOL", "MULTI_POLL"


@dataclass(frozen=True)
class Case:
    name: str
    server: str  # what the server does
    port: int  # as nginx's configuration names it
    mode: str  # large: bytes a second count; small: requests a second; latency: one read after the other
    shape: str  # one: one read; many: reads of `request` bytes; mix: 100 objects
    total: int  # bytes
    request: int  # bytes of a request at most
    clients: tuple
    stride: int = 0  # many: from one read to the next; default: no gaps
    cold: bool = False  # a fresh process, first read
    device: bool = False  # into GPU memory

    @property
    def title(self):
        what = {
            "one": f"{size(self.total)} in {size(self.request)} requests",
            "many": f"{self.total // self.request:,} reads of {size(self.request)}",
            "mix": f"{plans.MIX_OBJECTS} objects, {size(self.total)} in all, footer and rest of each",
        }[self.shape]
        parts = [what, "first read of a fresh process" if self.cold else "", "GPU memory" if self.device else ""]
        return ", ".join(part for part in (*parts, self.server) if part)

    def plan(self):
        if self.shape == "one":
            return plans.one(self.total)
        if self.shape == "mix":
            return plans.mix(self.total)
        return plans.many(self.total // self.request, self.request, self.stride or self.request)

    def scaled(self, factor):
        """The same with less (or more) to read, in whole requests."""
        requests = max(1, round(self.total / self.request * factor))
        return replace(self, total=requests * self.request)


def size(count):
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and count * 10 % unit == 0:
            return f"{count / unit:g} {name}"
    return f"{count:,} byte" + ("s" if count != 1 else "")


def raw(width, threads=1):
    return Client("raw", threads, width)


def loops(width):
    """libcurl's two ways to drive a multi handle."""
    return tuple(Client("curl", 1, width, how) for how in ("perform", "epoll"))


def pool(threads):
    """A thread for each request: KvikIO and RaskIO."""
    return tuple(Client(kind, threads, 0, EASY) for kind in ("kvikio", "raskio"))


def reactors(threads, width):
    """KvikIO with a budget; RaskIO with the same one as a ceiling (its default), and with the same one as it is."""
    kvikio = Client("kvikio", threads, width, MULTI)
    return (kvikio, *(Client("raskio", threads, width, MULTI, concurrency=how) for how in ("adaptive", "fixed")))


def window(width):
    return Client("raskio", 1, width, MULTI, "window", "adaptive")


def store(width, threads=1):
    return Client("object_store", threads, width)


def awscrt(width):
    return Client("awscrt", 0, width)


def boto3(width):
    return Client("boto3", 0, width)


def single(kind, backend="", submit="one"):
    """One read after the other."""
    return Client(kind, 1, 1, backend, submit)


PLAIN = "plain HTTP, no delay"
STORE = "25 ms to the first byte, 64 MB/s a connection"
# Sizes: what two cores read in half a second, or one over TLS, so that all of it takes less than a quarter of an hour; but at
# least as many requests as may be in flight.
SMALL_MACHINE = (
    Case(
        *("large", PLAIN, 8090, "large", "one", 1024 * MIB, 4 * MIB),
        (
            *(raw(16), *loops(16), *pool(16), *reactors(1, 16), *reactors(1, 64), *reactors(1, 256)),
            *(*reactors(2, 64), store(16), store(64, 2), awscrt(16), boto3(16)),
        ),
    ),
    Case(
        *("store", f"plain HTTP, {STORE}", 8091, "large", "one", 1024 * MIB, 4 * MIB),
        (
            *(raw(64), raw(128), *loops(64), *pool(64), *reactors(1, 64), *reactors(1, 256)),
            *(*reactors(2, 256), store(64), store(128, 2), awscrt(64), boto3(64)),
        ),
    ),
    Case(
        *("tls", "TLS, no delay", 8443, "large", "one", 1024 * MIB, 4 * MIB),
        (
            raw(16),
            *loops(16),
            *pool(16),
            *reactors(1, 16),
            *reactors(1, 64),
            *reactors(2, 64),
            store(16),
            store(64, 2),
            awscrt(16),
        ),
    ),
    Case(
        *("tls-store", f"TLS, {STORE}", 8444, "large", "one", 1024 * MIB, 4 * MIB),
        (raw(64), *loops(64), *pool(64), *reactors(1, 128), *reactors(2, 128), store(128, 2), awscrt(64)),
    ),
    Case(
        *("4k", PLAIN, 8090, "small", "many", 20_000 * 4 * KIB, 4 * KIB),
        (
            *(raw(16), *loops(16), *pool(16), *reactors(1, 16), *reactors(1, 256), *reactors(2, 64)),
            *(window(16), store(16), store(64, 2), awscrt(16)),
        ),
        stride=12 * KIB,
    ),
    Case(
        *("64k", PLAIN, 8090, "small", "many", 4_000 * 64 * KIB, 64 * KIB),
        (raw(16), *loops(16), *pool(16), *reactors(1, 16), *reactors(1, 256), window(16), store(16), awscrt(16)),
    ),
    Case(
        *("4k-5ms", "plain HTTP, 5 ms to the first byte", 8092, "small", "many", 10_000 * 4 * KIB, 4 * KIB),
        (raw(256), *loops(256), *pool(64), *reactors(1, 256), window(256), store(256, 2)),
        stride=12 * KIB,
    ),
    Case(
        *("mix", f"plain HTTP, {STORE}", 8091, "large", "mix", 384 * MIB, 4 * MIB),
        (raw(64), *loops(64), *pool(64), *reactors(1, 64), *reactors(1, 256), store(64, 2), awscrt(64), boto3(64)),
    ),
    Case(
        *("cold", f"plain HTTP, {STORE}", 8091, "large", "one", 256 * MIB, MIB),
        (raw(256), *loops(256), *pool(64), *reactors(1, 256), store(256, 2), awscrt(256), boto3(64)),
        cold=True,
    ),
    Case(
        *("cold-tls", f"TLS, {STORE}", 8444, "large", "one", 128 * MIB, MIB),
        (raw(128), *loops(128), *pool(64), *reactors(1, 128), store(128, 2), awscrt(128)),
        cold=True,
    ),
    Case(
        *("latency", PLAIN, 8090, "latency", "many", 2_000, 1),
        (
            single("easy"),
            *(single("raskio", backend, submit) for backend in (MULTI, EASY) for submit in ("one", "sync")),
            *(single("kvikio", backend) for backend in (MULTI, EASY)),
            *(single(kind) for kind in ("object_store", "awscrt", "boto3")),
        ),
        stride=4096,
    ),
)

# Held open after a read of their own, without work.
IDLE = tuple(Client(kind, 1, 16, MULTI) for kind in ("raskio", "kvikio")) + (Client("raskio", 16, 0, EASY),)

_H200_BACKENDS = (*pool(16), *pool(64), *reactors(1, 64), *reactors(4, 256), *reactors(8, 256))

H200_MACHINE = (
    Case(
        *("large", PLAIN, 8090, "large", "one", 4096 * MIB, 4 * MIB),
        (raw(16), raw(64, 4), raw(128, 8), *loops(64), *_H200_BACKENDS, store(256, 8)),
    ),
    Case(
        *("store", "plain HTTP, 64 MB/s a connection", 8091, "large", "one", 4096 * MIB, 4 * MIB),
        (raw(256, 8), *loops(256), *_H200_BACKENDS, store(256, 8)),
    ),
    Case(
        *("device", PLAIN, 8090, "large", "one", 4096 * MIB, 4 * MIB),
        _H200_BACKENDS,
        device=True,
    ),
)

# Ranges of one object by one call, as a reader of columns or chunks has them.
BATCH_READS, BATCH_SPREAD = 20_000, 1024 * MIB
GAPS = (0, 4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB)


def batch(width, gap="never"):
    return Client("raskio", 1, width, MULTI, "batch", "adaptive", gap)


def gap_case(kind, server, port, gap, width):
    """Reads of 4 KiB that lie `gap` bytes apart: each by a request of its own, and all of them merged."""
    count = min(4_000, BATCH_SPREAD // (gap + 4 * KIB))
    return Case(
        *(f"{kind}-gap-{gap // KIB}k", server, port, "small", "many", count * 4 * KIB, 4 * KIB),
        (batch(width), batch(width, str(max(gap, 1)))),
        stride=gap + 4 * KIB,
    )


BATCHES = (
    Case(
        *("batch", PLAIN, 8090, "small", "many", BATCH_READS * 4 * KIB, 4 * KIB),
        (
            *(client for width in (16, 64) for client in (*loops(width), *reactors(1, width)[:2], batch(width))),
            *(batch(16, "default"), batch(16, str(64 * KIB))),
        ),
        stride=BATCH_SPREAD // BATCH_READS,
    ),
    *(gap_case("plain", PLAIN, 8090, gap, 16) for gap in GAPS),
    *(gap_case("store", f"plain HTTP, {STORE}", 8091, gap, 64) for gap in GAPS),
)

# Name: nginx's configuration, cases.
PROFILES = {
    "batch": ("nginx_bench.conf", BATCHES),
    "small": ("nginx_bench.conf", SMALL_MACHINE),
    "h200": ("nginx_h200.conf", H200_MACHINE),
}
