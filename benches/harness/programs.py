"""Builds the clients, and says why one cannot be had."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

from . import Unavailable
from .clients import BENCHES, ROOT

# --no-deps: what a host read needs; the CUDA libraries that the wheels name are gigabytes.
KVIKIO_WHEELS = (
    "--no-deps",
    "kvikio-cu13==26.10.0",
    "libkvikio-cu13==26.10.0",
    "rapids-logger==0.3.0",
    "cuda-pathfinder",
    "nvidia-cufile",
    "numpy",
    "packaging",
)
SDK_WHEELS = ("awscrt==0.38.1", "boto3==1.44.8")
PLOT_WHEELS = ("matplotlib>=3.8",)


class Programs:
    """Builds what the chosen kinds need into `folder`; `missing` says why a kind cannot run."""

    def __init__(self, folder, kinds, prefix=None, kvikio_python=None):
        self.folder, self.missing, self.stub = folder, {}, ""
        self._prefix, self.kvikio, self.sdk = prefix, kvikio_python and str(kvikio_python), None
        folder.mkdir(parents=True, exist_ok=True)
        for kind in kinds:
            try:
                getattr(self, f"_build_{kind}")()
            except Unavailable as reason:
                self.missing[kind] = str(reason)

    def path(self, name):
        return str(self.folder / name)

    def _compile(self, source, target, *flags):
        command = [
            "gcc",
            "-O3",
            "-march=native",
            "-Wall",
            "-o",
            str(self.folder / target),
            str(BENCHES / source),
            *flags,
        ]
        done = execute(command, "no gcc here; `apt-get install gcc libc6-dev` brings it")
        if done.returncode:
            raise Unavailable(f"{source} does not build: {done.stderr.strip()}")

    def _build_raw(self):
        """With the OpenSSL inside RaskIO, else with the system's, else without TLS."""
        for flags in filter(None, (bundled_curl(), ["-lssl", "-lcrypto", "-pthread"])):
            with contextlib.suppress(Unavailable):
                return self._compile("peers/rawlimit.c", "rawlimit", "-DWITH_TLS", *flags)
        return self._compile("peers/rawlimit.c", "rawlimit", "-pthread")

    def _build_curl(self):
        self._compile_with_curl("peers/curlmulti.c", "curlmulti")

    def _build_easy(self):
        self._compile_with_curl("peers/curleasy.c", "curleasy")

    def _compile_with_curl(self, source, target):
        """With the libcurl inside RaskIO, so that RaskIO is what is compared; without it, with the system's."""
        if flags := bundled_curl():
            try:
                return self._compile(source, target, *flags)
            except Unavailable as reason:
                print(f"{target}: the system's libcurl, as the bundled one cannot be used: {reason}", file=sys.stderr)
        probe = ["gcc", "-E", "-include", "curl/curl.h", "-x", "c", "/dev/null"]
        if execute(probe, "no gcc here; `apt-get install gcc` brings it").returncode:
            raise Unavailable("no curl/curl.h here; `apt-get install libcurl4-openssl-dev` brings it")
        return self._compile(source, target, "-lcurl")

    def _build_raskio(self):
        include = self._prefix / "include" if self._prefix else ROOT / "include"
        library = self._prefix / "lib" if self._prefix else target_folder() / "release"
        for path, remedy in (
            (include / "raskio.h", "check out the whole project"),
            (library / "libraskio.so", "run `scripts/cargo.sh build --release` first"),
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
        if not has_driver():
            stub = self.folder / "cuda_stub"
            stub.mkdir(exist_ok=True)
            self._compile("peers/cuda_stub.c", "cuda_stub/libcuda.so.1", "-shared", "-fPIC")
            self.stub = str(stub)
        if self.kvikio is None:
            self.kvikio = python_with(self.folder / "kvikio", KVIKIO_WHEELS)
        # Without a stub the driver may be one that the caller's LD_LIBRARY_PATH finds.
        environment = os.environ | ({"LD_LIBRARY_PATH": self.stub} if self.stub else {})
        done = execute([self.kvikio, "-c", "import numpy, kvikio"], f"no {self.kvikio}", env=environment)
        if done.returncode:
            raise Unavailable(f"{self.kvikio} cannot import kvikio: {done.stderr.strip()}")

    def _build_awscrt(self):
        self.sdk = python_with(self.folder / "sdk", SDK_WHEELS)

    _build_boto3 = _build_awscrt

    def _build_object_store(self):
        target = self.folder / "object_store_target"
        print("building the client of the object_store crate ...", file=sys.stderr)
        # The cargo that the rest of the project is built with.
        script = '. scripts/common.sh; need_rust; cd benches/peers/object_store; exec "$CARGO" build "$@"'
        options = ["--release", "--locked", "--quiet", "--target-dir", str(target)]
        done = execute(["bash", "-c", script, "bash", *options], "no bash here", cwd=ROOT)
        if done.returncode:
            raise Unavailable(f"benches/peers/object_store does not build: {last_line(done)}")
        link = self.folder / "object_store"
        link.unlink(missing_ok=True)
        link.symlink_to(target / "release" / "bench-object-store")


def target_folder():
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")


def bundled_curl():
    """Flags to use the static libraries that RaskIO's release build made; None if they are not there."""
    build = target_folder() / "release" / "build"

    def newest(pattern):
        return max(build.glob(pattern), key=lambda path: path.stat().st_mtime, default=None)

    curl, zlib = newest("curl-sys-*/out/build/libcurl.a"), newest("libz-sys-*/out/lib/libz.a")
    ssl = newest("openssl-sys-*/out/openssl-build/install/lib*/libssl.a")
    if not (curl and ssl and zlib):
        return None
    includes = [f"-I{folder / 'include'}" for folder in (curl.parent.parent, ssl.parent.parent)]
    libraries = [str(path) for path in (curl, ssl, ssl.with_name("libcrypto.a"), zlib)]
    return ["-DCURL_STATICLIB", *includes, *libraries, "-pthread", "-ldl"]


def has_driver():
    """Whether the machine has an NVIDIA driver of its own."""
    probe = [sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"]
    return subprocess.run(probe, capture_output=True).returncode == 0


def python_for_plots(folder):
    """This interpreter if it has matplotlib, else one of a virtual environment."""
    if not subprocess.run([sys.executable, "-c", "import matplotlib"], capture_output=True).returncode:
        return sys.executable
    return python_with(folder, PLOT_WHEELS)


def python_with(folder, wheels):
    """The interpreter of a virtual environment with these wheels, made if need be."""
    python, marker, wanted = folder / "bin" / "python", folder / "wheels.txt", "\n".join(wheels)
    if marker.exists() and marker.read_text() == wanted:
        return str(python)
    names = ", ".join(re.split("[=>]", wheel)[0] for wheel in wheels if not wheel.startswith("-"))
    print(f"installing {names} ...", file=sys.stderr)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wheels],
    ):
        done = execute(command, f"no {command[0]}")
        if done.returncode:
            raise Unavailable(f"{names} cannot be installed: {last_line(done)}")
    marker.write_text(wanted)
    return str(python)


def execute(command, lacking, **options):
    try:
        return subprocess.run(command, capture_output=True, text=True, **options)
    except FileNotFoundError:
        raise Unavailable(lacking) from None


def last_line(done):
    return ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]
