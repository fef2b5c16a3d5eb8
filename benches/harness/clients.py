"""The clients that are compared: who, in which configuration, and the command line of one run.

Every client takes BASE PLAN REQUEST REPS and settings of its own, and prints one line of JSON a repetition.
"""

import os
from dataclasses import dataclass
from pathlib import Path

BENCHES = Path(__file__).resolve().parent.parent
ROOT = BENCHES.parent
KINDS = ("raw", "curl", "easy", "kvikio", "raskio", "awscrt", "boto3", "object_store")
CURL_BUFFER = 256 << 10  # as RaskIO's; libcurl's default of 16 KiB costs twice the CPU


@dataclass(frozen=True)
class Client:
    """One program in one configuration. `threads` and `width` mean what its own settings call them."""

    kind: str  # one of KINDS
    threads: int = 1
    width: int = 0  # connections, transfers, or the budget of requests in flight; 0: the default
    backend: str = ""  # kvikio, raskio: the backend; curl: perform or epoll
    submit: str = "all"  # all reads at once, window: `width` of them, batch, one, or sync: one by a call that waits
    concurrency: str = ""  # raskio's MULTI_POLL: adaptive or fixed
    gap: str = ""  # raskio's batch: never, default, or how many bytes may lie between reads that share a request

    @property
    def label(self):
        name = {
            "raw": "raw recv loop",
            "curl": f"libcurl multi, {self.backend}",
            "easy": "libcurl easy handle",
            "kvikio": f"KvikIO {self.backend}",
            "raskio": f"RaskIO {self.backend}",
            "awscrt": "awscrt S3 client",
            "boto3": "boto3 get_object",
            "object_store": "object_store get_range",
        }[self.kind]
        if self.submit in ("one", "sync"):
            if self.kind in ("kvikio", "raskio"):
                return name + (", read_sync" if self.submit == "sync" else ", read")
            return name
        thread = "reactor" if self.backend == "MULTI_POLL" else "thread"
        parts = [name, f"{self.threads} {thread}" + ("s" if self.threads > 1 else "")]
        if self.kind in ("curl", "awscrt", "boto3"):
            parts.pop()  # it has one, or does not let one choose
        if self.backend != "EASY_THREADPOOL":
            parts.append(f"{self.width} in flight")
        if self.concurrency == "fixed":
            parts.append("fixed")
        if self.submit == "window":
            parts.append("submitted as others end")
        if self.submit == "batch":
            parts.append("batch" + {"never": "", "default": ", coalesced"}.get(self.gap, f", coalesced to {self.gap} bytes"))
        return ", ".join(parts)


def command(programs, client, request, base, plan, reps, certificate, device=False):
    """The command and the environment of one run; `programs` is where they were built."""
    job = [base, str(plan), str(request), str(reps)]
    # Settings of the caller's shell must not leak into the comparison. RaskIO's own are all set by options.
    leaks = ("KVIKIO_", "AWS_", "BENCH_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(leaks) and k != "RUST_LOG"}
    environment["CURL_CA_BUNDLE"] = str(certificate)
    environment["AWS_EC2_METADATA_DISABLED"] = "true"
    width, threads = str(client.width), str(client.threads)
    peers = BENCHES / "peers"
    if client.kind == "raw":
        return [programs.path("rawlimit"), *job, width, threads], environment
    if client.kind == "curl":
        return [programs.path("curlmulti"), *job, width, str(CURL_BUFFER), client.backend], environment
    if client.kind == "easy":
        return [programs.path("curleasy"), *job, str(CURL_BUFFER)], environment
    if client.kind == "raskio":
        settings = [client.backend, threads, width, client.concurrency or "adaptive", client.submit]
        settings += ["device" if device else "host", client.gap or "never"]
        return [programs.path("raskio_read"), *job, *settings], environment
    if client.kind == "object_store":
        return [programs.path("object_store"), *job, str(client.width or 1), threads], environment
    if client.kind == "awscrt":
        return [programs.sdk, str(peers / "awscrt_read.py"), *job, str(client.width or 1), client.submit], environment
    if client.kind == "boto3":
        return [programs.sdk, str(peers / "boto3_read.py"), *job, str(client.width or 1)], environment
    environment |= {
        "KVIKIO_REMOTE_IO_BACKEND": client.backend,
        "KVIKIO_TASK_SIZE": str(request),
        "KVIKIO_NTHREADS": threads,
        "KVIKIO_REMOTE_IO_NUM_REACTORS": threads,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [programs.stub, environment.get("LD_LIBRARY_PATH")])),
    }
    if client.width:
        environment["KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS"] = width
    script = "kvikio_device.py" if device else "kvikio_read.py"
    return [programs.kvikio, str(peers / script), *job, client.submit], environment
