"""python -m raskio_kvikio [program.py | -m module | -c code] [arguments…]

Runs a program whose KvikIO reads through RaskIO. Without one: imports kvikio and tells what goes on.
"""

import runpy
import sys
import types

from . import status


def tell():
    try:
        import kvikio

        print(f"KvikIO {kvikio.__version__}")
    except ImportError as error:
        print(f"kvikio cannot be imported: {error}")
    now = status()
    print("enabled" if now.enabled else f"not enabled: {now.reason}")
    for name in ("mode", "kvikio", "raskio", "raskio_version"):
        print(f"{name}: {getattr(now, name)}")
    return 0 if now.enabled else 1


def main():
    arguments = sys.argv[1:]
    if not arguments:
        return tell()
    if arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0
    if arguments[0] in ("-m", "-c") and len(arguments) < 2:
        print(f"raskio_kvikio: something must follow {arguments[0]}", file=sys.stderr)
        return 2
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        # As python -m does it: modules of the working directory are found.
        sys.path[0] = ""
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        # What it defines is looked for in this module, by pickle for one.
        program = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(arguments[1], "<string>", "exec"), program.__dict__)
    else:
        import os

        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
