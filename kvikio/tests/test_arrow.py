"""pyarrow reads a Parquet file whose bytes come by KvikIO, and its column chunks come in one batch. Environment: FILES, a
folder that an HTTP server with ranges serves at FILES_URL."""

import io
import os
import unittest

import raskio_kvikio

import kvikio
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 200_000


class KvikioFile(io.RawIOBase):
    """A remote object as Python's files are, for libraries that want one."""

    def __init__(self, file):
        super().__init__()
        self.file, self.at, self.reads = file, 0, 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=0):
        self.at = offset + (0, self.at, self.file.nbytes())[whence]
        return self.at

    def readinto(self, buffer):
        size = min(len(buffer), self.file.nbytes() - self.at)
        if size:
            self.file.pread(np.frombuffer(buffer, dtype=np.uint8), size, self.at).get()
            self.reads += 1
        self.at += size
        return size


class Arrow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        numbers = np.arange(ROWS)
        cls.table = pa.table(
            {"id": numbers, "square": numbers * numbers % 1000, "name": [f"row {i % 977}" for i in range(ROWS)]}
        )
        cls.path = os.path.join(os.environ["FILES"], "table.parquet")
        pq.write_table(cls.table, cls.path, row_group_size=ROWS // 4)
        cls.url = os.environ["FILES_URL"] + "/table.parquet"

    def tearDown(self):
        self.assertEqual(raskio_kvikio.status().left_to_kvikio, 0)

    def test_a_table(self):
        file = KvikioFile(kvikio.RemoteFile.open_http(self.url))
        self.assertTrue(pq.read_table(file).equals(self.table))
        self.assertGreater(file.reads, 1)
        self.assertTrue(raskio_kvikio.enabled())

    def test_columns_by_a_batch(self):
        remote = kvikio.RemoteFile.open_http(self.url)
        metadata = pq.ParquetFile(KvikioFile(remote)).metadata
        chunks = []
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(column)
                first = chunk.dictionary_page_offset or chunk.data_page_offset
                chunks.append((first, chunk.total_compressed_size))
        buffers = [np.zeros(size, dtype=np.uint8) for _, size in chunks]
        batch = raskio_kvikio.read_batch(
            [(remote, first, size, buffer) for (first, size), buffer in zip(chunks, buffers)]
        )
        self.assertEqual(batch.get(), sum(size for _, size in chunks))
        with open(self.path, "rb") as local:
            for (first, size), buffer in zip(chunks, buffers):
                local.seek(first)
                self.assertEqual(buffer.tobytes(), local.read(size))


if __name__ == "__main__":
    unittest.main()
