#!/usr/bin/env python3
"""Runs RaskIO beside a raw receive loop, a bare libcurl loop and KvikIO, in one go, and compares.

Starts nginx on loopback with a file of random bytes in memory, builds the clients, runs them in interleaved rounds
(each round runs every client of every case once, in an order of its own), checks what each one read, and writes
OUTPUT.json (every sample), OUTPUT.md (medians, spread, ratios) and, where matplotlib is there, OUTPUT.svg.
"""

import argparse
import datetime
import json
import os
import platform
import random
import signal
import subprocess
import sys
import zlib
from pathlib import Path

from harness import Unavailable, clients, matrix, report, servers

KINDS = ("raw", "curl", "kvikio", "raskio")
RUN_LIMIT_S = 300


def main():
    # As an exception, so that the server ends and its folder goes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse_options()
    config, cases = matrix.PROFILES[options.profile]
    cases = [case.scaled(options.scale) for case in cases if not options.cases or case.name in options.cases]
    built = clients.ROOT / "build" / "bench" / "programs"
    programs = clients.Programs(built, options.clients, options.prefix, options.kvikio_python)
    for kind, reason in programs.missing.items():
        print(f"without {kind}: {reason}", file=sys.stderr)
    if "raskio" in programs.missing:
        return 1
    try:
        with servers.nginx(config, max(case.object_bytes for case in cases), options.nginx) as server:
            result = measure(options, cases, programs, server)
    except Unavailable as reason:
        print(f"no server: {reason}", file=sys.stderr)
        return 1
    write(result, options.output)
    failed = any(case["failures"] for case in result["cases"])
    return 1 if failed else 0


def comma_list(text):
    return text.split(",")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--profile", choices=matrix.PROFILES, default="small", help="what fits the machine (default: small)")
    add("--cases", type=comma_list, help="only these, separated by commas")
    add("--clients", type=comma_list, default=KINDS, help=f"only these of {','.join(KINDS)}")
    add("--rounds", type=int, default=5, help="default: 5")
    add(
        "--reps",
        type=int,
        default=2,
        help="repetitions of a run; of several, the first warms up and does not count (default: 2)",
    )
    add("--scale", type=float, default=1.0, help="read this many times as much (0.05: a short look)")
    add("--prefix", type=Path, help="an installed RaskIO (default: include/ and target/release/ of this tree)")
    add("--kvikio-python", type=Path, help="an interpreter that has kvikio (default: one is made from KvikIO's wheels)")
    add("--nginx", default="nginx", help="nginx's program")
    add(
        "--output",
        type=Path,
        default=clients.ROOT / "build" / "bench" / "result",
        help="where the results go, without suffix",
    )
    options = parser.parse_args()
    known = [case.name for case in matrix.PROFILES[options.profile][1]]
    for wanted, allowed, name in ((options.cases or [], known, "case"), (options.clients, KINDS, "client")):
        for word in wanted:
            if word not in allowed:
                parser.error(f"unknown {name} {word!r}; there is {', '.join(allowed)}")
    if options.rounds < 1 or options.reps < 1 or options.scale <= 0:
        parser.error("--rounds, --reps and --scale must be positive")
    return options


def measure(options, cases, programs, server):
    expected = {case.name: checksum(server.data, case) for case in cases}
    samples = {case.name: [] for case in cases}
    failures = {case.name: [] for case in cases}
    for number in range(1, options.rounds + 1):
        for case in cases:
            order = [
                client
                for client in case.clients
                if client.kind in options.clients and client.kind not in programs.missing
            ]
            random.Random(number).shuffle(order)
            for client in order:
                about = {"label": client.label, "kind": client.kind, "round": number, "load": os.getloadavg()[0]}
                try:
                    command, environment = programs.command(
                        client, case, server.url(case.port), options.reps, server.certificate
                    )
                    for line in run(command, environment, expected[case.name]):
                        samples[case.name].append(about | line)
                except RunFailed as failure:
                    failures[case.name].append(about | {"reason": str(failure)})
                    print(f"round {number} {case.name:10} {client.label:48} failed: {failure}", file=sys.stderr)
                    continue
                print(
                    f"round {number} {case.name:10} {client.label:48} {brief(samples[case.name][-1], case.mode)}",
                    file=sys.stderr,
                )
    position = {(case.name, client.label): i for case in cases for i, client in enumerate(case.clients)}
    for case in cases:
        samples[case.name].sort(key=lambda sample: (position[case.name, sample["label"]], sample["round"]))
    return {
        "machine": machine(server),
        "settings": {
            "profile": options.profile,
            "rounds": options.rounds,
            "reps": options.reps,
            "scale": options.scale,
        },
        "missing": programs.missing,
        "cases": [
            {
                "name": case.name,
                "title": case.title,
                "mode": case.mode,
                "total": case.total,
                "request": case.request,
                "stride": case.stride,
                "rows": report.summarise(samples[case.name], case.mode),
                "failures": failures[case.name],
                "samples": samples[case.name],
            }
            for case in cases
        ],
    }


def brief(sample, mode):
    return ", ".join(
        f"{report.number(value)} {unit}"
        for value, unit in zip(report.figures(sample, mode), report.UNITS[mode], strict=True)
    )


class RunFailed(Exception):
    """A client did not do what it was asked."""


def run(command, environment, expected):
    """One process; its repetitions, without the one that warms up."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=RUN_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"not done within {RUN_LIMIT_S} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RunFailed(f"exit status {done.returncode}: {last}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RunFailed("printed no result")
    for line in lines:
        if line["adler32"] != expected:
            raise RunFailed("read the wrong bytes")
    return lines[1:] or lines


def checksum(path, case):
    """Of what a client of this case must read, in the order of its requests."""
    value = 1
    with open(path, "rb") as file:
        for i in range(case.total // case.request):
            file.seek(i * case.stride)
            value = zlib.adler32(file.read(case.request), value)
    return value


def machine(server):
    with open("/proc/cpuinfo") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "nginx": server.version,
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
    }


def commit():
    """What is measured. A machine without git may have been sent a bundle that says so (scripts/gpu.sh)."""
    try:
        found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=clients.ROOT)
        text = found.stdout.strip()
    except FileNotFoundError:
        text = ""
    bundled = clients.ROOT / "build" / "gpu" / "commit"
    return text or (bundled.read_text().strip() if bundled.exists() else "unknown")


def write(result, output):
    output.parent.mkdir(parents=True, exist_ok=True)
    paths = [output.with_name(output.name + suffix) for suffix in (".json", ".md", ".svg")]
    paths[0].write_text(json.dumps(result, indent=1) + "\n")
    paths[1].write_text(report.markdown(result))
    if not report.plot(result, paths[2]):
        paths.pop()
    print(paths[1].read_text())
    print("written:", *paths)


if __name__ == "__main__":
    sys.exit(main())
