"""Reads into CUDA memory, as CuPy's arrays are handed over. Runs over the simulated driver (LD_LIBRARY_PATH), and over a
real one, there also with KvikIO alone (NATIVE=1). Environment: SERVER."""

import ctypes
import os
import threading
import unittest
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

NATIVE = os.environ.get("NATIVE") == "1"
if not NATIVE:
    import raskio_kvikio

import kvikio
import kvikio.defaults
import numpy as np

from scripted_server import pattern

SERVER = os.environ["SERVER"]
SIZE = 1_000_003


class Cuda:
    """A few of the driver's functions; those of the second version where there are two."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)

    def __call__(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        assert result == 0, f"{name}: {result}"

    def context(self, device):
        context = c_void_p()
        self("cuCtxCreate_v2", byref(context), 0, device)
        return context

    def devices(self):
        count = c_int()
        self("cuDeviceGetCount", byref(count))
        return count.value


class DeviceArray:
    """So many bytes of CUDA memory of the current context, as an array of the CUDA array interface."""

    def __init__(self, cuda, size):
        self.cuda, self.size, self.pointer = cuda, size, c_uint64()
        cuda("cuMemAlloc_v2", byref(self.pointer), c_size_t(size))
        cuda("cuMemsetD8_v2", self.pointer, ctypes.c_ubyte(0xEE), c_size_t(size))
        # It is asynchronous, and the driver runs the contexts of a device in turns: without this it could come after the read.
        cuda("cuCtxSynchronize")

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.pointer.value, False), "shape": (self.size,), "typestr": "|u1", "version": 3}

    def bytes(self):
        host = np.zeros(self.size, dtype=np.uint8)
        self.cuda("cuMemcpyDtoH_v2", c_void_p(host.ctypes.data), self.pointer, c_size_t(self.size))
        return host.tobytes()

    def part(self, offset, size):
        part = object.__new__(DeviceArray)
        part.cuda, part.size, part.pointer = self.cuda, size, c_uint64(self.pointer.value + offset)
        return part


class Device(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cuda = Cuda()
        cls.context = cls.cuda.context(0)
        cls.file = kvikio.RemoteFile.open_http(f"{SERVER}/data/{SIZE}")

    def tearDown(self):
        if not NATIVE:
            self.assertEqual(raskio_kvikio.status().left_to_kvikio, 0, raskio_kvikio.status())

    def test_a_whole_object(self):
        array = DeviceArray(self.cuda, SIZE)
        self.assertEqual(self.file.pread(array).get(), SIZE)
        self.assertEqual(array.bytes(), pattern(0, SIZE))

    def test_a_part_leaves_the_rest_alone(self):
        array = DeviceArray(self.cuda, 3000)
        self.assertEqual(self.file.pread(array.part(1000, 1000), 1000, 12_345).get(), 1000)
        self.assertEqual(array.bytes(), b"\xee" * 1000 + pattern(12_345, 1000) + b"\xee" * 1000)

    @unittest.skipIf(NATIVE, "KvikIO's reactors refuse them")
    def test_requests_larger_than_a_bounce_buffer(self):
        array = DeviceArray(self.cuda, SIZE)
        with kvikio.defaults.set({"bounce_buffer_size": 65_536, "task_size": 500_000}):
            self.assertEqual(self.file.pread(array).get(), SIZE)
        self.assertEqual(array.bytes(), pattern(0, SIZE))

    def test_many_threads_and_two_contexts(self):
        failures = []

        def work(seed):
            try:
                # A context of this thread, on each device in turn; the first two share one device where there is one.
                self.cuda.context(seed % self.cuda.devices())
                for step in range(5):
                    offset = (seed * 7919 + step * 104_729) % 900_000
                    array = DeviceArray(self.cuda, 100_000)
                    assert self.file.pread(array, 100_000, offset).get() == 100_000
                    found, expected = array.bytes(), pattern(offset, 100_000)
                    wrong = [at for at in range(100_000) if found[at] != expected[at]]
                    assert not wrong, f"thread {seed}, step {step}: {len(wrong)} wrong from {wrong[0]} on, {found[wrong[0]]}"
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(failures, [])

    def test_a_thread_without_a_context(self):
        array, failures = DeviceArray(self.cuda, 1000), []

        def work():
            try:
                self.file.pread(array, 1000, 7).get()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(array.bytes(), pattern(7, 1000))

    def test_host_memory_beside_it(self):
        host = np.zeros(1000, dtype=np.uint8)
        self.assertEqual(self.file.pread(host, 1000, 3).get(), 1000)
        self.assertEqual(host.tobytes(), pattern(3, 1000))

    @unittest.skipIf(NATIVE, "KvikIO has no batches")
    def test_a_batch_into_both(self):
        arrays = [DeviceArray(self.cuda, 100) for _ in range(10)]
        host = np.zeros(100, dtype=np.uint8)
        reads = [(self.file, 1000 * i, 100, array) for i, array in enumerate(arrays)] + [(self.file, 5, 100, host)]
        self.assertEqual(raskio_kvikio.read_batch(reads).get(), 1100)
        for i, array in enumerate(arrays):
            self.assertEqual(array.bytes(), pattern(1000 * i, 100))
        self.assertEqual(host.tobytes(), pattern(5, 100))

    @unittest.skipIf(not hasattr(kvikio, "SummaryMonitor"), "statistics came with 26.10")
    def test_what_monitors_see(self):
        array = DeviceArray(self.cuda, 1000)
        with kvikio.SummaryMonitor() as monitor:
            self.file.pread(array, 1000, 0).get()
            self.assertEqual((monitor.get().num_ops, monitor.get().bytes_read), (1, 1000))


class CuPy(unittest.TestCase):
    """Where there is CuPy, which needs a GPU."""

    def setUp(self):
        try:
            import cupy

            cupy.zeros(1)
        except Exception as error:
            self.skipTest(f"no CuPy: {error}")
        self.cupy = cupy
        self.file = kvikio.RemoteFile.open_http(f"{SERVER}/data/{SIZE}")

    def test_arrays_from_many_threads(self):
        failures, devices = [], self.cupy.cuda.runtime.getDeviceCount()

        def work(seed):
            try:
                with self.cupy.cuda.Device(seed % devices):
                    for step in range(10):
                        offset = (seed * 7919 + step * 104_729) % 900_000
                        array = self.cupy.zeros(100_000, dtype=self.cupy.uint8)
                        assert self.file.pread(array, 100_000, offset).get() == 100_000
                        assert self.cupy.asnumpy(array).tobytes() == pattern(offset, 100_000)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(failures, [])

    @unittest.skipIf(NATIVE, "KvikIO has no batches")
    def test_a_batch(self):
        arrays = [self.cupy.zeros(1000, dtype=self.cupy.uint8) for _ in range(50)]
        batch = raskio_kvikio.read_batch([(self.file, 1500 * i, 1000, array) for i, array in enumerate(arrays)])
        self.assertEqual(batch.get(), 50_000)
        for i, array in enumerate(arrays):
            self.assertEqual(self.cupy.asnumpy(array).tobytes(), pattern(1500 * i, 1000))


if __name__ == "__main__":
    unittest.main()
