"""The statistics as text, read by those who read such text."""

import http.server
import json
import threading
import unittest

from prometheus_client.parser import text_string_to_metric_families

import raskio_ctypes as raskio

JSON, PROMETHEUS = 1, 2


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(206)
        self.send_header("Content-Range", "bytes 0-9/100")
        self.send_header("Content-Length", "10")
        self.end_headers()
        self.wfile.write(b"0123456789")

    def log_message(self, *_):
        pass


class StatsText(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def test_prometheus_reads_what_json_says(self):
        with raskio.Client(raskio.MULTI_POLL) as client:
            with client.open(f"http://127.0.0.1:{self.server.server_port}/x") as object:
                for _ in range(20):
                    self.assertEqual(object.read(0, 10), b"0123456789")
            told, text = json.loads(client.stats_text(JSON)), client.stats_text(PROMETHEUS)
        families = {family.name: family for family in text_string_to_metric_families(text)}
        self.assertEqual(told["ops_finished"], 20)
        latencies = 0
        for name, value in told.items():
            if name == "last_fault":
                self.assertIsNone(value)
            elif isinstance(value, dict):
                family = families[f"raskio_{name}_seconds"]
                self.assertEqual(family.type, "histogram")
                samples = [sample for sample in family.samples if sample.name.endswith("_bucket")]
                counts = [sample.value for sample in samples]
                self.assertEqual(counts, sorted(counts), "buckets are cumulative")
                self.assertEqual(samples[-1].labels, {"le": "+Inf"})
                self.assertEqual(counts[-1], value["count"])
                self.assertTrue(value["p50_us"] <= value["p99_us"] <= value["p9999_us"] <= value["max_us"])
                latencies += 1
            elif name.endswith("_us"):
                (sample,) = families[f"raskio_{name[:-3]}_seconds"].samples
                self.assertAlmostEqual(sample.value, value / 1e6)
            else:
                (sample,) = families[f"raskio_{name}"].samples
                self.assertEqual(sample.value, value, name)
                self.assertTrue(families[f"raskio_{name}"].documentation)
        self.assertEqual(latencies, 3)
        self.assertEqual(len(families), len(told) - 1, "neither has more than the other")


if __name__ == "__main__":
    unittest.main()
