#!/usr/bin/env python3
"""Prints the summary of a result that benches/run.py wrote: the project's targets, and whether they are met.

Usage: summary.py RESULT.json            the summary, as Markdown
       summary.py --page RESULT.json     the whole page, to write it again after a change of the report
"""

import json
import sys

from harness import report, targets


def main(arguments):
    whole = arguments[:1] == ["--page"]
    if len(arguments) != 1 + whole:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with open(arguments[-1]) as file:
        result = json.load(file)
    summary = targets.markdown(result)
    print(report.markdown(result, summary) if whole else "\n".join(summary), end="" if whole else "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
