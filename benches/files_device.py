#!/usr/bin/env python3
"""Files into GPU memory and out of it: RaskIO beside KvikIO's CuFile in compatibility mode, and beside copies of pinned memory.

    benches/files_device.py --bin build/gpu/bin --kvikio PYTHON    # as scripts/gpu.sh runs it, part `files`

4 KiB and 1 MiB blocks, 32 in flight, in order, past the system's cache (O_DIRECT) and from it; writes of 1 MiB. In interleaved rounds,
as many as fit into --limit seconds, at most --rounds. --bin has the programs raskio_files and cuda_driver. The file is made in --folder
($RASKIO_BENCH_DIR, or build/) and removed. One line of JSON a figure on stdout, words on stderr; the exit status is 1 if RaskIO or the
copies could not be measured.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / "benches" / "peers" / "kvikio_files.py"
KIB, MIB = 1 << 10, 1 << 20
DEPTH = 32
# Block, past the cache or not, way. Writes come last: they leave other bytes behind.
CASES = [
    (4 * KIB, "direct", "read"),
    (MIB, "direct", "read"),
    (4 * KIB, "cached", "read"),
    (MIB, "cached", "read"),
    (MIB, "direct", "write"),
    (MIB, "cached", "write"),
]
# Copies of one round: a few tenths of a second on an H200.
COPIES = {4 * KIB: 60_000, MIB: 8_000}


def say(*words):
    print(*words, file=sys.stderr, flush=True)


class Clients:
    """What is measured. Each takes a case and gives numbers, or None if it failed."""

    def __init__(self, arguments, path):
        self.arguments, self.path = arguments, path
        self.failed = set()

    def run(self, name, command, **environment):
        try:
            done = subprocess.run(
                [str(word) for word in command], capture_output=True, text=True, timeout=20, env=os.environ | environment
            )
            if done.returncode == 0:
                return json.loads(done.stdout.splitlines()[-1])
            why = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        except subprocess.TimeoutExpired:
            why = "it took more than 20 s"
        say(f"files: {name}: {why}")
        self.failed.add(name)
        return None

    def raskio(self, block, how, way, by="reads"):
        by = "writes" if way == "write" else by
        words = [self.path, block, DEPTH, self.arguments.seconds, how, "sequential", by, "auto"]
        name = "RaskIO, by batches" if by == "batches" else "RaskIO"
        return self.run(name, [self.arguments.bin / "raskio_files", *words], RASKIO_FILES_DEVICE="1")

    def kvikio(self, block, how, way):
        words = [self.path, block, DEPTH, self.arguments.seconds, how, "device", way]
        return self.run("KvikIO", [self.arguments.kvikio, PEER, *words])

    def copies(self, block, _, way):
        total = max(1, int(COPIES[block] * self.arguments.scale)) * block
        words = ["recycle", "event", block, DEPTH, total, *(["back"] if way == "write" else [])]
        line = self.run("pinned copies", [self.arguments.bin / "cuda_driver", *words])
        if line is None:
            return None
        iops = 1e6 / line["us_per_copy"]
        wall = total / (iops * block)
        return {"iops": iops, "bytes_per_s": iops * block, "cpu_s": line["cpu_us_per_copy"] * total / block / 1e6, "wall_s": wall}

    def all(self, block, way):
        clients = {"RaskIO": self.raskio, "pinned copies": self.copies}
        if block < MIB and way == "read":
            clients["RaskIO, by batches"] = lambda *case: self.raskio(*case, by="batches")
        if self.arguments.kvikio:
            clients["KvikIO"] = self.kvikio
        return {name: client for name, client in clients.items() if name not in self.failed}


def warm(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(8 * MIB):
            pass


def measure(clients, arguments, end):
    """The numbers of each client by case and round; None where a client has none."""
    seen = {case: [] for case in CASES}
    longest = 0
    for number in range(arguments.rounds):
        began = time.monotonic()
        if number and began + longest > end:
            break
        for case in CASES:
            if case[1] == "cached":
                warm(clients.path)
            one = clients.all(case[0], case[2])
            seen[case].append({name: one[name](*case) for name in random.sample(sorted(one), len(one))})
        longest = max(longest, time.monotonic() - began)
    return seen


def lines(seen):
    """One line a client and case: medians, and ratios taken round by round."""
    for (block, how, way), rounds in seen.items():
        for name in dict.fromkeys(name for one in rounds for name in one):
            mine = [(one, one[name]) for one in rounds if one.get(name)]
            if not mine:
                continue

            def beside(other, figure, mine=mine):
                pairs = [figure(of) / figure(one[other]) for one, of in mine if one.get(other)]
                return round(statistics.median(pairs), 3) if pairs else None

            def middle(figure, mine=mine):
                return statistics.median(figure(of) for _, of in mine)

            cost = lambda one: one["cpu_s"] / (one["iops"] * one["wall_s"])  # noqa: E731
            speed = lambda one: one["iops"]  # noqa: E731
            yield {
                "what": "files",
                "client": name,
                "block": block,
                "how": how,
                "way": way,
                "rounds": len(mine),
                "iops": round(middle(speed)),
                "gb_per_s": round(middle(lambda one: one["bytes_per_s"]) / 1e9, 3),
                "cpu_us": round(middle(cost) * 1e6, 2),
                "past_the_cache": middle(lambda one: one.get("direct", -1)) if name.startswith("RaskIO") else None,
                "by_uring": middle(lambda one: one.get("uring", -1)) if name.startswith("RaskIO") else None,
                "of_kvikio": beside("KvikIO", speed) if name.startswith("RaskIO") else None,
                "cpu_of_kvikio": beside("KvikIO", cost) if name.startswith("RaskIO") else None,
                "of_copies": None if name == "pinned copies" else beside("pinned copies", speed),
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "gpu" / "bin")
    parser.add_argument("--kvikio", help="a Python with KvikIO 26.10 and CuPy")
    parser.add_argument("--folder", type=pathlib.Path, default=os.environ.get("RASKIO_BENCH_DIR", ROOT / "build"))
    parser.add_argument("--size", type=int, default=1024, help="MiB of the file")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=50, help="seconds for all rounds together")
    parser.add_argument("--scale", type=float, default=1, help="how many of the copies, for a slow driver")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.limit
    path = pathlib.Path(arguments.folder) / f"files-device-{os.getpid()}.bin"
    try:
        with open(path, "wb") as file:
            for _ in range(arguments.size):
                file.write(os.urandom(MIB))
            os.fsync(file.fileno())
        clients = Clients(arguments, path)
        for line in lines(measure(clients, arguments, end)):
            print(json.dumps(line))
    finally:
        path.unlink(missing_ok=True)
    sys.exit(bool(clients.failed - {"KvikIO"}))


if __name__ == "__main__":
    main()
