"""What the KvikIO clients share: clocks and the JSON line that benches/run.py reads."""

import json
import resource
import time
import zlib


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


def report(watch, requests, destination):
    """One repetition; `destination` is a host array of bytes."""
    import kvikio

    line = {
        "client": "kvikio",
        "version": kvikio.__version__,
        "bytes": destination.nbytes,
        "requests": requests,
        "seconds": round(watch.seconds, 6),
        "cpu_seconds": round(watch.cpu_seconds, 6),
        "adler32": zlib.adler32(memoryview(destination)),
    }
    print(json.dumps(line), flush=True)
