"""What the Python clients share: the plan of reads, clocks, and the JSON line that benches/run.py reads.

As bench.h has it for the C clients: see there for what a plan is.
"""

import json
import os
import resource
import sys
import time
import zlib
from collections import namedtuple

Read = namedtuple("Read", "path first length at")  # at: where in the destination


class Job:
    """BASE PLAN REQUEST REPS, the four arguments that every client starts with; `more` holds the others."""

    def __init__(self):
        self.base, plan, request, reps, *self.more = sys.argv[1:]
        self.request, self.reps, self.reads, self.total = int(request), int(reps), [], 0
        with open(plan) as file:
            for line in file:
                path, first, length = line.split()
                self.reads.append(Read(path, int(first), int(length), self.total))
                self.total += int(length)

    def requests(self):
        """The reads, cut into requests."""
        for read in self.reads:
            for done in range(0, read.length, self.request):
                length = min(self.request, read.length - done)
                yield Read(read.path, read.first + done, length, read.at + done)


class HostBytes:
    """A destination in host memory without NumPy: `view` is where reads write."""

    def __init__(self, size):
        self.view = memoryview(bytearray(size))
        self[:] = 1

    def __setitem__(self, everything, value):
        # In blocks: a whole one beside it would count as memory that the client needs.
        block = bytes([value]) * (1 << 20)
        for at in range(0, len(self.view), len(block)):
            part = self.view[at : at + len(block)]
            part[:] = block[: len(part)]


class Stopwatch:
    """Wall and CPU seconds (user and system, every thread) of a `with` block."""

    def __enter__(self):
        self._cpu = self._now_cpu()
        self._wall = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self._wall
        self.cpu_seconds = self._now_cpu() - self._cpu

    @staticmethod
    def _now_cpu():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime


def memory(name):
    """A line of /proc/self/status, in bytes: VmRSS is what is resident now, VmHWM the most that ever was."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name + ":"))


def measure(job, client, version, destination, read_all, host=lambda destination: destination, settle=lambda: None):
    """Runs `read_all()`, which may return latencies in seconds, as often as asked; a line of JSON each time.

    `host` makes host bytes of the destination, for the check sum; `settle` waits until it has been filled.
    """
    resident = memory("VmRSS")
    for _ in range(job.reps):
        destination[:] = 1
        settle()
        with Stopwatch() as watch:
            latencies = read_all()
        peak = memory("VmHWM")
        line = {
            "client": client,
            "version": version,
            "bytes": job.total,
            "requests": sum(1 for _ in job.requests()),
            "seconds": round(watch.seconds, 6),
            "cpu_seconds": round(watch.cpu_seconds, 6),
            "adler32": zlib.adler32(memoryview(host(destination))),
            "peak_memory": max(0, peak - job.total),
            "grown_memory": max(0, peak - resident),
        }
        if latencies:
            ordered = sorted(latencies)
            for percent in (50, 99):
                rank = -(-len(ordered) * percent // 100) - 1  # nearest rank
                line[f"latency_p{percent}_us"] = round(ordered[rank] * 1e6, 1)
        print(json.dumps(line), flush=True)
    if "BENCH_HOLD" in os.environ:
        sys.stdin.read()
