"""Many ranges of many objects in one call, merged where they are close to each other."""

from typing import Any, Iterable, List, Tuple, Union

from ._library import library

#: For `coalesce_gap`: one request for each range.
NEVER = 2**64 - 1


class Batch:
    """Reads that run as one operation. Keep it, or the destinations, until they are over."""

    def __init__(self, futures, destinations):
        self._futures, self._destinations, self._results = futures, destinations, None
        self._count = len(futures)

    def __len__(self):
        return self._count

    def done(self) -> bool:
        """Whether every read is over."""
        return self._results is not None or all(
            isinstance(future, BaseException) or future.done() for future in self._futures
        )

    def results(self) -> List[Union[int, BaseException]]:
        """Waits for all; the bytes of each read, or the exception that it ended with, in the order given."""
        if self._results is None:
            results = []
            for future in self._futures:
                try:
                    if isinstance(future, BaseException):
                        raise future
                    results.append(future.get())
                except Exception as error:
                    results.append(error)
            self._results, self._futures, self._destinations = results, [], []
        return self._results

    def get(self) -> int:
        """Waits for all; the bytes of all together. Raises the first exception, if a read ended with one."""
        results = self.results()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return sum(results)


def read_batch(
    reads: Iterable[Tuple[Any, int, int, Any]], *, coalesce_gap: int = 0, coalesce_max: int = 0
) -> Batch:
    """Starts the reads `(file, offset, size, array)`: so many bytes of a kvikio.RemoteFile, from there on, into an array
    (NumPy, CuPy, anything that KvikIO reads into).

    Ranges of one object that are at most `coalesce_gap` bytes apart become one request of at most `coalesce_max` bytes;
    0 is RaskIO's own measure, and `NEVER` merges none. One read that fails leaves the others alone.
    """
    futures: list = []
    destinations: list = []
    if library.raskio_kvikio_batch_begin() != 0:
        raise RuntimeError("read_batch was called while this thread collects another batch")
    try:
        for file, offset, size, array in reads:
            # The file too: KvikIO's own code, where reads are left to it, needs both to the end.
            destinations.append((file, array))
            try:
                futures.append(file.pread(array, size, offset))
            except (ValueError, RuntimeError, OverflowError) as error:
                # A range beyond the object, say: known at once, and this read's alone.
                futures.append(error)
    except BaseException:
        library.raskio_kvikio_batch_abandon()
        # Those that were left to KvikIO run already, and write into what goes away with this frame.
        Batch(futures, destinations).results()
        raise
    if library.raskio_kvikio_batch_submit(coalesce_gap, coalesce_max) < 0:
        raise MemoryError("the batch could not be handed over")
    return Batch(futures, destinations)
