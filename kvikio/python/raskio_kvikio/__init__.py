"""KvikIO's remote reads through RaskIO: import this before kvikio.

    import raskio_kvikio
    import kvikio

`enabled()` says whether it works, `status()` what went on; RASKIO_KVIKIO=off switches it off. `python -m raskio_kvikio
program.py` runs a program that knows nothing of it. A Dask worker takes it as a preload (`--preload raskio_kvikio`).
"""

from ._library import Status, enabled, status, stop
from ._preload import dask_setup
from .batch import Batch, read_batch

__all__ = ["Batch", "Status", "dask_setup", "enabled", "read_batch", "status", "stop"]
