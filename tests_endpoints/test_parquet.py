"""examples/parquet_columns.py on a real Parquet file: written by pyarrow, served by nginx, compared with pyarrow's own bytes."""

import importlib.util
import os
import sys
import unittest

import pyarrow
import pyarrow.parquet
from servers import Case, free_port, program

EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "examples", "parquet_columns.py")
ROWS = 200_000


def example():
    spec = importlib.util.spec_from_file_location("parquet_columns", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Parquet(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        numbers = list(range(ROWS))
        cls.table = pyarrow.table({
            "id": numbers,
            "name": [f"row {i % 1000}" for i in numbers],
            "noise": pyarrow.array([(i * 2654435761) % 4294967296 / 7 for i in numbers], pyarrow.float64()),
            "flag": [i % 3 == 0 for i in numbers],
        })  # fmt: skip
        os.mkdir(cls.path("www"))
        pyarrow.parquet.write_table(cls.table, cls.path("www/table.parquet"), row_group_size=ROWS // 8, compression="snappy")
        # A footer that is longer than the first guess.
        wide = pyarrow.table({f"a_column_with_a_long_name_{i:04}": [i] for i in range(1500)})
        pyarrow.parquet.write_table(wide, cls.path("www/wide.parquet"))
        cls.write("www/none.parquet", b"this is no Parquet file")
        cls.port = free_port()
        cls.write("nginx.conf", f"""
            daemon off; pid {cls.path("nginx.pid")}; error_log {cls.path("error.log")}; worker_processes 1;
            events {{ worker_connections 256; }}
            http {{
              log_format asked "$request_method $uri $http_range $status"; access_log {cls.path("access.log")} asked;
              client_body_temp_path {cls.path("t1")}; proxy_temp_path {cls.path("t2")}; fastcgi_temp_path {cls.path("t3")};
              uwsgi_temp_path {cls.path("t4")}; scgi_temp_path {cls.path("t5")};
              server {{ listen 127.0.0.1:{cls.port}; root {cls.path("www")}; }}
            }}""")  # fmt: skip
        for name in ("www", "www/table.parquet", "www/wide.parquet", "www/none.parquet"):
            os.chmod(cls.path(name), 0o755)
        cls.start(
            [program("nginx"), "-p", cls.folder, "-e", cls.path("error.log"), "-c", cls.path("nginx.conf")], [cls.port]
        )
        cls.example = example()

    def url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def asked(self, name):
        with open(self.path("access.log")) as log:
            return [line.split() for line in log if f" /{name} " in line]

    def compare(self, name, columns):
        before = len(self.asked(name))
        size, footer, chunks, data, requests = self.example.read_columns(self.url(name), columns)
        with open(self.path(f"www/{name}"), "rb") as file:
            whole = file.read()
        self.assertEqual(size, len(whole))
        metadata = pyarrow.parquet.read_metadata(self.path(f"www/{name}"))
        self.assertEqual(footer, metadata.serialized_size + 8)
        wanted = len(columns) or metadata.num_columns
        self.assertEqual(len(chunks), wanted * metadata.num_row_groups)
        for (_, column, offset, length), got in zip(chunks, data):
            self.assertEqual(bytes(got), whole[offset : offset + length], f"{column} at {offset}")
        asked = self.asked(name)[before:]
        self.assertTrue(all(method == "GET" and status == "206" for method, _, _, status in asked), asked)
        self.assertEqual(asked[0][2], f"bytes=-{64 << 10}")
        return chunks, data, requests, asked

    def test_the_chunks_of_some_columns_are_read_by_one_batch_after_one_footer(self):
        chunks, _, requests, asked = self.compare("table.parquet", {"id", "noise"})
        self.assertEqual(len(asked), 1 + requests)
        self.assertLessEqual(requests, len(chunks))

    def test_chunks_that_lie_side_by_side_come_by_few_requests(self):
        chunks, _, requests, _ = self.compare("table.parquet", set())
        self.assertLess(requests, len(chunks) // 2)

    def test_what_was_read_is_the_table(self):
        """Put back where they came from, the chunks and the footer are a file that pyarrow reads."""
        chunks, data, _, _ = self.compare("table.parquet", {"id", "flag"})
        with open(self.path("www/table.parquet"), "rb") as file:
            whole = file.read()
        footer = int.from_bytes(whole[-8:-4], "little") + 8
        sparse = bytearray(len(whole))
        sparse[:4], sparse[-footer:] = b"PAR1", whole[-footer:]
        for (_, _, offset, length), got in zip(chunks, data):
            sparse[offset : offset + length] = got
        read = pyarrow.parquet.read_table(pyarrow.BufferReader(bytes(sparse)), columns=["id", "flag"])
        self.assertTrue(read.equals(self.table.select(["id", "flag"])))

    def test_a_footer_longer_than_the_guess_is_read_again(self):
        _, _, requests, asked = self.compare("wide.parquet", set())
        self.assertEqual(len(asked), 2 + requests)

    def test_what_is_no_parquet_file_is_said_to_be_none(self):
        with self.assertRaisesRegex(OSError, "no Parquet file"):
            self.example.read_columns(self.url("none.parquet"), set())
        with self.assertRaisesRegex(OSError, "NOT_FOUND.*404"):
            self.example.read_columns(self.url("missing.parquet"), set())


if __name__ == "__main__":
    unittest.main()
