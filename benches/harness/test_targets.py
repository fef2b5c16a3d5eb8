"""Tests of the summary: the project's targets, and those of a run on a GPU."""

import unittest

from . import gpu, matrix, targets
from .clients import Client
from .test_report import FIXED, KVIKIO, KVIKIO_POOL, RASKIO, RAW, result, rows, sample

EASY = Client("easy", 1, 1, submit="one")
READ = Client("raskio", 1, 1, "MULTI_POLL", "one")
READ_SYNC = Client("raskio", 1, 1, "MULTI_POLL", "sync")


def verdicts(found):
    return {
        (row.case, row.target): (row.measured and round(row.measured["median"], 3), row.met)
        for row in targets.rows(found)
    }


class Targets(unittest.TestCase):
    def test_they_compare_the_settings_that_they_name(self):
        samples = [sample(RAW, 1, 1.0, cpu=1.0), sample(KVIKIO, 1, 2.0, cpu=3.0), sample(KVIKIO_POOL, 1, 0.5, cpu=9.0)]
        samples += [sample(RASKIO, 1, 1.0, cpu=1.2), sample(FIXED, 1, 0.1, cpu=0.1)]
        found = verdicts(result(rows(samples, RAW, KVIKIO, KVIKIO_POOL, RASKIO, FIXED)))
        name = "large, plain, 16 requests"
        self.assertEqual(found[name, "CPU a GiB ≤ 1.25 × raw loop"], (1.2, True))
        self.assertEqual(found[name, "CPU a GiB ≤ 0.5 × KvikIO MULTI_POLL"], (0.4, True))
        self.assertEqual(found[name, "throughput ≥ libcurl multi, epoll"], (None, None))
        # The best of each is the fastest of any setting, fixed and the pool included.
        self.assertEqual(found["best setting of each, large", "GB/s ≥ KvikIO's"], (5.0, True))

    def test_what_bare_clients_reach_of_a_target_stands_beside_it(self):
        samples = [sample(RAW, 1, 1.0, cpu=1.5), sample(KVIKIO, 1, 2.0, cpu=3.0), sample(RASKIO, 1, 1.0, cpu=1.8)]
        page = "\n".join(targets.markdown(result(rows(samples, RAW, KVIKIO, RASKIO))))
        self.assertIn("| CPU a GiB ≤ 0.5 × KvikIO MULTI_POLL | 0.600 | raw loop 0.500 | **no** |", page)

    def test_how_busy_the_server_was_stands_beside_a_target_of_speed(self):
        samples = [sample(KVIKIO, 1, 1.0), sample(RASKIO, 1, 1.0, server_busy=0.987)]
        page = "\n".join(targets.markdown(result(rows(samples, KVIKIO, RASKIO), name="tls")))
        self.assertIn("| throughput ≥ KvikIO MULTI_POLL | 1 | server busy 0.99 | yes |", page)
        self.assertIn("| CPU a GiB ≤ 0.7 × KvikIO MULTI_POLL | 1 | – | **no** |", page)

    def test_one_that_is_missed_says_so(self):
        found = result(rows([sample(RAW, 1, 1.0, cpu=1.0), sample(RASKIO, 1, 1.0, cpu=1.3)], RAW, RASKIO))
        page = "\n".join(targets.markdown(found))
        self.assertIn("| large, plain, 16 requests | CPU a GiB ≤ 1.25 × raw loop | 1.30 | – | **no** |", page)
        self.assertIn("| CPU a GiB ≤ 0.5 × KvikIO MULTI_POLL | not measured | – | – |", page)

    def test_latency_is_set_against_the_easy_handle(self):
        samples = [sample(EASY, 1, 1.0, latency_p50_us=100.0)]
        samples += [sample(READ, 1, 1.0, latency_p50_us=141.0), sample(READ_SYNC, 1, 1.0, latency_p50_us=119.0)]
        found = verdicts(result(rows(samples, EASY, READ, READ_SYNC), name="latency", mode="latency"))
        name = "single 1-byte read, warm"
        self.assertEqual(found[name, "raskio_read: median ≤ 1.4 × easy handle"], (1.41, False))
        self.assertEqual(found[name, "raskio_read_sync: median ≤ 1.2 × easy handle"], (1.19, True))

    def test_memory_is_held_against_what_is_stated(self):
        stated = targets.RECEIVE_BUFFER + 4 * targets.MEMORY_PER_CONNECTION["http"] + targets.MEMORY_CONSTANT
        for grown, met in ((stated, True), (stated + 1, False)):
            found = result(rows([sample(RASKIO, 1, 1.0, grown_memory=grown)], RASKIO))
            (row,) = targets.memory_rows(found)
            self.assertEqual(row.met, met)

    def test_many_reads_handed_over_at_once_are_allowed_their_memory(self):
        one = rows([sample(RASKIO, 1, 1.0)], RASKIO)
        few, many = (list(targets.memory_rows(result(one, shape="many", total=n, request=1)))[0] for n in (1, 100_000))
        self.assertLess(many.measured["median"], few.measured["median"] / 5)

    def test_an_idle_client_may_look_around_and_no_more(self):
        for wakes, met in ((4, True), (10, True), (11, False)):
            found = result([])  # watched for 10 s
            client = {"kind": "raskio", "backend": "MULTI_POLL", "threads": 1}
            found["idle"] = [{"label": "x", "client": client, "wakeups_a_minute": wakes, "cpu_ms_a_minute": 0}]
            self.assertEqual([row.met for row in targets.idle_rows(found)], [met, True])

    def test_adaptive_is_set_against_fixed(self):
        found = result(rows([sample(RASKIO, 1, 0.5), sample(FIXED, 1, 1.0)], RASKIO, FIXED))
        ((case, setting, speed, cpu, connections),) = targets.adaptive_rows(found)
        self.assertEqual((case, setting, speed, connections), ("large", "1 reactor, 16 in flight", "2 (2–2)", "4 / 4"))

    def test_every_target_of_the_small_machine_and_of_batches_is_measured_by_its_cases(self):
        """A case that is renamed, or loses a client, must not take a target with it unseen."""
        cases = []
        for case in matrix.SMALL_MACHINE + matrix.BATCHES:
            samples = [sample(client, 1, 1.0, latency_p50_us=1.0) for client in case.clients]
            one = result(
                rows(samples, *case.clients), name=case.name, mode=case.mode, title=case.title, shape=case.shape
            )
            cases += one["cases"]
        found = {**result([]), "cases": cases}
        unmeasured = [row for row in targets.rows(found) if row.met is None]
        self.assertEqual(unmeasured, [])
        self.assertGreater(len(list(targets.adaptive_rows(found))), 10)
        self.assertEqual(len(list(targets.gap_rows(found))), 2 * len(matrix.GAPS))
        self.assertTrue(all(cells[2] == "1 (1–1)" for cells in targets.gap_rows(found)))


class Gpu(unittest.TestCase):
    ONE, EIGHT = ((threads, width) for _, threads, width, _, _ in gpu.SETTINGS)

    def result(self, device, host):
        cases = []
        for name, figures in (("device", device), ("large", host)):
            samples = [sample(client, 1, *figure) for client, figure in figures.items()]
            cases += result(rows(samples, *figures), name=name, device=name == "device")["cases"]
        return {"cases": cases}

    def clients(self, threads, width):
        ours = Client("raskio", threads, width, "MULTI_POLL", concurrency="adaptive")
        return ours, Client("kvikio", threads, width, "MULTI_POLL")

    def test_targets_compare_equal_settings_and_the_best(self):
        ours, theirs = self.clients(*self.ONE)
        device = {ours: (1.0, 1.0), theirs: (1.5, 2.0), KVIKIO_POOL: (0.5, 9.0)}
        found = gpu.targets(self.result(device, {ours: (0.9, 1.0)}))
        self.assertEqual(
            {text: (figure and round(figure, 3), reached) for text, figure, _, reached in found},
            {
                "device, 1 reactor: speed of KvikIO's": (1.5, True),
                "device, 1 reactor: CPU of KvikIO's": (0.5, True),
                "device, 8 reactors: speed of KvikIO's": (None, None),
                "device, 8 reactors: CPU of KvikIO's": (None, None),
                "device, best setting: speed of KvikIO's best": (0.5, False),
                f"{ours.label}: device speed of host speed": (0.9, False),
            },
        )

    def test_the_settings_of_the_targets_are_measured(self):
        cases = {case.name: case for case in matrix.H200_MACHINE}
        for name in ("device", "large"):
            for setting in (self.ONE, self.EIGHT):
                for client in self.clients(*setting):
                    self.assertIn(client, cases[name].clients)

    def test_the_page_tells_what_failed_and_what_was_missed(self):
        lines = [
            {"what": "tests", "name": "a", "result": "ok", "seconds": 1},
            {"what": "tests", "name": "b", "result": "FAILED (1)", "seconds": 1},
            {"what": "driver events", "threads": 1, "create_destroy_ns": 1000, "record_ns": 900, "query_ns": 800},
            {"what": "event pool", "threads": 1, "get_return_ns": 50},
        ]
        device = dict.fromkeys(self.clients(*self.ONE), (1.0, 1.0))
        page = gpu.markdown("a GPU", lines, self.result(device, {}))
        for text in (
            "1 programs passed, 1 failed, 0 skipped.",
            "- tests b: FAILED (1)",
            "| 1 | 50 | 1000 | 900 | 800 |",
            "| device, 1 reactor: speed of KvikIO's | 1.00 | ≥ 1.4 | MISSED |",
        ):
            self.assertIn(text, page)


if __name__ == "__main__":
    unittest.main()
