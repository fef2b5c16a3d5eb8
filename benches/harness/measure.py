"""Runs the clients of all cases in interleaved rounds, and watches idle ones."""

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from . import clients, plans, report

RUN_LIMIT_S = 120
# Python and its SDKs take a third of a round's time and are far off the rest: a few samples of them are enough.
SLOW_KINDS = ("awscrt", "boto3")


class RunFailed(Exception):
    """A client did not do what it was asked."""


class Bench:
    """What the runs share: programs, server, options, and a folder of plan files."""

    def __init__(self, options, cases, programs, server, folder):
        self.options, self.cases, self.programs, self.server, self.folder = options, cases, programs, server, folder
        self.expected, self.slow_seconds = {}, 0.0
        for case in cases:
            plan = case.plan()
            self.plan_file(case).write_text(plans.text(plan))
            self.expected[case.name] = plans.checksum(plan, server.root)

    def plan_file(self, case):
        return self.folder / f"{case.name}.plan"

    def able(self, chosen):
        """Those of these clients that were chosen and built."""
        kinds = [kind for kind in self.options.clients if kind not in self.programs.missing]
        return [client for client in chosen if client.kind in kinds]

    def command(self, client, case, reps):
        base = self.server.base(case.port)
        plan = self.plan_file(case)
        certificate = self.server.certificate
        return clients.command(self.programs, client, case.request, base, plan, reps, certificate, case.device)

    def one_run(self, client, case):
        """The samples of one process, with what the server saw of it."""
        reps = 1 if case.cold else self.options.reps
        command, environment = self.command(client, case, reps)
        accepted, requests = self.server.counters()
        served = self.server_cpu()
        lines = run(command, environment, self.expected[case.name])
        served = self.server_cpu() - served
        accepted_then, requests_then = self.server.counters()
        seen = {
            "connections": accepted_then - accepted,
            # Of all repetitions. The look at the counters is one of the requests.
            "requests_received": (requests_then - requests - 1) // max(1, reps),
            # Of all repetitions, too.
            "server_cpu_seconds": served / len(lines),
            "server_busy": served / len(self.server.workers()) / sum(line["seconds"] for line in lines),
        }
        return [line | seen for line in warmed_up(lines)]

    def server_cpu(self):
        return sum(activity(pid)[1] for pid in self.server.workers())


def measure(options, cases, programs, server):
    """Every sample, and every failure, of as many rounds as were asked for and fit into the time."""
    samples = {case.name: [] for case in cases}
    failures = {case.name: [] for case in cases}
    started, rounds = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="raskio-bench-plans-") as folder:
        bench = Bench(options, cases, programs, server, Path(folder))
        idle = watch_idle(bench, options.idle_seconds) if options.idle_seconds else []
        expected = 0.0
        while rounds < options.rounds:
            left = options.minutes * 60 - (time.monotonic() - started)
            if rounds and left < expected:
                print(f"no more rounds than {rounds}: {options.minutes:g} minutes are over first", file=sys.stderr)
                break
            rounds += 1
            begun, bench.slow_seconds = time.monotonic(), 0.0
            for case in cases:
                one_case(bench, case, rounds, samples[case.name], failures[case.name])
            expected = time.monotonic() - begun
            if rounds >= options.slow_rounds:
                expected -= bench.slow_seconds
    for case in cases:
        position = {client.label: i for i, client in enumerate(case.clients)}
        samples[case.name].sort(key=lambda sample: (position[sample["label"]], sample["round"]))
    return samples, failures, idle, rounds, time.monotonic() - started


def one_case(bench, case, number, samples, failures):
    """Every client once, in an order of the round's own."""
    few = number > bench.options.slow_rounds
    order = [client for client in bench.able(case.clients) if not (few and client.kind in SLOW_KINDS)]
    random.Random(number).shuffle(order)
    for client in order:
        about = {"label": client.label, "kind": client.kind, "round": number, "load": os.getloadavg()[0]}
        head = f"round {number} {case.name:10} {client.label:56}"
        begun = time.monotonic()
        try:
            samples += [about | line for line in bench.one_run(client, case)]
            print(head, report.brief(samples[-1], case.mode), file=sys.stderr)
        except RunFailed as failure:
            failures.append(about | {"reason": str(failure)})
            print(head, f"failed: {failure}", file=sys.stderr)
        if client.kind in SLOW_KINDS:
            bench.slow_seconds += time.monotonic() - begun


def run(command, environment, expected):
    """One process; its repetitions."""
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_LIMIT_S
        )
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
    return lines


def warmed_up(lines):
    """Without the repetition that warms up, if there are others."""
    return lines[1:] or lines


def watch_idle(bench, seconds):
    """Clients that have read something and now have nothing to do, all at the same time: wake-ups and CPU."""
    from .matrix import IDLE

    case = next((case for case in bench.cases if not case.device), None)
    found = []
    with contextlib.ExitStack() as stack:
        held = []
        for client in bench.able(IDLE) if case else ():
            command, environment = bench.command(client, case, 1)
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen(command, env=environment | {"BENCH_HOLD": "1"}, **pipes)
            stack.callback(process.communicate)  # closes its standard input, which lets it end
            if process.stdout.readline().startswith(b"{"):
                held.append((client, process))
        time.sleep(2)  # threads that end, and timers that were set while there was work
        before = [activity(process.pid) for _, process in held]
        time.sleep(seconds)
        for (client, process), (wakes, cpu) in zip(held, before, strict=True):
            wakes_then, cpu_then = activity(process.pid)
            per_minute = 60 / seconds
            found.append(
                {
                    "label": client.label,
                    "client": asdict(client),
                    "wakeups_a_minute": (wakes_then - wakes) * per_minute,
                    "cpu_ms_a_minute": (cpu_then - cpu) * 1e3 * per_minute,
                }
            )
    return found


def activity(pid):
    """Wake-ups (times that a thread gave up the CPU by itself) and CPU seconds of a process's threads."""
    wakes, cpu = 0, 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for line in (task / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    wakes += int(line.split()[1])
            # Nanoseconds where the kernel tells them, else clock ticks.
            try:
                cpu += int((task / "schedstat").read_text().split()[0]) * 1e-9
            except (FileNotFoundError, IndexError):
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return wakes, cpu
