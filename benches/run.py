#!/usr/bin/env python3
"""Runs RaskIO beside a raw receive loop, bare libcurl, KvikIO, S3 clients and the object_store crate, and compares.

Starts nginx on loopback with random bytes in memory, builds the clients, runs them in interleaved rounds (each round
runs every client of every case once, in an order of its own), checks what each one read, and writes OUTPUT.json (every
sample), OUTPUT.md (targets, medians, spread, ratios) and OUTPUT-*.svg.
"""

import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from harness import Unavailable, clients, matrix, measure, plans, programs, report, servers, targets

CASE_KEYS = ("name", "title", "mode", "shape", "cold", "device", "total", "request")


def main():
    # As an exception, so that the server ends and its folder goes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse_options()
    config, cases = matrix.PROFILES[options.profile]
    cases = [case for case in cases if not options.cases or case.name in options.cases]
    cases = [case.scaled(options.scale) for case in cases]
    folder = clients.ROOT / "build" / "bench" / "programs"
    built = programs.Programs(folder, options.clients, options.prefix, options.kvikio_python)
    for kind, reason in built.missing.items():
        print(f"without {kind}: {reason}", file=sys.stderr)
    if "raskio" in built.missing:
        return 1
    try:
        with servers.nginx(config, plans.files(case.plan() for case in cases), options.nginx) as server:
            result = describe(options, cases, built, server, measure.measure(options, cases, built, server))
    except Unavailable as reason:
        print(f"no server: {reason}", file=sys.stderr)
        return 1
    write(result, options, folder)
    return 1 if any(case["failures"] for case in result["cases"]) else 0


def comma_list(text):
    return text.split(",")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--profile", choices=matrix.PROFILES, default="small", help="what fits the machine (default: small)")
    add("--cases", type=comma_list, help="only these, separated by commas")
    add("--clients", type=comma_list, default=clients.KINDS, help=f"only these of {','.join(clients.KINDS)}")
    add("--quick", action="store_true", help="a rough answer within 3 minutes: a fifth of the bytes, fewer rounds")
    add("--rounds", type=int, help="at most (default: 5; --quick: 3)")
    add("--minutes", type=float, help="start no round that would not be over by then (default: 13.5; --quick: 2.5)")
    add("--slow-rounds", type=int, help="rounds that boto3 and awscrt take part in (default: 2; --quick: 1)")
    add(
        "--reps",
        type=int,
        default=2,
        help="repetitions of a run; of several, the first warms up and does not count (default: 2)",
    )
    add("--scale", type=float, help="read this many times as much (default: 1; --quick: 0.2)")
    add("--idle-seconds", type=int, help="how long idle clients are watched; 0: not (default: 30; --quick: 15)")
    add("--prefix", type=Path, help="an installed RaskIO (default: include/ and target/release/ of this tree)")
    add("--kvikio-python", type=Path, help="an interpreter that has kvikio (default: one is made from KvikIO's wheels)")
    add("--nginx", default="nginx", help="nginx's program")
    add("--no-plots", action="store_true", help="draw nothing, and so need no matplotlib")
    add(
        "--output",
        type=Path,
        default=clients.ROOT / "build" / "bench" / "result",
        help="where the results go, without suffix",
    )
    options = parser.parse_args()
    for name, quick, full in (
        ("rounds", 3, 5),
        ("slow_rounds", 1, 2),
        ("minutes", 2.5, 13.5),
        ("scale", 0.2, 1.0),
        ("idle_seconds", 15, 30),
    ):
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else full)
    known = [case.name for case in matrix.PROFILES[options.profile][1]]
    for wanted, allowed, name in ((options.cases or [], known, "case"), (options.clients, clients.KINDS, "client")):
        for word in wanted:
            if word not in allowed:
                parser.error(f"unknown {name} {word!r}; there is {', '.join(allowed)}")
    if min(options.slow_rounds, options.idle_seconds) < 0:
        parser.error("--slow-rounds and --idle-seconds must not be negative")
    if options.rounds < 1 or options.reps < 1 or options.scale <= 0 or options.minutes <= 0:
        parser.error("--rounds, --reps, --scale and --minutes must be positive")
    return options


def describe(options, cases, built, server, measured):
    """The result, as it goes into the JSON file."""
    samples, failures, idle, rounds, seconds = measured
    settings = {name: getattr(options, name) for name in ("profile", "reps", "scale", "slow_rounds", "idle_seconds")}
    return {
        "machine": machine(server),
        "versions": {s["kind"]: s["version"] for case in samples.values() for s in case},
        "settings": settings | {"rounds": rounds, "minutes_taken": seconds / 60},
        "missing": built.missing,
        "idle": idle,
        "cases": [
            {
                **{key: getattr(case, key) for key in CASE_KEYS},
                "rows": report.summarise(samples[case.name], {c.label: asdict(c) for c in case.clients}),
                "failures": failures[case.name],
                "samples": samples[case.name],
            }
            for case in cases
        ],
    }


def machine(server):
    with open("/proc/cpuinfo") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "nginx": server.version,
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
    }


def commit():
    """What is measured. A machine without the repository may have been sent a bundle that says so (scripts/gpu.sh)."""
    if told := os.environ.get("RASKIO_BENCH_COMMIT"):
        return told
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=clients.ROOT
        )
        text = found.stdout.strip()
    except FileNotFoundError:
        text = ""
    bundled = clients.ROOT / "build" / "gpu" / "commit"
    return text or (bundled.read_text().strip() if bundled.exists() else "unknown")


def write(result, options, folder):
    output = options.output
    output.parent.mkdir(parents=True, exist_ok=True)
    source, page = (output.with_name(output.name + suffix) for suffix in (".json", ".md"))
    source.write_text(json.dumps(result, indent=1) + "\n")
    summary = targets.markdown(result)
    page.write_text(report.markdown(result, summary))
    print("\n".join(summary))
    print("written:", source, page, *([] if options.no_plots else plot(source, output, folder)))


def plot(source, output, folder):
    """The paths of the pictures."""
    try:
        python = programs.python_for_plots(folder / "plot")
    except Unavailable as reason:
        print(f"no plots: {reason}", file=sys.stderr)
        return []
    script = clients.BENCHES / "harness" / "plots.py"
    command = [python, str(script), str(source), str(output.parent), output.name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"no plots: {done.stderr.strip()}", file=sys.stderr)
    return done.stdout.split()


if __name__ == "__main__":
    sys.exit(main())
