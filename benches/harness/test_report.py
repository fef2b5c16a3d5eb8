"""Tests of what becomes of samples: figures, ratios, the page."""

import unittest
from dataclasses import asdict

from . import report
from .clients import Client


def sample(client, number, seconds, cpu=1.0, size=10**9, requests=100, **more):
    return {
        "label": client.label,
        "kind": client.kind,
        "version": client.kind,
        "round": number,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "bytes": size,
        "requests": requests,
        "connections": 4,
        "peak_memory": 3 << 20,
        "grown_memory": 1 << 20,
        "load": 0.5,
    } | more


def rows(samples, *clients):
    return report.summarise(samples, {client.label: asdict(client) for client in clients})


RAW = Client("raw", 1, 16)
KVIKIO = Client("kvikio", 1, 16, "MULTI_POLL")
KVIKIO_POOL = Client("kvikio", 16, 0, "EASY_THREADPOOL")
RASKIO = Client("raskio", 1, 16, "MULTI_POLL", concurrency="adaptive")
FIXED = Client("raskio", 1, 16, "MULTI_POLL", concurrency="fixed")


def result(case_rows, **case):
    """A whole result with one case."""
    return {
        "machine": {"cpus": 2, "cpu": "c", "kernel": "k", "nginx": "n", "date": "d", "commit": "abc", "python": "3"},
        "versions": {"raskio": "RaskIO 1"},
        "settings": {"profile": "small", "rounds": 1, "minutes_taken": 1.0, "idle_seconds": 10},
        "missing": {"curl": "no header"},
        "idle": [],
        "cases": [
            {
                "name": "large",
                "title": "t",
                "mode": "large",
                "shape": "one",
                "device": False,
                "total": 1,
                "request": 1,
                "rows": case_rows,
                "samples": [],
                "failures": [],
            }
            | case
        ],
    }


class Figures(unittest.TestCase):
    def test_each_follows_from_a_sample(self):
        server = {"server_cpu_seconds": 1.5, "server_busy": 0.75}
        one = sample(RAW, 1, 2.0, cpu=0.5, size=1 << 30, requests=1000, latency_p50_us=7.0, **server)
        (row,) = rows([one], RAW)
        found = {figure: row[figure] and row[figure]["median"] for figure in report.FIGURES}
        self.assertEqual(
            found,
            {
                "gb_s": (1 << 30) / 2e9,
                "requests_s": 500.0,
                "cpu_s_gib": 0.5,
                "cpu_us_request": 500.0,
                "p50_us": 7.0,
                "p99_us": None,
                "server_cpu_s_gib": 1.5,
                "server_busy": 0.75,
                "connections": 4,
                "peak_mib": 3.0,
                "grown_mib": 1.0,
            },
        )

    def test_a_round_counts_once_however_many_repetitions_it_has(self):
        samples = [
            sample(RAW, 1, 1.0),
            sample(RAW, 1, 1.0),
            sample(RAW, 1, 1.0),
            sample(RAW, 2, 0.5),
            sample(RAW, 3, 0.5),
        ]
        (row,) = rows(samples, RAW)
        self.assertEqual((row["gb_s"]["median"], row["gb_s"]["min"], row["gb_s"]["max"]), (2.0, 1.0, 2.0))

    def test_ratios_are_taken_within_a_round(self):
        # The machine is ten times slower in round 2; RaskIO is twice as fast as raw in both.
        samples = [sample(RAW, 1, 1.0), sample(RAW, 2, 10.0), sample(RASKIO, 1, 0.5), sample(RASKIO, 2, 5.0)]
        raw, raskio = rows(samples, RAW, RASKIO)
        ratio = report.ratio(raskio, raw, "gb_s")
        self.assertEqual((ratio["min"], ratio["median"], ratio["max"]), (2.0, 2.0, 2.0))
        self.assertIsNone(report.ratio(raskio, None, "gb_s"))
        self.assertIsNone(report.ratio(raskio, raw, "p50_us"))

    def test_the_best_of_a_kind_is_the_fastest_or_the_cheapest(self):
        found = rows([sample(KVIKIO, 1, 1.0, cpu=4.0), sample(KVIKIO_POOL, 1, 2.0, cpu=1.0)], KVIKIO, KVIKIO_POOL)
        self.assertEqual(report.best(found, "kvikio", "gb_s")["label"], KVIKIO.label)
        self.assertEqual(report.best(found, "kvikio", "cpu_s_gib")["label"], KVIKIO_POOL.label)
        self.assertIsNone(report.best(found, "raw", "gb_s"))


class Page(unittest.TestCase):
    def test_it_has_every_row_and_every_failure(self):
        failure = {"label": "y", "round": 1, "reason": "read the wrong bytes"}
        page = report.markdown(result(rows([sample(RASKIO, 1, 1.0)], RASKIO), failures=[failure]), ["the summary"])
        for text in (
            f"| {RASKIO.label} | 1 (1–1) |",
            "Failed: y, round 1: read the wrong bytes",
            "curl: no header",
            "the summary",
        ):
            self.assertIn(text, page)

    def test_a_table_has_as_many_cells_in_each_line(self):
        for mode in report.MAIN:
            with_latency = {"latency_p50_us": 1.0, "latency_p99_us": 2.0}
            clients = (RAW, KVIKIO, RASKIO)
            found = rows([sample(client, 1, 1.0, **with_latency) for client in clients], *clients)
            lines = list(report.table({"mode": mode, "rows": found}))
            self.assertEqual(len({line.count("|") for line in lines}), 1, lines)
            self.assertEqual(len(lines), 5)

    def test_numbers_are_short(self):
        for value, text in (
            (0, "0"),
            (16.0, "16"),
            (12345.6, "12,346"),
            (0.1234, "0.123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
        ):
            self.assertEqual(report.number(value), text)


if __name__ == "__main__":
    unittest.main()
