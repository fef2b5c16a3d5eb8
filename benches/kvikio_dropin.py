"""The same Python program with and without the drop-in for KvikIO, in one run: `benches/kvikio_dropin.py`.

Three cases, interleaved in rounds, each client a fresh process that reads everything twice, the second time counting:

    store   1 GiB in requests of 4 MiB from a server that answers after 25 ms with 64 MB/s a connection; both with a budget of 256
    small   reads of 4 KiB, all handed over at once, from a fast server; also with a drop-in that does nothing, which shows
            what Python and KvikIO's binding cost alone
    backlog 256 requests of 1 KiB at once to Python's http.server, whose listen backlog is 5
    device  4 GiB into GPU memory from several nginx workers, one reactor and eight; asked for only (`make gpu` does), needs CuPy

Needs the environments of `make test-kvikio` (build/kvikio) and the wheel (build/wheels), nginx with lua, and a C++ compiler.
"""

import argparse
import contextlib
import http.server
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

from harness import plans
from harness.servers import nginx

MIB = 1 << 20
CLIENTS = {True: HERE / "peers" / "kvikio_device.py", False: HERE / "peers" / "kvikio_read.py"}


class Program:
    """A way to run the client."""

    def __init__(self, name, arguments=(), checked=True, **environment):
        self.name, self.arguments, self.checked, self.environment = name, arguments, checked, environment

    def run(self, python, job, environment, limit, device=False):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KVIKIO_", "RASKIO_", "AWS_"))}
        begin = time.monotonic()
        try:
            done = subprocess.run(
                [python, *self.arguments, CLIENTS[device], *map(str, job), "all"], env=kept | environment | self.environment,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"gave_up_after": time.monotonic() - begin}
        if done.returncode:
            raise SystemExit(f"{self.name}: {done.stderr.strip()}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")][-1]


def make_nothing(folder):
    """A library that stands before KvikIO as the drop-in does, and calls every read done."""
    library = Path(folder) / "nothing.so"
    source = HERE / "peers" / "kvikio_nothing.cpp"
    subprocess.run(["c++", "-O2", "-shared", "-fPIC", "-std=c++17", source, "-o", library], check=True)
    return str(library)


def wait_for_quiet(seconds):
    """Until nothing else runs here, as good as; but no longer than that."""

    def busy():
        with open("/proc/stat") as file:
            fields = list(map(int, file.readline().split()[1:]))
        return sum(fields) - fields[3] - fields[4], sum(fields)

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        worked, passed = busy()
        time.sleep(0.5)
        worked_then, passed_then = busy()
        if worked_then - worked < 0.15 * (passed_then - passed):
            return


def measured(case, programs, python, job, environment, rounds, checksum, patience, limit=120, device=False):
    samples = {program.name: [] for program in programs}
    for number in range(rounds):
        # Each round begins with another one.
        for program in programs[number % len(programs) :] + programs[: number % len(programs)]:
            wait_for_quiet(patience)
            sample = program.run(python, job, environment, limit, device)
            if program.checked and "adler32" in sample and sample["adler32"] != checksum:
                raise SystemExit(f"{case}, {program.name}: read the wrong bytes")
            samples[program.name].append(sample)
            print(f"round {number + 1} {case:8} {program.name:32} {brief(sample)}", file=sys.stderr, flush=True)
    return samples


def brief(sample):
    if "gave_up_after" in sample:
        return f"gave up after {sample['gave_up_after']:.0f} s"
    return (
        f"{sample['bytes'] / sample['seconds'] / 1e9:.2f} GB/s, {sample['requests'] / sample['seconds']:,.0f} requests/s, "
        f"{sample['cpu_seconds'] / sample['bytes'] * (1 << 30):.2f} CPU-s/GiB, "
        f"{sample['cpu_seconds'] / sample['requests'] * 1e6:.1f} CPU-us/request"
    )


def median(samples, of):
    return statistics.median(map(of, samples))


def ratio(one, other, of):
    """The median over the rounds of what they are to each other within a round: a machine has slow minutes."""
    return statistics.median(of(a) / of(b) for a, b in zip(one, other))


def rate(sample):
    return sample["bytes"] / sample["seconds"]


def requests_rate(sample):
    return sample["requests"] / sample["seconds"]


def cpu(sample):
    return sample["cpu_seconds"] / sample["bytes"] * (1 << 30)


@contextlib.contextmanager
def http_server(folder):
    """Python's own, as `python -m http.server` runs it: a thread a connection, and a backlog of 5."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            # http.server knows no ranges.
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            with open(self.translate_path(self.path), "rb") as file:
                file.seek(first)
                body = file.read(last - first + 1)
                size = os.fstat(file.fileno()).st_size
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{size}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Handler(*a, directory=str(folder)))
    server.daemon_threads = True
    assert server.request_queue_size == 5
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def device_cases(options, native, dropin, folder):
    """As the figures of device reads are wanted: one reactor with 64 requests in flight, eight with 256."""
    plan, results = plans.one(options.device * MIB), {}
    file = Path(folder) / "device.plan"
    file.write_text(plans.text(plan))
    with nginx("nginx_h200.conf", plans.files([plan]), options.nginx) as server:
        port = next(iter(server._ports))
        for name, reactors, budget in (("device, 1 reactor", 1, 64), ("device, 8 reactors", 8, 256)):
            environment = environment_of(4 * MIB, budget, os.environ.get("LD_LIBRARY_PATH", ""))
            environment["KVIKIO_REMOTE_IO_NUM_REACTORS"] = str(reactors)
            results[name] = measured(
                name, [native, dropin], options.python, (server.base(port), file, 4 * MIB, 2), environment,
                options.rounds, plans.checksum(plan, server.root), options.wait, device=True,
            )  # fmt: skip
    return results


def environment_of(request, budget, stub):
    return {
        "KVIKIO_TASK_SIZE": str(request),
        "KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS": str(budget),
        "LD_LIBRARY_PATH": stub,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", type=int, default=1024, help="MiB of the case store")
    parser.add_argument("--small", type=int, default=40_000, help="reads of the case small")
    parser.add_argument("--patience", type=int, default=30, help="seconds until KvikIO is given up in the case backlog")
    parser.add_argument("--wait", type=float, default=0, help="seconds to wait for a quiet machine, before each client")
    parser.add_argument("--cases", default="store,small,backlog")
    parser.add_argument("--device", type=int, default=4096, help="MiB of the case device")
    parser.add_argument("--python", default=ROOT / "build" / "kvikio" / "26.10.0" / "bin" / "python")
    parser.add_argument("--nginx", default="nginx")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if not Path(options.python).exists():
        sys.exit(f"{options.python} is missing: `make test-kvikio` makes it, or --python names a Python that has KvikIO and raskio_kvikio")
    python, stub = options.python, str(ROOT / "build" / "kvikio" / "stub")
    native = Program("KvikIO MULTI_POLL", KVIKIO_REMOTE_IO_BACKEND="MULTI_POLL")
    dropin = Program("KvikIO through RaskIO", ("-m", "raskio_kvikio"))
    fixed = Program("the same, all of the budget", ("-m", "raskio_kvikio"), RASKIO_CONCURRENCY="FIXED")
    results, cases = {}, options.cases.split(",")
    with tempfile.TemporaryDirectory() as folder:
        nothing = Program("a drop-in that does nothing", checked=False)
        if "small" in cases:
            nothing.environment["LD_PRELOAD"] = make_nothing(folder)
        if "device" in cases:
            results |= device_cases(options, native, dropin, folder)
        store, small = plans.one(options.store * MIB), plans.many(options.small, 4096, 3 * 4096)
        with contextlib.ExitStack() as stack:
            if {"store", "small", "plain"} & set(cases):
                server = stack.enter_context(nginx("nginx_bench.conf", plans.files([store, small]), options.nginx))
            for case, plan, port, request, programs in (
                ("store", store, 8091, 4 * MIB, [native, dropin, fixed]),
                ("small", small, 8090, 4096, [native, nothing, dropin, fixed]),
                ("plain", store, 8090, 4 * MIB, [native, dropin, fixed]),
            ):
                if case not in cases:
                    continue
                file = Path(folder) / f"{case}.plan"
                file.write_text(plans.text(plan))
                results[case] = measured(
                    case, programs, python, (server.base(port), file, request, 2), environment_of(request, 256, stub),
                    options.rounds, plans.checksum(plan, server.root), options.wait,
                )  # fmt: skip
        if "backlog" in cases:
            www = Path(folder) / "www"
            (www / "bench").mkdir(parents=True)
            (www / "bench" / "data").write_bytes(os.urandom(256 << 10))
            plan = plans.one(256 << 10)
            file = Path(folder) / "backlog.plan"
            file.write_text(plans.text(plan))
            # A server of its own for each: what one has left half done does not hold up the other.
            results["backlog"] = {}
            for program in (dropin, native):
                with http_server(www) as base:
                    results["backlog"] |= measured(
                        "backlog", [program], python, (base, file, 1024, 1), environment_of(1024, 256, stub), 1,
                        plans.checksum(plan, www), options.wait, options.patience,
                    )  # fmt: skip
    text = report(results, native, dropin, nothing)
    print(text)
    if options.output:
        options.output.with_suffix(".md").write_text(text)
        about = {"machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}",
                 "load": os.getloadavg(), "results": results}  # fmt: skip
        options.output.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")


def report(results, native, dropin, nothing):
    lines = ["# The drop-in for KvikIO: the same program with and without it", ""]
    verdict = lambda good: "met" if good else "missed"  # noqa: E731
    targets = ["| target | measured | |", "|---|---|---|"]
    if "store" in results:
        one, other = (results["store"][program.name] for program in (dropin, native))
        speed, work = ratio(one, other, rate), ratio(one, other, cpu)
        targets.append(f"| 25 ms, 64 MB/s a connection: at least 1.8 x the throughput of MULTI_POLL | {speed:.2f} x | {verdict(speed >= 1.8)} |")
        targets.append(f"| the same at no more than half its CPU a GiB | {work:.2f} x | {verdict(work <= 0.5)} |")
    for name, least, most in (("device, 1 reactor", 1.4, 0.75), ("device, 8 reactors", 1.6, 0.65)):
        if name in results:
            one, other = (results[name][program.name] for program in (dropin, native))
            speed, work = ratio(one, other, rate), ratio(one, other, cpu)
            targets.append(f"| {name}: at least {least} x MULTI_POLL | {speed:.2f} x | {verdict(speed >= least)} |")
            targets.append(f"| the same at no more than {most} of its CPU a GiB | {work:.2f} x | {verdict(work <= most)} |")
    if "small" in results:
        one, other, most = (results["small"][program.name] for program in (dropin, native, nothing))
        speed, share = ratio(one, other, requests_rate), ratio(one, most, requests_rate)
        good = speed >= 1.4 or share >= 0.9
        targets.append(
            f"| reads of 4 KiB: 1.4 x the rate of MULTI_POLL, or 0.9 of what a drop-in that does nothing reaches | "
            f"{speed:.2f} x, {share:.2f} | {verdict(good)} |"
        )
    if "backlog" in results:
        (one,), (other,) = (results["backlog"][program.name] for program in (dropin, native))
        took = f"{other['seconds']:.1f} s" if "seconds" in other else f"given up after {other['gave_up_after']:.0f} s"
        seconds = one.get("seconds", 1e9)
        targets.append(f"| 256 requests of 1 KiB to Python's http.server in seconds | {seconds:.1f} s (MULTI_POLL: {took}) | {verdict(seconds < 10)} |")
    lines += [*targets, ""]
    for case, samples in results.items():
        lines += [f"## {case}", "", "| | GB/s | requests/s | CPU-s a GiB | CPU-us a request |", "|---|---|---|---|---|"]
        for name, runs in samples.items():
            runs = [run for run in runs if "seconds" in run]
            if not runs:
                lines.append(f"| {name} | given up | | | |")
                continue
            per_request = median(runs, lambda run: run["cpu_seconds"] / run["requests"] * 1e6)
            lines.append(
                f"| {name} | {median(runs, rate) / 1e9:.2f} | {median(runs, requests_rate):,.0f} | {median(runs, cpu):.2f} | {per_request:.1f} |"
            )
        lines.append("")
    lines.append("A target's figure is the median of the ratios within each round. "
                 f"Medians of {max(len(runs) for samples in results.values() for runs in samples.values())} rounds, KvikIO 26.10. "
                 "How: benches/kvikio_dropin.py.")  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
