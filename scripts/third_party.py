#!/usr/bin/env python3
"""Writes THIRD_PARTY.md: what is inside libraskio.so besides RaskIO's own code, and under which licence.

scripts/third_party.py          write it
scripts/third_party.py --check  fail if it is not what would be written
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "THIRD_PARTY.md"

# C libraries that arrive inside a crate: (crate, name, licence, file with its text, None where the text is LICENSE's).
BUNDLED = [
    ("curl-sys", "libcurl", "curl", "curl/COPYING"),
    ("libz-sys", "zlib", "Zlib", "src/zlib/LICENSE"),
    ("openssl-src", "OpenSSL", "Apache-2.0", None),
]
# Our own; of one of them, NVIDIA's headers become a part.
OURS = ("raskio", "raskio-nvtx")
NVTX = ("NVTX", "3", "Apache-2.0 WITH LLVM-exception", "nvtx/vendor, from crate nvtx-sys 2.0.0")
HEAD = """\
# Third-party software inside libraskio.so

Written by `scripts/third_party.py` from Cargo.lock; `make test-licences` checks that it is current.
RaskIO itself is under the Apache License 2.0, the text of which is in LICENSE. A crate that offers a choice including
the Apache License is used under that one. A library built with RASKIO_SYSTEM_CURL or RASKIO_SYSTEM_OPENSSL links
libcurl, zlib or OpenSSL from the system instead of containing them.

| what | version | licence | from |
|---|---|---|---|
"""


# The same crates on every machine that builds: one platform is named, and stands for both.
PLATFORM = "x86_64-unknown-linux-gnu"


def cargo(*arguments):
    command = [os.environ.get("CARGO", "cargo"), *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def packages():
    """Every package of Cargo.lock for this platform, by (name, version)."""
    data = json.loads(cargo("metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM))
    return {(package["name"], package["version"]): package for package in data["packages"]}


def linked():
    """(name, version) of what is linked into the library. cargo tree resolves features as a build does."""
    arguments = ("--package", "raskio", "--edges", "normal,no-proc-macro", "--prefix", "none", "--target", PLATFORM)
    lines = cargo("tree", "--locked", *arguments, "--format", "{p}").splitlines()
    found = {tuple(line.replace(" v", " ").split()[:2]) for line in lines if line}
    return sorted(pair for pair in found if pair[0] not in OURS)


def text_of(package, name):
    return (pathlib.Path(package["manifest_path"]).parent / name).read_text().rstrip() + "\n"


def document():
    known = packages()
    by_name = {package["name"]: package for package in known.values()}
    rows, texts = [], []
    for crate, name, licence, file in BUNDLED:
        package = by_name.get(crate)
        if package is None:
            sys.exit(f"{crate} is not in Cargo.lock: correct BUNDLED in scripts/third_party.py")
        version = package["version"].split("+")[-1].removeprefix("curl-")
        if crate == "libz-sys":
            header = (pathlib.Path(package["manifest_path"]).parent / "src/zlib/zlib.h").read_text()
            version = header.split('#define ZLIB_VERSION "')[1].split('"')[0]
        rows.append((name, version, licence, f"crate {crate}"))
        if file:
            texts.append((name, text_of(package, file)))
    rows.append(NVTX)
    rows.append(("Rust's standard library", "the compiler's", "Apache-2.0 or MIT", "the Rust toolchain"))
    for pair in linked():
        package = known[pair]
        licence = package["license"] or "none stated"
        rows.append((package["name"], package["version"], licence, package["repository"] or ""))
        if "Apache-2.0" not in licence:
            directory = pathlib.Path(package["manifest_path"]).parent
            file = next((name for name in ("LICENSE-MIT", "LICENSE") if (directory / name).exists()), None)
            if file is None:
                sys.exit(f"{package['name']} is under {licence}, and its text was not found in the crate")
            texts.append((package["name"], text_of(package, file)))

    parts = [HEAD, *("| " + " | ".join(row) + " |\n" for row in rows)]
    for name, text in texts:
        parts.append(f"\n## {name}\n\n```\n{text}```\n")
    return "".join(parts)


def main():
    text = document()
    if sys.argv[1:] == ["--check"]:
        if not OUTPUT.exists() or OUTPUT.read_text() != text:
            sys.exit("THIRD_PARTY.md does not match Cargo.lock: run scripts/third_party.py and commit what it writes")
        print("THIRD_PARTY.md is current")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        OUTPUT.write_text(text)
        print(f"wrote {OUTPUT.name}")


main()
