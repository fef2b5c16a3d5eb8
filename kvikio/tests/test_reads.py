"""What a user of KvikIO sees, release by release. Runs with KvikIO alone (NATIVE=1) and with RaskIO below it: what both
must do is tested in both, so that what is expected here is what KvikIO does.

Environment: SERVER, the scripted server's URL; RASKIO_KVIKIO and KVIKIO_* as the caller wants them.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import unittest
import urllib.request

NATIVE = os.environ.get("NATIVE") == "1"
if not NATIVE:
    import raskio_kvikio

import kvikio
import kvikio.defaults
import numpy as np

from scripted_server import pattern

SERVER = os.environ["SERVER"]
RELEASE = tuple(int(part) for part in kvikio.__version__.split(".")[:2])
MULTI_POLL = RELEASE >= (26, 8) and os.environ.get("KVIKIO_REMOTE_IO_BACKEND") == "MULTI_POLL"
ours = unittest.skipIf(NATIVE, "KvikIO alone does not promise this")


def requests():
    """What the server was asked since the last look."""
    with urllib.request.urlopen(SERVER + "/requests") as reply:
        return json.load(reply)


def opened(path, nbytes=None):
    return kvikio.RemoteFile.open_http(SERVER + path, nbytes)


def read(file, size=None, offset=0):
    """The bytes, between guards that must stay."""
    size = file.nbytes() - offset if size is None else size
    memory = np.full(size + 128, 0xEE, dtype=np.uint8)
    got = file.pread(memory[64 : 64 + size], size, offset).get()
    assert got == size, (got, size)
    assert (memory[:64] == 0xEE).all() and (memory[64 + size :] == 0xEE).all()
    return memory[64 : 64 + size].tobytes()


@contextlib.contextmanager
def captured():
    """Standard output and standard error of the whole process, C++ included."""
    import tempfile

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        said = {}
        saved = [os.dup(1), os.dup(2)]
        sys.stdout.flush(), sys.stderr.flush()
        os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
        try:
            yield said
        finally:
            import ctypes

            ctypes.CDLL(None).fflush(None)
            os.dup2(saved[0], 1), os.dup2(saved[1], 2)
            os.close(saved[0]), os.close(saved[1])
            for name, file in (("out", out), ("err", err)):
                file.seek(0)
                said[name] = file.read().decode()


class Reads(unittest.TestCase):
    def setUp(self):
        requests()

    @ours
    def test_it_is_raskio_that_reads(self):
        before = raskio_kvikio.status()
        self.assertTrue(before.enabled, before)
        self.assertTrue(raskio_kvikio.enabled())
        self.assertEqual(read(opened("/data/100")), pattern(0, 100))
        after = raskio_kvikio.status()
        self.assertEqual((after.reads - before.reads, after.bytes - before.bytes), (1, 100))
        self.assertEqual((after.size_probes - before.size_probes, after.left_to_kvikio), (1, 0), after)
        self.assertIn("libraskio.so.0", after.raskio)
        self.assertIn("libkvikio", after.kvikio)

    def test_every_part_of_an_object(self):
        file = opened("/data/1000003")
        self.assertEqual(file.nbytes(), 1000003)
        for offset, size in ((0, 1), (1000002, 1), (0, 1000003), (251, 4096), (7, 999_000)):
            self.assertEqual(read(file, size, offset), pattern(offset, size))

    def test_a_read_of_many_requests(self):
        file = opened("/data/1000003")
        with kvikio.defaults.set({"task_size": 65536}):
            requests()
            self.assertEqual(read(file), pattern(0, 1000003))
            self.assertEqual(len([r for r in requests() if r[0] == "GET"]), 16)

    @unittest.skipIf(NATIVE and RELEASE < (26, 8), "KvikIO asked the server for a range without bytes")
    def test_nothing_is_read_at_once(self):
        file = opened("/data/10")
        requests()
        buffer = np.empty(0, dtype=np.uint8)
        future = file.pread(buffer, 0, 0)
        if not NATIVE:
            self.assertTrue(future.done())
        self.assertEqual(future.get(), 0)
        self.assertEqual(file.pread(buffer, 0, 10_000).get(), 0)
        self.assertEqual(requests(), [])

    def test_a_known_size_is_not_asked_for(self):
        file = opened("/data/100", 50)
        self.assertEqual(file.nbytes(), 50)
        self.assertEqual(requests(), [])
        self.assertEqual(read(file), pattern(0, 50))

    def test_a_future_says_when_it_is_done(self):
        file = opened("/slow/0.3/100")
        future = file.pread(np.empty(100, dtype=np.uint8), 100, 0)
        self.assertFalse(future.done())
        self.assertEqual(future.get(), 100)

    def test_a_range_beyond_the_end(self):
        file = opened("/data/100")
        requests()
        buffer = np.empty(20, dtype=np.uint8)
        with self.assertRaisesRegex(ValueError, r"cannot read 90\+20 bytes into a 100 bytes file \(http.*/data/100\)"):
            if MULTI_POLL:
                file.pread(buffer, 20, 90)
            else:
                future = file.pread(buffer, 20, 90)
                future.get()
        with self.assertRaisesRegex(ValueError, r"cannot read 200\+1 bytes into a 100 bytes file"):
            file.pread(buffer, 1, 200).get()
        self.assertEqual(requests(), [])

    def test_a_server_without_ranges(self):
        file = opened("/whole/1000")
        # KvikIO's reactors have words of their own for it; RaskIO has those of its threads in both cases.
        expected = (OverflowError, r"maybe the server doesn't support file ranges\?")
        if NATIVE and MULTI_POLL:
            expected = (RuntimeError, "maybe range support missing")
        with self.assertRaisesRegex(*expected):
            read(file, 10, 10)
        self.assertEqual(read(file), pattern(0, 1000))

    def test_statuses_that_are_final(self):
        for status in (400, 403, 404):
            file = opened(f"/always/{status}/100")
            requests()
            with self.assertRaisesRegex(
                RuntimeError,
                ("curl_multi transfer failed " if NATIVE and MULTI_POLL else r"curl_easy_perform\(\) error ")
                + (r"\(HTTP response code said error" if NATIVE and MULTI_POLL and RELEASE == (26, 8)
                   else rf"\(The requested URL returned error: {status}"),
            ):
                read(file)
            self.assertEqual(len(requests()), 1)

    def test_retries_are_made_and_told(self):
        if NATIVE and MULTI_POLL and RELEASE == (26, 8):
            self.skipTest("the first reactors of KvikIO retry nothing")
        file = opened(f"/busy/1/{os.getpid()}-{id(self)}/100")
        with captured() as said:
            self.assertEqual(read(file), pattern(0, 100))
        where = said["err"] if RELEASE >= (26, 10) else said["out"]
        self.assertIn("KvikIO: Got HTTP code 503. Retrying after 500ms (attempt 1 of 3).", where, said)
        self.assertEqual(where.count("Retrying"), 1, said)

    def test_attempts_that_are_used_up(self):
        if NATIVE and MULTI_POLL and RELEASE == (26, 8):
            self.skipTest("the first reactors of KvikIO retry nothing")
        file = opened("/always/503/100")
        requests()
        with kvikio.defaults.set({"http_max_attempts": 2}), captured():
            with self.assertRaisesRegex(
                RuntimeError,
                # Its reactors leave the first words out.
                ("" if NATIVE and MULTI_POLL else "^KvikIO failure at: .*: ")
                + r"KvikIO: HTTP request reached maximum number of attempts \(2\)\. Reason: Got HTTP code 503\.",
            ):
                read(file)
        self.assertEqual(len(requests()), 2)

    def test_the_statuses_worth_a_retry_are_the_users(self):
        if NATIVE and MULTI_POLL and RELEASE == (26, 8):
            self.skipTest("the first reactors of KvikIO retry nothing")
        file = opened("/always/418/100")
        with kvikio.defaults.set({"http_status_codes": [418], "http_max_attempts": 1}), captured():
            with self.assertRaisesRegex(RuntimeError, "maximum number of attempts"):
                read(file)
        with self.assertRaisesRegex(RuntimeError, "returned error: 418"):
            read(file)

    def test_an_attempt_that_takes_too_long(self):
        if NATIVE and MULTI_POLL and RELEASE == (26, 8):
            self.skipTest("the first reactors of KvikIO retry nothing")
        file = opened("/slow/2/100")
        with kvikio.defaults.set({"http_timeout": 1, "http_max_attempts": 1}), captured():
            with self.assertRaisesRegex(
                RuntimeError, r"reached maximum number of attempts \(1\)\. Reason: (Operation timed out|Transport error)"
            ):
                read(file)

    def test_sizes_that_cannot_be_had(self):
        with self.assertRaisesRegex(RuntimeError, r"curl_easy_perform\(\) error \(The requested URL returned error: 404"):
            opened("/gone/100")
        with self.assertRaisesRegex(RuntimeError, "cannot get size of http.*, content-length not provided by the server"):
            opened("/unsized/100")

    @ours
    def test_redirects_are_followed(self):
        self.assertEqual(read(opened("/moved/1000"), 100, 50), pattern(50, 100))

    @ours
    def test_replies_that_are_not_what_was_asked_for(self):
        for path in ("/short/100", "/wrong/100"):
            with kvikio.defaults.set({"http_max_attempts": 1}):
                with self.assertRaisesRegex(RuntimeError, "the reply is not what was asked for"):
                    read(opened(path))

    @ours
    def test_an_object_that_is_replaced(self):
        name = f"{os.getpid()}-{id(self)}"
        first = opened(f"/changing/{name}/1000")
        self.assertEqual(read(first), pattern(0, 1000))
        urllib.request.urlopen(urllib.request.Request(f"{SERVER}/changing/{name}", method="PUT")).close()
        # The handle that was made before, one with a known size, one that asks: all read the new one.
        self.assertEqual(read(first), pattern(0, 1000, 1))
        urllib.request.urlopen(urllib.request.Request(f"{SERVER}/changing/{name}", method="PUT")).close()
        self.assertEqual(read(opened(f"/changing/{name}/1000", 1000)), pattern(0, 1000, 2))
        urllib.request.urlopen(urllib.request.Request(f"{SERVER}/changing/{name}", method="PUT")).close()
        self.assertEqual(read(opened(f"/changing/{name}/1000")), pattern(0, 1000, 3))

    def test_an_object_that_has_grown(self):
        name = f"/growing/{os.getpid()}-{id(self)}-{NATIVE}"
        self.assertEqual(read(opened(f"{name}/1000")), pattern(0, 1000))
        urllib.request.urlopen(urllib.request.Request(SERVER + name, method="PUT")).close()
        # Whoever made this handle knows the new size; what an older one has learned does not count.
        self.assertEqual(read(opened(f"{name}/1000", 2000), 500, 1200), pattern(1200, 500))
        urllib.request.urlopen(urllib.request.Request(SERVER + name, method="PUT")).close()
        if NATIVE:
            return
        file, memory, other = opened(f"{name}/1000", 3000), np.zeros(1500, dtype=np.uint8), np.zeros(7, dtype=np.uint8)
        self.assertEqual(raskio_kvikio.read_batch([(file, 1400, 1500, memory), (file, 0, 7, other)]).results(), [1500, 7])
        self.assertEqual(memory.tobytes() + other.tobytes(), pattern(1400, 1500) + pattern(0, 7))

    @ours
    def test_a_handle_that_takes_an_object_for_longer_than_it_is(self):
        read(opened("/data/100"))
        for size, offset in ((10, 150), (200, 0)):
            with self.assertRaisesRegex(RuntimeError, "returned error: 416|the reply is not what was asked for"):
                read(opened("/data/100", 200), size, offset)

    def test_a_presigned_url(self):
        url = f"{SERVER}/headless/12345?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=abc"
        file = kvikio.RemoteFile.open_s3_presigned_url(url)
        self.assertEqual(file.nbytes(), 12345)
        self.assertEqual([r[0] for r in requests()], ["GET"])
        self.assertEqual(read(file, 1000, 5), pattern(5, 1000))

    def test_a_public_object(self):
        file = kvikio.RemoteFile.open_s3_public(SERVER + "/data/4321")
        self.assertEqual(file.nbytes(), 4321)
        self.assertEqual(read(file), pattern(0, 4321))

    def test_webhdfs(self):
        file = kvikio.RemoteFile.open_webhdfs(SERVER + "/webhdfs/v1/100000?user.name=anna")
        self.assertEqual(file.nbytes(), 100000)
        self.assertEqual(read(file, 5000, 123), pattern(123, 5000))
        seen = requests()
        self.assertTrue(all("user.name=anna" in path for _, path, _ in seen), seen)
        self.assertTrue(any("op=OPEN&offset=123&length=5000" in path for _, path, _ in seen), seen)

    def test_open_finds_the_kind(self):
        file = kvikio.RemoteFile.open(SERVER + "/data/77")
        self.assertEqual(read(file), pattern(0, 77))
        self.assertIn("/data/77", str(file))

    def test_many_threads(self):
        file, failures = opened("/data/1000003"), []

        def work(seed):
            try:
                for step in range(20):
                    offset = (seed * 7919 + step * 104729) % 990_000
                    assert read(file, 10_000, offset) == pattern(offset, 10_000)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(failures, [])

    @ours
    def test_a_handle_may_go_before_its_read_is_over(self):
        buffer = np.zeros(100, dtype=np.uint8)
        future = opened("/slow/0.2/100").pread(buffer, 100, 0)
        self.assertEqual(future.get(), 100)
        self.assertEqual(buffer.tobytes(), pattern(0, 100))

    @ours
    def test_settings_are_those_of_the_call(self):
        file = opened("/data/100000")
        for task, expected in ((50_000, 2), (100_000, 1), (10_000, 10)):
            with kvikio.defaults.set({"task_size": task}):
                requests()
                read(file)
                self.assertEqual(len(requests()), expected)

    @ours
    def test_a_child_of_a_fork_reads(self):
        file = opened("/data/1000")
        read(file)
        pid = os.fork()
        if pid == 0:
            good = False
            try:
                good = read(file) == pattern(0, 1000) and read(opened("/data/500")) == pattern(0, 500)
            finally:
                os._exit(0 if good else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(read(file), pattern(0, 1000))

    @ours
    def test_a_batch(self):
        file, other = opened("/data/100000"), opened("/data/999")
        ranges = [(file, 0, 100), (file, 150, 50), (file, 4096, 10), (file, 0, 100), (other, 1, 7), (file, 99_990, 20)]
        for gap, expected in ((64, 3), (raskio_kvikio.batch.NEVER, 5)):
            buffers = [np.zeros(size, dtype=np.uint8) for _, _, size in ranges]
            before = raskio_kvikio.status().batch_items
            requests()
            batch = raskio_kvikio.read_batch(
                [(f, offset, size, buffer) for (f, offset, size), buffer in zip(ranges, buffers)], coalesce_gap=gap
            )
            self.assertEqual(len(batch), 6)
            results = batch.results()
            self.assertEqual(results[:5], [100, 50, 10, 100, 7])
            self.assertIsInstance(results[5], ValueError)
            for (_, offset, size), buffer in list(zip(ranges, buffers))[:5]:
                self.assertEqual(buffer.tobytes(), pattern(offset, size))
            self.assertTrue(batch.done())
            with self.assertRaisesRegex(ValueError, r"cannot read 99990\+20 bytes into a 100000 bytes file"):
                batch.get()
            self.assertEqual(len(requests()), expected)
            # With KvikIO's reactors a range beyond the end is refused before it is one of the batch.
            self.assertEqual(raskio_kvikio.status().batch_items - before, 5)
        whole = np.zeros(999, dtype=np.uint8)
        self.assertEqual(raskio_kvikio.read_batch([(other, 0, 999, whole)]).get(), 999)
        self.assertEqual(raskio_kvikio.read_batch([]).get(), 0)

    @ours
    def test_a_batch_of_which_some_fail(self):
        good, bad = opened("/data/1000"), opened("/always/404/1000")
        buffers = [np.zeros(100, dtype=np.uint8) for _ in range(4)]
        reads = [(good, 0, 100, buffers[0]), (bad, 0, 100, buffers[1]), (good, 500, 100, buffers[2]),
                 (bad, 500, 100, buffers[3])]  # fmt: skip
        results = raskio_kvikio.read_batch(reads, coalesce_gap=1000).results()
        self.assertEqual([r if isinstance(r, int) else type(r) for r in results], [100, RuntimeError, 100, RuntimeError])
        self.assertIn("The requested URL returned error: 404", str(results[1]))
        self.assertEqual(buffers[2].tobytes(), pattern(500, 100))

    @ours
    def test_a_batch_that_is_given_up_leaves_nothing_behind(self):
        def reads():
            yield opened("/data/1000"), 0, 100, np.zeros(100, dtype=np.uint8)
            raise KeyError("no more")

        with self.assertRaises(KeyError):
            raskio_kvikio.read_batch(reads())
        # This thread reads as before.
        self.assertEqual(read(opened("/data/1000")), pattern(0, 1000))

    @ours
    def test_a_large_batch(self):
        file, count = opened("/data/1000003"), 3000
        memory = np.zeros(count * 100, dtype=np.uint8)
        parts = [memory[i * 100 : (i + 1) * 100] for i in range(count)]
        reads = [(file, (i * 7919) % 999_000, 100, part) for i, part in enumerate(parts)]
        self.assertEqual(raskio_kvikio.read_batch(reads).get(), count * 100)
        for _, offset, _, part in reads[::97]:
            self.assertEqual(part.tobytes(), pattern(offset, 100))


@unittest.skipIf(RELEASE < (26, 10), "statistics came with 26.10")
class Statistics(unittest.TestCase):
    """The same numbers with KvikIO alone and with RaskIO: this runs in both."""

    def summary(self, work):
        with kvikio.SummaryMonitor() as monitor:
            with captured():
                work()
            return monitor.get()

    def test_reads_are_counted(self):
        file = opened("/data/100000")
        with kvikio.defaults.set({"task_size": 10_000}):
            got = self.summary(lambda: (read(file), read(file, 10, 5)))
        self.assertEqual((got.num_ops, got.num_reads, got.num_errors), (2, 2, 0))
        self.assertEqual((got.bytes_requested, got.bytes_transferred, got.bytes_read), (100_010,) * 3)

    def test_failures_are_counted(self):
        file = opened("/always/404/100")

        def work():
            for _ in range(2):
                with contextlib.suppress(RuntimeError):
                    read(file)

        got = self.summary(work)
        self.assertEqual((got.num_ops, got.num_errors, got.bytes_transferred), (2, 2, 0))

    def test_a_range_beyond_the_end_is_counted_as_kvikio_counts_it(self):
        file = opened("/data/100")

        def work():
            with contextlib.suppress(ValueError):
                file.pread(np.empty(20, dtype=np.uint8), 20, 90).get()

        got = self.summary(work)
        self.assertEqual((got.num_ops, got.num_errors), (0, 0))

    def test_nothing_read_is_counted_as_kvikio_counts_it(self):
        file = opened("/data/100")
        got = self.summary(lambda: file.pread(np.empty(0, dtype=np.uint8), 0, 0).get())
        self.assertEqual((got.num_ops, got.num_errors), (0, 0))

    def test_probes_retries_and_connections_are_counted(self):
        name = f"stat-{os.getpid()}-{id(self)}-{NATIVE}"
        got = self.summary(lambda: read(opened(f"/busy/2/{name}/100")))
        counted = got.counters
        self.assertEqual((counted["remote_size_probes"], counted["http_retries"]), (1, 2))
        self.assertGreaterEqual(counted["http_retry_backoff_ns"], 1_500_000_000)
        self.assertGreater(counted["remote_size_probing_ns"], 0)
        if not NATIVE:
            # KvikIO keeps connections for the whole process, and has one already.
            self.assertIn(counted["http_connections"], (0, 1, 2))
        self.assertEqual(got.by_backend["REMOTE_HTTP"]["num_ops"], 1)

    def test_webhdfs_is_counted_as_such(self):
        file = kvikio.RemoteFile.open_webhdfs(SERVER + "/webhdfs/v1/1000")
        got = self.summary(lambda: read(file))
        self.assertEqual((got.num_ops, got.by_backend["REMOTE_HDFS"]["num_ops"]), (1, 1))
        self.assertEqual(got.by_backend["REMOTE_HDFS"]["bytes_transferred"], 1000)


if __name__ == "__main__":
    unittest.main()
