"""Tests of the harness itself: `python3 -m unittest discover -s benches -t benches`."""

import tempfile
import unittest
import zlib
from pathlib import Path

import run
from harness import gpu, matrix, report, servers
from harness.clients import Client


def sample(label, kind, number, seconds, cpu=1.0, size=10**9, requests=100):
    return {
        "label": label,
        "kind": kind,
        "round": number,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "bytes": size,
        "requests": requests,
        "load": 0.5,
    }


class Report(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        # The machine is ten times slower in round 2; RaskIO is twice as fast as raw in both.
        samples = [
            sample("r", "raw", 1, 1.0),
            sample("r", "raw", 2, 10.0),
            sample("x", "raskio", 1, 0.5),
            sample("x", "raskio", 2, 5.0),
        ]
        raw, raskio = report.summarise(samples, "large")
        self.assertEqual((raw["speed_of_raw"], raskio["speed_of_raw"]), (1.0, 2.0))
        self.assertIsNone(raskio["speed_of_kvikio"])
        self.assertEqual((raskio["speed"]["min"], raskio["speed"]["max"]), (0.2, 2.0))

    def test_the_reference_is_the_best_of_its_kind_for_speed_and_for_cost(self):
        samples = [
            sample("fast", "kvikio", 1, 1.0, cpu=4.0),
            sample("cheap", "kvikio", 1, 2.0, cpu=1.0),
            sample("x", "raskio", 1, 1.0, cpu=2.0),
        ]
        row = report.summarise(samples, "large")[2]
        self.assertEqual((row["speed_of_kvikio"], row["cost_of_kvikio"]), (1.0, 2.0))

    def test_units_follow_the_mode(self):
        one = sample("x", "raw", 1, 2.0, cpu=0.5, size=1 << 30, requests=1000)
        self.assertEqual(report.figures(one, "small"), (500.0, 500.0))
        self.assertEqual(report.figures(one, "large"), ((1 << 30) / 2e9, 0.5))

    def test_the_page_has_every_row_and_every_failure(self):
        result = {
            "machine": {"cpus": 2, "cpu": "c", "kernel": "k", "nginx": "n", "date": "d", "commit": "abc"},
            "settings": {"rounds": 1},
            "missing": {"curl": "no header"},
            "cases": [
                {
                    "title": "t",
                    "mode": "large",
                    "rows": report.summarise([sample("x", "raskio", 1, 1.0)], "large"),
                    "samples": [sample("x", "raskio", 1, 1.0)],
                    "failures": [{"label": "y", "round": 1, "reason": "read the wrong bytes"}],
                }
            ],
        }
        page = report.markdown(result)
        for text in ("| x | 1.00 (1.00–1.00) |", "Failed: y, round 1: read the wrong bytes", "curl: no header"):
            self.assertIn(text, page)


class Gpu(unittest.TestCase):
    def result(self, device, host):
        cases = []
        for name, figures in (("device", device), ("large", host)):
            samples = [sample(label, label.split()[0].lower(), 1, *figure) for label, figure in figures.items()]
            cases.append({"name": name, "rows": report.summarise(samples, "device")})
        return {"cases": cases}

    def test_targets_compare_equal_settings_and_the_best(self):
        ours, theirs, pool = f"RaskIO {gpu.ONE}", f"KvikIO {gpu.ONE}", "KvikIO EASY_THREADPOOL, 16 threads"
        device = {ours: (1.0, 1.0), theirs: (1.5, 2.0), pool: (0.5, 9.0)}
        rows = gpu.targets(self.result(device, {ours: (0.9, 1.0)}))
        found = {text: (figure and round(figure, 3), reached) for text, figure, _, reached in rows}
        self.assertEqual(
            found,
            {
                "device, 1 reactor: speed of KvikIO's": (1.5, True),
                "device, 1 reactor: CPU of KvikIO's": (0.5, True),
                "device, 8 reactors: speed of KvikIO's": (None, None),
                "device, 8 reactors: CPU of KvikIO's": (None, None),
                "device, best setting: speed of KvikIO's best": (0.5, False),
                f"{ours}: device speed of host speed": (0.9, False),
            },
        )

    def test_the_settings_of_the_targets_are_measured(self):
        cases = {case.name: case for case in matrix.H200_MACHINE}
        for name in ("device", "large"):
            labels = [client.label for client in cases[name].clients]
            for setting in (gpu.ONE, gpu.EIGHT):
                self.assertIn(f"RaskIO {setting}", labels)
                self.assertIn(f"KvikIO {setting}", labels)

    def test_the_page_tells_what_failed_and_what_was_missed(self):
        lines = [
            {"what": "tests", "name": "a", "result": "ok", "seconds": 1},
            {"what": "tests", "name": "b", "result": "FAILED (1)", "seconds": 1},
            {"what": "driver events", "threads": 1, "create_destroy_ns": 1000, "record_ns": 900, "query_ns": 800},
            {"what": "event pool", "threads": 1, "get_return_ns": 50},
        ]
        device = {f"RaskIO {gpu.ONE}": (1.0, 1.0), f"KvikIO {gpu.ONE}": (1.0, 1.0)}
        page = gpu.markdown("a GPU", lines, self.result(device, {}))
        for text in (
            "1 programs passed, 1 failed, 0 skipped.",
            "- tests b: FAILED (1)",
            "| 1 | 50 | 1000 | 900 | 800 |",
            "| device, 1 reactor: speed of KvikIO's | 1.00 | ≥ 1.4 | MISSED |",
        ):
            self.assertIn(text, page)


class Running(unittest.TestCase):
    def python(self, code, expected=1):
        return run.run(["python3", "-c", code], None, expected)

    def test_the_first_of_several_repetitions_does_not_count(self):
        line = 'print(\'{"adler32": 1, "n": %d}\')'
        code = "\n".join(line % n for n in (1, 2, 3))
        self.assertEqual([found["n"] for found in self.python(code)], [2, 3])
        self.assertEqual([found["n"] for found in self.python(line % 1)], [1])

    def test_wrong_bytes_silence_and_failure_are_refused(self):
        for code, text in (
            ("print('{\"adler32\": 2}')", "wrong bytes"),
            ("print('hello')", "no result"),
            ("raise SystemExit('broken')", "broken"),
        ):
            with self.assertRaisesRegex(run.RunFailed, text):
                self.python(code)

    def test_the_expected_checksum_is_that_of_the_ranges(self):
        case = matrix.Case("n", "s", 1, "small", 6, 2, (), stride=5)
        self.assertEqual(case.object_bytes, 12)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data"
            path.write_bytes(b"ab---cd---ef---")
            self.assertEqual(run.checksum(path, case), zlib.adler32(b"abcdef"))


class Settings(unittest.TestCase):
    def test_ports_are_replaced_one_for_one(self):
        text, ports = servers.with_free_ports("listen 127.0.0.1:8090 backlog=1; listen 127.0.0.1:8443 ssl;")
        self.assertEqual(set(ports), {8090, 8443})
        self.assertEqual(len(set(ports.values())), 2)
        self.assertEqual(text, f"listen 127.0.0.1:{ports[8090]} backlog=1; listen 127.0.0.1:{ports[8443]} ssl;")

    def test_every_case_names_a_port_of_its_configuration_and_its_labels_are_unique(self):
        for config, cases in matrix.PROFILES.values():
            _, ports = servers.with_free_ports((servers.CONFIGS / config).read_text())
            for case in cases:
                self.assertIn(case.port, ports)
                labels = [client.label for client in case.clients]
                self.assertEqual(len(set(labels)), len(labels), labels)

    def test_scaling_keeps_whole_requests(self):
        case = matrix.SMALL_MACHINE[0].scaled(0.0001)
        self.assertEqual((case.total, case.title), (4 << 20, "4 MiB in 4 MiB requests, plain HTTP, no delay"))

    def test_labels_say_the_settings(self):
        self.assertEqual(Client("raskio", 2, 64, "MULTI_POLL").label, "RaskIO MULTI_POLL, 2 reactors, 64 requests")


if __name__ == "__main__":
    unittest.main()
