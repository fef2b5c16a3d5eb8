"""Tests of the harness: plans, runs, settings. All of them: `python3 -m unittest discover -s benches -t benches`."""

import os
import subprocess
import sys
import tempfile
import types
import unittest
import zlib
from pathlib import Path

from . import clients, matrix, measure, plans, servers
from .clients import Client


class Plans(unittest.TestCase):
    def test_the_expected_checksum_is_that_of_the_ranges_in_their_order(self):
        with tempfile.TemporaryDirectory() as root:
            for path, text in (("/a", b"ab---cd---ef---"), ("/b", b"0123")):
                Path(root + path).write_bytes(text)
            reads = [plans.Read("/a", 5, 2), plans.Read("/b", 1, 3), plans.Read("/a", 0, 2), plans.Read("/a", 10, 2)]
            self.assertEqual(plans.checksum(reads, root), zlib.adler32(b"cd123abef"))

    def test_files_are_as_long_as_what_is_read_of_them(self):
        found = plans.files([plans.many(3, 2, 5), plans.one(4), [plans.Read("/other", 1, 1)]])
        self.assertEqual(found, {plans.DATA: 12, "/other": 2})

    def test_the_mix_reads_every_byte_of_every_object_once(self):
        reads = plans.mix(64 << 20)
        sizes = plans.files([reads])
        self.assertEqual(len(sizes), plans.MIX_OBJECTS)
        for path, size in sizes.items():
            spans = sorted((read.first, read.first + read.length) for read in reads if read.path == path)
            self.assertEqual([spans[0][0], spans[0][1], spans[-1][1]], [0, spans[1][0], size])
        self.assertAlmostEqual(sum(sizes.values()), 64 << 20, delta=plans.MIX_OBJECTS)
        self.assertGreater(max(sizes.values()), 50 * min(sizes.values()))

    def test_python_clients_read_a_plan_as_it_is_written(self):
        sys.path.insert(0, str(clients.BENCHES / "peers"))
        try:
            from peer import Job
        finally:
            sys.path.pop(0)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(plans.text(plans.many(2, 5, 10)))
            file.flush()
            arguments, sys.argv = sys.argv, ["x", "http://h", file.name, "2", "1", "more"]
            try:
                job = Job()
            finally:
                sys.argv = arguments
        self.assertEqual((job.total, job.more), (10, ["more"]))
        cut = [(read.first, read.length, read.at) for read in job.requests()]
        self.assertEqual(cut, [(0, 2, 0), (2, 2, 2), (4, 1, 4), (10, 2, 5), (12, 2, 7), (14, 1, 9)])


SAMPLE = {"bytes": 1, "requests": 1, "seconds": 1.0, "cpu_seconds": 1.0, "adler32": 1}


class Running(unittest.TestCase):
    def python(self, code, expected=1):
        return measure.run([sys.executable, "-c", code], None, expected)

    def test_the_first_of_several_repetitions_does_not_count(self):
        line = 'print(\'{"adler32": 1, "n": %d}\')'
        code = "\n".join(line % n for n in (1, 2, 3))
        for output, counts in ((code, [2, 3]), (line % 1, [1])):
            self.assertEqual([found["n"] for found in measure.warmed_up(self.python(output))], counts)

    def test_wrong_bytes_silence_and_failure_are_refused(self):
        for code, text in (
            ("print('{\"adler32\": 2}')", "wrong bytes"),
            ("print('hello')", "no result"),
            ("raise SystemExit('broken')", "broken"),
        ):
            with self.assertRaisesRegex(measure.RunFailed, text):
                self.python(code)

    def test_activity_tells_a_busy_process_from_an_idle_one(self):
        code = "import sys, time\nprint(flush=True)\nend = time.time() + %s\n"
        code += "while time.time() < end: time.sleep(0.001)\nsys.stdin.read()"
        found = []
        for seconds in (0, 60):
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            with subprocess.Popen([sys.executable, "-c", code % seconds], **pipes) as process:
                process.stdout.readline()
                before = measure.activity(process.pid)
                process.poll()
                with self.assertRaises(subprocess.TimeoutExpired):
                    process.wait(0.5)
                after = measure.activity(process.pid)
                process.kill()
            found.append((after[0] - before[0], after[1] - before[1]))
        (idle_wakes, idle_cpu), (busy_wakes, busy_cpu) = found
        self.assertLess(idle_wakes, 5)
        self.assertGreater(busy_wakes, 20)
        self.assertGreater(busy_cpu, idle_cpu)

    def test_slow_clients_take_part_in_the_first_rounds_only(self):
        ran = []
        bench = types.SimpleNamespace(options=types.SimpleNamespace(slow_rounds=2), able=list, slow_seconds=0.0)
        case = types.SimpleNamespace(name="n", mode="large", clients=(Client("raw", 1, 1), Client("boto3", 0, 1)))
        bench.one_run = lambda client, _: ran.append(client.kind) or [SAMPLE]
        for number in (1, 2, 3):
            measure.one_case(bench, case, number, [], [])
        self.assertEqual(sorted(ran), ["boto3", "boto3", "raw", "raw", "raw"])

    def test_no_round_is_begun_that_would_not_be_over_in_time(self):
        server = types.SimpleNamespace(root=".")
        programs = types.SimpleNamespace(missing={})
        options = types.SimpleNamespace(clients=(), rounds=5, reps=1, minutes=1.0, idle_seconds=0, slow_rounds=1)
        self.assertEqual(measure.measure(options, [], programs, server)[3], 5)
        options.minutes = 1e-12
        self.assertEqual(measure.measure(options, [], programs, server)[3], 1)


class Settings(unittest.TestCase):
    def test_ports_are_replaced_one_for_one(self):
        text, ports = servers.with_free_ports("listen 127.0.0.1:8090 backlog=1; listen 127.0.0.1:8443 ssl;")
        self.assertEqual(set(ports), {8090, 8443})
        self.assertEqual(len(set(ports.values())), 2)
        self.assertEqual(text, f"listen 127.0.0.1:{ports[8090]} backlog=1; listen 127.0.0.1:{ports[8443]} ssl;")

    def test_every_case_names_a_port_of_its_configuration_and_its_labels_are_unique(self):
        for config, cases in matrix.PROFILES.values():
            _, ports = servers.with_free_ports((servers.CONFIGS / config).read_text())
            self.assertIn(servers.STATUS_PORT, ports)
            for case in cases:
                self.assertIn(case.port, ports)
                labels = [client.label for client in case.clients]
                self.assertEqual(len(set(labels)), len(labels), labels)

    def test_scaling_keeps_whole_requests(self):
        case = matrix.SMALL_MACHINE[0].scaled(0.0001)
        self.assertEqual((case.total, case.title), (4 << 20, "4 MiB in 4 MiB requests, plain HTTP, no delay"))

    def test_labels_say_the_settings(self):
        for client, label in (
            (
                Client("raskio", 2, 64, "MULTI_POLL", concurrency="adaptive"),
                "RaskIO MULTI_POLL, 2 reactors, 64 in flight",
            ),
            (
                Client("raskio", 1, 64, "MULTI_POLL", concurrency="fixed"),
                "RaskIO MULTI_POLL, 1 reactor, 64 in flight, fixed",
            ),
            (Client("kvikio", 16, 0, "EASY_THREADPOOL"), "KvikIO EASY_THREADPOOL, 16 threads"),
            (Client("curl", 1, 16, "epoll"), "libcurl multi, epoll, 16 in flight"),
            (Client("raskio", 1, 1, "MULTI_POLL", "sync"), "RaskIO MULTI_POLL, read_sync"),
            (
                Client("raskio", 1, 16, "MULTI_POLL", "batch", "adaptive", "4096"),
                "RaskIO MULTI_POLL, 1 reactor, 16 in flight, batch, coalesced to 4096 bytes",
            ),
        ):
            self.assertEqual(client.label, label)

    def test_settings_of_the_shell_do_not_reach_a_client(self):
        programs = types.SimpleNamespace(path=lambda name: name, sdk="python", kvikio="python", stub="")
        leaks = {
            "KVIKIO_TASK_SIZE": "1",
            "KVIKIO_NTHREADS": "3",
            "BENCH_HOLD": "1",
            "AWS_PROFILE": "x",
            "RUST_LOG": "trace",
        }
        before = dict(os.environ)
        os.environ.update(leaks)
        try:
            for kind in clients.KINDS:
                client = Client(kind, 2, 8, "MULTI_POLL")
                command, environment = clients.command(programs, client, 4096, "http://h", "plan", 2, "cert.pem")
                self.assertEqual(command[command.index("http://h") :][:4], ["http://h", "plan", "4096", "2"])
                for name, value in leaks.items():
                    self.assertNotEqual(environment.get(name), value, f"{kind}: {name}")
        finally:
            os.environ.clear()
            os.environ.update(before)


if __name__ == "__main__":
    unittest.main()
