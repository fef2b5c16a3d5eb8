"""Runs the tests of the drop-in against the wheels of every release of KvikIO, each in its own environment.

    run.py WHEEL PREFIX SIMCUDA [--all]

WHEEL is the wheel of raskio_kvikio, PREFIX where RaskIO is installed, SIMCUDA a folder with the simulated driver. `--all` adds KvikIO alone (that it does what the tests expect of it) and every
setting with every release.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import environments
from environments import BUILD, RELEASES, ROOT, python

HERE = Path(__file__).resolve().parent
NEWEST = RELEASES[-1]
ID, KEY = "MINIO1", "a/secret+key=with-signs"
OBJECTS = ("plain", "deep/er/and/deeper", "date=2025-09-15/x", "a+b", "!*'()", "a@2x", "~t", "a;b,c:d$e&f", "a b",
           "u-ü", "[x]{y}|z^`<>")  # fmt: skip


def compile_stub():
    """A libcuda.so.1 that knows no device: KvikIO alone reads nothing without one."""
    folder = BUILD / "stub"
    folder.mkdir(parents=True, exist_ok=True)
    source = ROOT / "benches" / "peers" / "cuda_stub.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", source], check=True)
    return str(folder)


def clean_environment():
    leaks = re.compile(r"^(AWS_|KVIKIO_|RASKIO_|(https?|all|no)_proxy$|CURL_CA_BUNDLE$|SSL_CERT_|RUST_LOG$)", re.IGNORECASE)
    kept = {k: v for k, v in os.environ.items() if not leaks.match(k) and k != "LD_LIBRARY_PATH"}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(HERE), "AWS_EC2_METADATA_DISABLED": "true"}


class S3Servers:
    """SeaweedFS and moto with the objects of test_s3.py."""

    def __enter__(self):
        sys.path.insert(0, str(ROOT / "tests_endpoints"))
        from servers import Server, free_port

        self.folder = tempfile.mkdtemp(prefix="raskio-kvikio-")
        identity = {"name": "test", "credentials": [{"accessKey": ID, "secretKey": KEY}], "actions": ["Admin"]}
        Path(self.folder, "identities.json").write_text(json.dumps({"identities": [identity]}))
        Path(self.folder, "data").mkdir()
        ports = [free_port() for _ in range(9)]
        tools = BUILD / "tools" / "bin"
        weed = [
            tools / "weed", "server", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=4",
            "-master.volumeSizeLimitMB=64", f"-master.port={ports[0]}", f"-master.port.grpc={ports[1]}",
            f"-volume.port={ports[2]}", f"-volume.port.grpc={ports[3]}", "-filer", f"-filer.port={ports[4]}",
            f"-filer.port.grpc={ports[5]}", "-s3", f"-s3.port={ports[6]}", f"-s3.port.grpc={ports[7]}",
            "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.config=identities.json",
        ]  # fmt: skip
        moto = [tools / "moto_server", "-H", "127.0.0.1", "-p", ports[8]]
        self.running = [
            Server([str(part) for part in weed], [ports[0], ports[2], ports[4], ports[6]], cwd=self.folder),
            Server([str(part) for part in moto], [ports[8]], cwd=self.folder),
        ]
        self.s3, self.moto = (f"http://127.0.0.1:{port}" for port in (ports[6], ports[8]))
        fill = subprocess.run(
            [python("tools"), HERE / "fill_s3.py", self.s3, self.moto, ID, KEY, json.dumps(OBJECTS)],
            env=clean_environment(), capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        if fill.returncode:
            raise RuntimeError(f"the S3 servers could not be filled: {fill.stderr}")
        self.presigned = fill.stdout.strip()
        return self

    def __exit__(self, *_):
        for server in self.running:
            server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self):
        return {
            "S3": self.s3, "MOTO": self.moto, "PRESIGNED": self.presigned, "AWS_ACCESS_KEY_ID": ID,
            "AWS_SECRET_ACCESS_KEY": KEY, "AWS_DEFAULT_REGION": "us-east-1",
        }  # fmt: skip


class Run:
    """One environment, some test modules, some settings."""

    def __init__(self, name, modules, **environment):
        self.name, self.modules, self.environment = name, modules, environment

    def describe(self):
        settings = {k: v for k, v in self.environment.items() if k not in ("LD_LIBRARY_PATH", "STUB", "LIBRARY", "PREFIX")}
        return f"{self.name} {' '.join(self.modules)} {' '.join(f'{k}={v}' for k, v in settings.items())}"

    def __call__(self, shared):
        begin = time.monotonic()
        # A server of its own: the tests look at what it was asked.
        server = subprocess.Popen(
            [sys.executable, HERE / "scripted_server.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        environment = clean_environment() | shared | self.environment
        url = server.stdout.readline().strip()
        files = tempfile.mkdtemp(prefix="raskio-kvikio-files-")
        environment |= {"SERVER": url, "KVIKIO_LOG_LEVEL": "WARN", "FILES": files, "FILES_URL": f"{url}/file{files}"}
        try:
            done = subprocess.run(
                [python(self.name), "-W", "error::ResourceWarning", "-m", "unittest", *self.modules],
                cwd=HERE, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180,
            )  # fmt: skip
            status, output = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            status, output = 124, f"not done within 180 s\n{late.stdout}\n{late.stderr}"
        finally:
            server.stdin.close()
            server.wait(10)
            shutil.rmtree(files, ignore_errors=True)
        ran = re.search(r"^Ran (\d+) tests?", output, re.MULTILINE)
        counts = {word: int(n) for word, n in re.findall(r"(failures|errors|skipped)=(\d+)", output)}
        failed = counts.get("failures", 0) + counts.get("errors", 0)
        skipped = counts.get("skipped", 0)
        if status and not failed or not ran:
            failed += 1
        passed = int(ran[1]) - failed - skipped if ran else 0
        print(f"{'ok    ' if not status else 'FAILED'} {time.monotonic() - begin:5.1f} s  {self.describe()}: {passed} passed")
        if status:
            print(output)
        sys.stdout.flush()
        return passed, failed, skipped


def runs(everything, stub, library, prefix, simcuda):
    loading = {"LIBRARY": library, "STUB": stub, "PREFIX": str(prefix)}
    both = ["test_reads", "test_s3"]
    # The longest first: two run at a time.
    yield Run(NEWEST, ["test_link"], **loading)
    yield Run(NEWEST, ["test_loading"], **loading)
    for release in RELEASES:
        yield Run(release, both)
    yield Run(NEWEST, ["test_reads"], KVIKIO_REMOTE_IO_BACKEND="MULTI_POLL", KVIKIO_REMOTE_IO_NUM_REACTORS="2")
    yield Run(NEWEST, ["test_reads"], KVIKIO_REMOTE_IO_BACKEND="EASY_THREADPOOL", KVIKIO_NTHREADS="4")
    yield Run("dask", ["test_dask"])
    yield Run(NEWEST, ["test_device"], LD_LIBRARY_PATH=simcuda)
    if not everything:
        yield Run(NEWEST, ["test_reads"], RASKIO_KVIKIO="exact")
        yield Run(NEWEST, ["test_reads"], NATIVE="1", LD_LIBRARY_PATH=stub)
        return
    for release in environments.CUDA_12:
        yield Run(release, both)
        yield Run(release, ["test_device"], LD_LIBRARY_PATH=simcuda)
    yield Run("arrow", ["test_arrow"])
    for release in RELEASES:
        if release != NEWEST:
            yield Run(release, ["test_loading"], **loading)
            yield Run(release, ["test_device"], LD_LIBRARY_PATH=simcuda)
        backends = ["EASY_THREADPOOL", "MULTI_POLL"] if release in ("26.8.0", "26.10.0") else ["EASY_THREADPOOL"]
        for backend in backends:
            yield Run(release, both, NATIVE="1", LD_LIBRARY_PATH=stub, KVIKIO_REMOTE_IO_BACKEND=backend)
            yield Run(release, both, RASKIO_KVIKIO="exact", KVIKIO_REMOTE_IO_BACKEND=backend)
            yield Run(release, both, KVIKIO_REMOTE_IO_BACKEND=backend, KVIKIO_REMOTE_IO_REACTOR_DISPATCH="PER_PREAD")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=Path)
    parser.add_argument("prefix", type=Path)
    parser.add_argument("simcuda", type=Path)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    more = (*environments.CUDA_12, "arrow") if options.all else ()
    for release in (*RELEASES, *more):
        environments.install(release, options.wheel)
    # As a user installs it from a checkout; what is built is the same wheel.
    os.environ["RASKIO_PREFIX"] = str(options.prefix)
    environments.pip("--python", str(python("dask")), "install", "--quiet", "--disable-pip-version-check", "--no-index",
                     "--no-deps", "--force-reinstall", str(ROOT / "kvikio" / "python"))  # fmt: skip
    packages = next((BUILD / NEWEST / "lib").glob("python*/site-packages/raskio_kvikio"))
    stub, library = compile_stub(), str(packages / "lib" / "libraskio_kvikio.so.0")
    totals = [0, 0, 0]
    with S3Servers() as s3, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for result in pool.map(lambda run: run(s3.environment()), list(runs(options.all, stub, library, options.prefix.resolve(), str(options.simcuda.resolve())))):
            totals = [total + n for total, n in zip(totals, result)]
    print("{} passed, {} failed, {} skipped".format(*totals))
    sys.exit(1 if totals[1] else 0)


if __name__ == "__main__":
    main()
