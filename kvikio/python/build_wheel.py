"""Builds the wheel of raskio_kvikio: the Python files and both libraries. A build backend (PEP 517) without dependencies.

    python3 build_wheel.py FOLDER        # what `make wheel` runs

The libraries come from an installed tree that RASKIO_PREFIX names, else they are built with CMake and cargo.
"""

import base64
import csv
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NAME = "raskio_kvikio"
LIBRARIES = ("libraskio.so.0", "libraskio_kvikio.so.0")
# Files in a wheel have a time; this one makes two builds of the same files the same wheel.
TIME = (2026, 1, 1, 0, 0, 0)
SUMMARY = "An unmodified KvikIO reads remote objects through RaskIO"


def version():
    text = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^version *= *"([^"]+)"', text, re.MULTILINE)[1]


def libraries():
    """The folder with both libraries."""
    prefix = os.environ.get("RASKIO_PREFIX")
    if prefix is None:
        build = ROOT / "build" / "wheel-build"
        prefix = build / "prefix"
        for command in (
            ["cmake", "-S", ROOT / "cmake", "-B", build, f"-DRASKIO_CARGO_TARGET_DIR={ROOT / 'target'}"],
            ["cmake", "--build", build],
            ["cmake", "--install", build, "--prefix", prefix],
        ):
            subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr)
    for folder in (Path(prefix) / "lib", Path(prefix) / "lib64", *Path(prefix).glob("lib/*-linux-gnu")):
        if all((folder / name).exists() for name in LIBRARIES):
            return folder
    raise SystemExit(f"{prefix} holds no {' and '.join(LIBRARIES)}: RaskIO was not installed there, or without KvikIO")


def needed_glibc(files):
    """The newest glibc that any of these files needs symbols of."""
    newest = (2, 17)
    for file in files:
        text = subprocess.run(["readelf", "-VW", str(file)], check=True, capture_output=True, text=True).stdout
        for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", text):
            newest = max(newest, (int(major), int(minor)))
    return newest


def tag(files):
    """Any Python 3; a Linux with at least this glibc (PEP 600)."""
    major, minor = needed_glibc(files)
    return f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"


def metadata():
    readme = (HERE / "README.md").read_text()
    lines = (
        "Metadata-Version: 2.1",
        f"Name: {NAME.replace('_', '-')}",
        f"Version: {version()}",
        f"Summary: {SUMMARY}",
        "License: Apache-2.0",
        "Requires-Python: >=3.9",
        "Description-Content-Type: text/markdown",
    )
    return "\n".join(lines) + "\n\n" + readme


class Wheel:
    """A wheel that is being written."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.rows = []

    def add(self, name, data, executable=False):
        info = zipfile.ZipInfo(name, TIME)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (0o100755 if executable else 0o100644) << 16
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.rows.append((name, f"sha256={digest}", len(data)))

    def close(self, record):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*self.rows, (record, "", "")])
        self.zip.writestr(zipfile.ZipInfo(record, TIME), text.getvalue())
        self.zip.close()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = libraries()
    files = [folder / name for name in LIBRARIES]
    compatibility = tag(files)
    file = f"{NAME}-{version()}-{compatibility}.whl"
    info = f"{NAME}-{version()}.dist-info"
    Path(wheel_directory).mkdir(parents=True, exist_ok=True)
    wheel = Wheel(Path(wheel_directory) / file)
    for source in sorted((HERE / NAME).glob("*.py")):
        wheel.add(f"{NAME}/{source.name}", source.read_bytes())
    for library in files:
        wheel.add(f"{NAME}/lib/{library.name}", library.read_bytes(), executable=True)
    for licence in ("LICENSE", "THIRD_PARTY.md"):
        wheel.add(f"{info}/licenses/{licence}", (ROOT / licence).read_bytes())
    wheel.add(f"{info}/METADATA", metadata().encode())
    about = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {compatibility}\n"
    wheel.add(f"{info}/WHEEL", about.encode())
    wheel.close(f"{info}/RECORD")
    return file


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("there is no source distribution of this package alone: build the wheel from RaskIO's checkout")


if __name__ == "__main__":
    print(Path(sys.argv[1]) / build_wheel(sys.argv[1]))
