#!/usr/bin/env python3
"""Puts what scripts/gpu.sh found in a folder (gpu.txt, lines.jsonl, bench.json) into gpu.json and gpu.md, and prints both."""

import json
import sys
from pathlib import Path

from harness import gpu


def main():
    folder = Path(sys.argv[1])
    name = (folder / "gpu.txt").read_text().strip()
    lines = [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines() if line.startswith("{")]
    bench = folder / "bench.json"
    result = json.loads(bench.read_text()) if bench.exists() else None
    verdicts = gpu.targets(result) if result else []
    found = {
        "gpu": name,
        "machine": result["machine"] if result else None,
        "lines": lines,
        "targets": [dict(zip(("figure", "measured", "wanted", "reached"), row, strict=True)) for row in verdicts],
    }
    page = gpu.markdown(name, lines, result)
    (folder / "gpu.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / "gpu.md").write_text(page)
    print(json.dumps(found))
    print(page)


if __name__ == "__main__":
    main()
