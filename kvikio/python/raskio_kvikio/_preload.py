"""For Dask: `dask worker --preload raskio_kvikio`, or distributed.worker.preload in its configuration."""

from ._library import status


def dask_setup(worker):
    """Called by Dask in each worker. Importing the package has done the work already; this says so in the log, or why
    nothing came of it."""
    import logging

    now = status()
    log = logging.getLogger("distributed.worker")
    if now.enabled or now.reason_code == "no_kvikio":
        log.info("raskio_kvikio: KvikIO's remote reads go through RaskIO")
    else:
        log.warning("raskio_kvikio has no effect: %s", now.reason)
