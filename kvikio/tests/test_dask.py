"""A Dask cluster whose workers get the drop-in by preload. Environment: SERVER."""

import os
import unittest

import dask
from distributed import Client, LocalCluster

SERVER = os.environ["SERVER"]


def work(offset):
    """What a task does, in a worker: KvikIO, and nothing that knows of RaskIO."""
    import sys

    import kvikio
    import numpy as np

    from scripted_server import pattern

    data = np.zeros(10_000, dtype=np.uint8)
    file = kvikio.RemoteFile.open_http(SERVER + "/data/1000003")
    assert file.pread(data, 10_000, offset).get() == 10_000
    assert data.tobytes() == pattern(offset, 10_000)
    status = sys.modules["raskio_kvikio"].status()
    return os.getpid(), status.enabled, status.left_to_kvikio


class Dask(unittest.TestCase):
    def test_workers_read_through_the_preload(self):
        with dask.config.set({"distributed.worker.preload": ["raskio_kvikio"], "distributed.admin.tick.interval": "1s"}):
            with LocalCluster(
                n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, host="127.0.0.1"
            ) as cluster, Client(cluster) as client:
                results = client.gather(client.map(work, range(0, 400_000, 20_000)))
        self.assertEqual(len({pid for pid, _, _ in results} - {os.getpid()}), 2)
        self.assertEqual({(enabled, left) for _, enabled, left in results}, {(True, 0)})


if __name__ == "__main__":
    unittest.main()
