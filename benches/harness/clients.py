"""The programs that are compared: how each is built, and its command line for one case.

Every client prints one line of JSON a repetition, with at least `bytes`, `requests`, `seconds`, `cpu_seconds` and
`adler32`, the check sum of all that it read.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from . import Unavailable

BENCHES = Path(__file__).resolve().parent.parent
ROOT = BENCHES.parent
# --no-deps: what a host read needs; the CUDA libraries that the wheels name are gigabytes.
KVIKIO_WHEELS = [
    "kvikio-cu13==26.10.0",
    "libkvikio-cu13==26.10.0",
    "rapids-logger==0.3.0",
    "cuda-pathfinder",
    "nvidia-cufile",
    "numpy",
    "packaging",
]


@dataclass(frozen=True)
class Client:
    """One program in one configuration. `threads` and `width` mean what its own settings call them."""

    kind: str  # raw, curl, kvikio, raskio
    threads: int
    width: int = 0  # connections, transfers, or the budget of requests in flight; 0: the default
    backend: str = ""  # kvikio, raskio
    buffer: int = 0  # curl: bytes of its receive buffer

    @property
    def label(self):
        if self.kind == "raw":
            threads = "" if self.threads == 1 else f", {self.threads} threads"
            return f"raw, {self.width} connections{threads}"
        if self.kind == "curl":
            return f"curl multi, {self.width} transfers, {self.buffer >> 10} KiB buffer"
        name = {"kvikio": "KvikIO", "raskio": "RaskIO"}[self.kind]
        if self.backend == "EASY_THREADPOOL":
            return f"{name} EASY_THREADPOOL, {self.threads} threads"
        reactors = "1 reactor" if self.threads == 1 else f"{self.threads} reactors"
        return f"{name} MULTI_POLL, {reactors}, {self.width} requests"


class Programs:
    """Builds what the chosen kinds need into `folder`; `missing` says why a kind cannot run."""

    def __init__(self, folder, kinds, prefix=None, kvikio_python=None):
        self.folder, self.missing = folder, {}
        self._prefix, self._python = prefix, kvikio_python
        folder.mkdir(parents=True, exist_ok=True)
        for kind in kinds:
            try:
                getattr(self, f"_build_{kind}")()
            except Unavailable as reason:
                self.missing[kind] = str(reason)

    def command(self, client, case, url, reps, certificate):
        """The command and the environment of one run."""
        job = [url, str(case.total), str(case.request), str(case.stride), str(reps)]
        # Settings of the caller's shell must not leak into the comparison.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KVIKIO_") and k != "RUST_LOG"}
        environment["CURL_CA_BUNDLE"] = str(certificate)
        if client.kind == "raw":
            return [str(self.folder / "rawlimit"), *job, str(client.width), str(client.threads)], environment
        if client.kind == "curl":
            return [str(self.folder / "curlmulti"), *job, str(client.width), str(client.buffer)], environment
        if client.kind == "raskio":
            settings = [case.mode, client.backend, str(client.threads), str(client.width)]
            return [str(self.folder / "raskio_read"), *job, *settings], environment
        environment |= {
            "KVIKIO_REMOTE_IO_BACKEND": client.backend,
            "KVIKIO_TASK_SIZE": str(case.request),
            "KVIKIO_NTHREADS": str(client.threads),
            "KVIKIO_REMOTE_IO_NUM_REACTORS": str(client.threads),
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [self._stub, environment.get("LD_LIBRARY_PATH")])),
        }
        if client.width:
            environment["KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS"] = str(client.width)
        script = {"large": "kvikio_read.py", "small": "kvikio_small.py", "device": "kvikio_device.py"}[case.mode]
        arguments = job if case.mode == "small" else [url, str(case.total), str(reps)]
        return [str(self._python), str(BENCHES / "peers" / script), *arguments], environment

    def _compile(self, source, target, *flags):
        command = ["gcc", "-O2", "-Wall", "-o", str(self.folder / target), str(BENCHES / source), *flags]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            raise Unavailable("no gcc here; `apt-get install gcc` brings it") from None
        if done.returncode:
            raise Unavailable(f"{source} does not build: {done.stderr.strip()}")

    def _build_raw(self):
        self._compile("peers/rawlimit.c", "rawlimit", "-pthread")

    def _build_curl(self):
        probe = ["gcc", "-E", "-include", "curl/curl.h", "-x", "c", "/dev/null"]
        if subprocess.run(probe, capture_output=True).returncode:
            raise Unavailable("no curl/curl.h here; `apt-get install gcc libcurl4-openssl-dev` brings it")
        self._compile("peers/curlmulti.c", "curlmulti", "-lcurl")

    def _build_raskio(self):
        include = self._prefix / "include" if self._prefix else ROOT / "include"
        library = self._prefix / "lib" if self._prefix else ROOT / "target" / "release"
        for path, remedy in (
            (include / "raskio.h", "check out the whole project"),
            (library / "libraskio.so", "run `cargo build --release` first"),
        ):
            if not path.exists():
                raise Unavailable(f"no {path}; {'check --prefix' if self._prefix else remedy}")
        # The tree's library has a SONAME with a version but no link of that name: give it one beside the program.
        link = self.folder / "libraskio.so.0"
        link.unlink(missing_ok=True)
        link.symlink_to((library / "libraskio.so").resolve())
        flags = [f"-I{include}", f"-L{library}", "-lraskio", f"-Wl,-rpath,{self.folder}:{library}", "-pthread", "-ldl"]
        self._compile("raskio_read.c", "raskio_read", *flags)

    def _build_kvikio(self):
        self._stub = ""
        if not has_driver():
            stub = self.folder / "cuda_stub"
            stub.mkdir(exist_ok=True)
            self._compile("peers/cuda_stub.c", "cuda_stub/libcuda.so.1", "-shared", "-fPIC")
            self._stub = str(stub)
        if self._python is None:
            self._python = self._make_environment()
        probe = [str(self._python), "-c", "import numpy, kvikio; print(kvikio.__version__)"]
        # Without a stub the driver may be one that the caller's LD_LIBRARY_PATH finds.
        environment = os.environ | ({"LD_LIBRARY_PATH": self._stub} if self._stub else {})
        done = subprocess.run(probe, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise Unavailable(f"{self._python} cannot import kvikio: {done.stderr.strip()}")

    def _make_environment(self):
        folder = self.folder / "kvikio"
        python = folder / "bin" / "python"
        marker = folder / "wheels.txt"
        wheels = "\n".join(KVIKIO_WHEELS)
        if marker.exists() and marker.read_text() == wheels:
            return python
        print("installing KvikIO's wheels for the comparison ...", file=sys.stderr)
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "--no-deps", *KVIKIO_WHEELS],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise Unavailable(f"KvikIO's wheels cannot be installed: {(done.stderr or done.stdout).strip()}")
        marker.write_text(wheels)
        return python


def has_driver():
    """Whether the machine has an NVIDIA driver of its own."""
    probe = [sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"]
    return subprocess.run(probe, capture_output=True).returncode == 0
