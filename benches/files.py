#!/usr/bin/env python3
"""RaskIO's local files beside fio's io_uring engine, KvikIO's CuFile in compatibility mode, and memcpy.

    benches/files.py                       # 2 minutes: a file of 1 GiB under build/, 4 KiB and 1 MiB blocks, 32 in flight
    benches/files.py --file /data/x --seconds 5 --rounds 5 --output benches/results/NAME.md
    benches/files.py --kvikio PYTHON       # a Python with KvikIO in it, to be beside

All in one run, in interleaved rounds, each of an order of its own. Past the system's cache (O_DIRECT), but for the last table, whose bytes
are in the cache. fio reads into ordinary pages, and KvikIO into huge ones, as NumPy asks for: a device moves what lies together in
memory in fewer pieces, so RaskIO is beside each with the same memory. Needs fio, a C compiler, and a release build of the library.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
KIB, MIB = 1 << 10, 1 << 20
MEMCPY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
static double at(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return (double)t.tv_sec + (double)t.tv_nsec / 1e9; }
int main(int argc, char **argv) {
    size_t block = strtoull(argv[1], NULL, 10), size = 1u << 30, moved = 0;
    double seconds = argc > 2 ? atof(argv[2]) : 1, began;
    unsigned char *from = malloc(size), *to = malloc(32 * block);
    memset(from, 1, size);
    memset(to, 2, 32 * block);
    began = at(CLOCK_MONOTONIC);
    double cpu = at(CLOCK_PROCESS_CPUTIME_ID);
    unsigned sum = 0;
    for (size_t i = 0; at(CLOCK_MONOTONIC) - began < seconds; i++) {
        memcpy(to + i % 32 * block, from + i * block % size, block);
        sum += to[i % 32 * block];
        moved += block;
    }
    double took = at(CLOCK_MONOTONIC) - began;
    printf("{\"iops\": %.0f, \"bytes_per_s\": %.0f, \"cpu_s\": %.3f, \"wall_s\": %.3f, \"sum\": %u}\n", (double)moved / (double)block / took,
           (double)moved / took, at(CLOCK_PROCESS_CPUTIME_ID) - cpu, took, sum);
    return 0;
}
"""


def run(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed ({done.returncode}): {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class Clients:
    """What is measured: each takes a block size, a depth, whether past the cache, and gives numbers."""

    def __init__(self, arguments, folder):
        self.path, self.seconds, self.folder = arguments.file, arguments.seconds, folder
        library = ROOT / "target" / "release"
        if not (library / "libraskio.so").exists():
            sys.exit("target/release/libraskio.so is missing: scripts/cargo.sh build --release")
        (folder / "libraskio.so.0").symlink_to(library / "libraskio.so")
        flags = ["-O2", "-std=c11", "-D_GNU_SOURCE", f"-I{ROOT / 'include'}"]
        link = [library / "libraskio.so", "-lpthread", "-ldl"]
        run(["cc", *flags, ROOT / "benches" / "raskio_files.c", "-o", folder / "raskio_files", *link])
        (folder / "memcpy.c").write_text(MEMCPY)
        run(["cc", *flags, folder / "memcpy.c", "-o", folder / "memcpy"])
        self.environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
        self.kvikio = arguments.kvikio
        if self.kvikio:
            (folder / "stub").mkdir()
            run(["cc", "-shared", "-fPIC", ROOT / "benches" / "peers" / "cuda_stub.c", "-o", folder / "stub" / "libcuda.so.1"])

    def fio(self, block, depth, how):
        out = run(
            ["fio", "--name=x", f"--filename={self.path}", "--ioengine=io_uring", f"--direct={int(how == 'direct')}", "--rw=randread",
             f"--bs={block}", f"--iodepth={depth}", f"--runtime={self.seconds}", "--time_based", "--readonly", "--thread",
             "--invalidate=0", "--output-format=json"])  # fmt: skip
        job = json.loads(out[out.index("{") :])["jobs"][0]
        wall = job["read"]["runtime"] / 1000
        cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * wall
        return {"iops": job["read"]["iops"], "bytes_per_s": job["read"]["bw_bytes"], "cpu_s": cpu, "wall_s": wall}

    def raskio(self, block, depth, how, by="reads", backend="uring", order="random", huge=False):
        words = [self.folder / "raskio_files", self.path, block, depth, self.seconds, how, order, by, backend]
        return json.loads(run(words, env=self.environment | ({"RASKIO_FILES_HUGE": "1"} if huge else {})))

    def kvikio_read(self, block, depth, how):
        environment = os.environ | {"LD_LIBRARY_PATH": str(self.folder / "stub")}
        peer = ROOT / "benches" / "peers" / "kvikio_files.py"
        return json.loads(run([self.kvikio, peer, self.path, block, depth, self.seconds, how], env=environment))

    def memcpy(self, block, *_):
        return json.loads(run([self.folder / "memcpy", block, self.seconds]))

    def all(self, how):
        names = {
            "fio, io_uring": self.fio,
            "RaskIO, io_uring": self.raskio,
            "RaskIO, io_uring, by batches": lambda *a: self.raskio(*a, by="batches"),
            "RaskIO, pread": lambda *a: self.raskio(*a, backend="pread"),
        }
        if self.kvikio:
            names["KvikIO, in order, huge pages"] = self.kvikio_read
            names["RaskIO, io_uring, in order, huge pages"] = lambda *a: self.raskio(*a, order="sequential", huge=True)
        if how == "cached":
            names["memcpy, one thread"] = self.memcpy
        return names


def table(clients, block, depth, how, rounds):
    clients = clients.all(how)
    seen = {name: [] for name in clients}
    for _ in range(rounds):
        for name in random.sample(sorted(clients), len(clients)):
            seen[name].append(clients[name](block, depth, how))
    size = f"{block // MIB} MiB" if block >= MIB else f"{block // KIB} KiB"
    where = "past the cache" if how == "direct" else "from the cache"
    lines = [f"\n{size}, {depth} in flight, {where}; medians of {rounds} rounds\n"]
    lines += ["| client | reads/s | MB/s | CPU-µs a read | CPU-s a GiB | beside fio, by round |", "|---|---|---|---|---|---|"]
    middle = {}
    for name, all_of in seen.items():
        def median(of):
            return statistics.median(of(one) for one in all_of)
        ratios = sorted(one["iops"] / base["iops"] for one, base in zip(all_of, seen["fio, io_uring"]))
        middle[name] = {"iops": median(lambda one: one["iops"]), "ratio": statistics.median(ratios)}
        lines.append(
            f"| {name} | {middle[name]['iops']:,.0f} | {median(lambda one: one['bytes_per_s']) / 1e6:,.0f} "
            f"| {median(lambda one: one['cpu_s'] / (one['iops'] * one['wall_s'])) * 1e6:,.1f} "
            f"| {median(lambda one: one['cpu_s'] / (one['bytes_per_s'] * one['wall_s'])) * 2**30:,.3f} "
            f"| {middle[name]['ratio']:.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f}) |"
        )
    return lines, middle, seen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", help="what is read; made if it is missing")
    parser.add_argument("--size", type=int, default=1024, help="MiB of it, if it is made")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kvikio", help="a Python with KvikIO 26.10")
    parser.add_argument("--output", help="a file for the tables; beside it the numbers of each round, as JSON")
    arguments = parser.parse_args()
    if not shutil.which("fio"):
        sys.exit("fio is missing (Debian: apt-get install fio)")
    if arguments.file is None:
        (ROOT / "build").mkdir(exist_ok=True)
        arguments.file = str(ROOT / "build" / "files.bin")
    if not os.path.exists(arguments.file):
        with open(arguments.file, "wb") as file:
            for _ in range(arguments.size):
                file.write(os.urandom(MIB))
            os.fsync(file.fileno())
    version = run(["fio", "--version"]).strip()
    lines = [f"{os.cpu_count()} CPUs, Linux {platform.release()}, {version}; load before: {os.getloadavg()[0]:.1f}"]
    raw = {}
    with tempfile.TemporaryDirectory() as folder:
        clients = Clients(arguments, pathlib.Path(folder))
        for block, how in [(4 * KIB, "direct"), (MIB, "direct"), (MIB, "cached")]:
            if how == "cached":
                with open(arguments.file, "rb") as file:
                    while file.read(MIB):
                        pass
            more, middle, seen = table(clients, block, 32, how, arguments.rounds)
            lines += more
            raw[f"{block} {how}"] = seen
            print("\n".join(more), flush=True)
    if arguments.output:
        output = pathlib.Path(arguments.output)
        output.write_text("# Local files\n\n" + "\n".join(lines) + "\n")
        output.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
