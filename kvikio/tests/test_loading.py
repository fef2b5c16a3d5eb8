"""Every way to load the library: that it works, or that it says aloud that it does not. Each in a process of its own.

Environment: SERVER, LIBRARY (libraskio_kvikio.so.0 of the wheel).
"""

import os
import subprocess
import sys
import tempfile
import unittest

SERVER, LIBRARY = os.environ["SERVER"], os.environ["LIBRARY"]
READ = """
import kvikio, numpy as np
b = np.zeros(100, dtype=np.uint8)
f = kvikio.RemoteFile.open_http("%s/data/100")
assert f.pread(b).get() == 100
assert bytes(b[:3]) == bytes([7, 38, 69])
""" % SERVER
COUNT = """
import ctypes
assert ctypes.CDLL(None).raskio_kvikio_enabled() == 1
"""


def run(code, *arguments, **environment):
    """Exit status, standard output and standard error."""
    command = [sys.executable, *arguments] + ([] if code is None else ["-c", code])
    kept = {k: v for k, v in os.environ.items() if k != "RASKIO_KVIKIO"}
    done = subprocess.run(command, env=kept | environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


class Loading(unittest.TestCase):
    def works(self, code, *arguments, **environment):
        status, out, err = run(code, *arguments, **environment)
        self.assertEqual((status, err), (0, ""), out + err)
        return out

    def test_import_first(self):
        self.works("import raskio_kvikio\n" + READ + "assert raskio_kvikio.enabled(), raskio_kvikio.status()")

    def test_import_second_raises(self):
        for before in ("import kvikio", "import libkvikio; libkvikio.load_library()"):
            status, _, err = run(before + "\nimport raskio_kvikio")
            self.assertEqual(status, 1)
            self.assertRegex(err, r"ImportError: raskio_kvikio was imported after KvikIO's library was loaded \(.*libkvikio")

    def test_before_kvikio_it_says_so(self):
        out = self.works("import raskio_kvikio as r\nprint(r.enabled(), r.status().reason_code, r.status().reason)")
        self.assertEqual(out, "False no_kvikio KvikIO is not loaded yet\n")

    def test_preloaded(self):
        self.works(READ + COUNT, LD_PRELOAD=LIBRARY)
        self.works("import raskio_kvikio\n" + READ + "assert raskio_kvikio.enabled()", LD_PRELOAD=LIBRARY)
        # Then it is not too late, whatever the order.
        self.works(READ + "import raskio_kvikio\nassert raskio_kvikio.enabled()", LD_PRELOAD=LIBRARY)

    def test_a_library_that_is_opened_local_makes_itself_global(self):
        self.works(f"import ctypes\nctypes.CDLL('{LIBRARY}', mode=ctypes.RTLD_LOCAL)\n" + READ + COUNT)

    def test_a_library_that_is_opened_too_late_says_so(self):
        status, _, err = run(READ.replace("b = ", f"import ctypes; ctypes.CDLL('{LIBRARY}', mode=ctypes.RTLD_GLOBAL)\nb = "))
        self.assertIn("raskio_kvikio: libkvikio.so was loaded before libraskio_kvikio.so", err)
        self.assertEqual(err.count("raskio_kvikio:"), 1, err)
        # KvikIO itself goes on as it can: here it lacks a CUDA driver, or has one.
        self.assertIn(status, (0, 1))

    def test_a_library_without_raskio_beside_it_says_so_and_leaves_reads_to_kvikio(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = os.path.join(folder, "libraskio_kvikio.so.0")
            with open(LIBRARY, "rb") as source, open(alone, "wb") as copy:
                copy.write(source.read())
            _, _, err = run(READ, LD_PRELOAD=alone, LD_LIBRARY_PATH=os.environ.get("STUB", ""))
            self.assertIn("raskio_kvikio: libraskio.so.0 cannot be loaded", err)
            code = READ + "import ctypes\nassert ctypes.CDLL(None).raskio_kvikio_enabled() == 0"
            status, _, err = run(code, LD_PRELOAD=alone, LD_LIBRARY_PATH=os.environ["STUB"])
            self.assertEqual(status, 0, err)

    def test_half_a_library_beside_it_is_named_and_reads_are_left_to_kvikio(self):
        with tempfile.TemporaryDirectory() as folder, open(LIBRARY, "rb") as source:
            alone = os.path.join(folder, "libraskio_kvikio.so.0")
            with open(alone, "wb") as copy:
                copy.write(source.read())
            with open(os.path.join(os.path.dirname(LIBRARY), "libraskio.so.0"), "rb") as whole:
                for size in (4096, 1_000_000):
                    whole.seek(0)
                    with open(os.path.join(folder, "libraskio.so.0"), "wb") as half:
                        half.write(whole.read(size))
                    status, _, err = run(READ, LD_PRELOAD=alone, LD_LIBRARY_PATH=os.environ["STUB"])
                    self.assertEqual(status, 0, err)
                    self.assertIn(f"libraskio.so.0 cannot be loaded: {folder}/libraskio.so.0 is cut off", err)

    def test_a_second_copy_is_silent_and_names_the_first(self):
        with tempfile.TemporaryDirectory() as folder:
            second = os.path.join(folder, "libraskio_kvikio.so.0")
            with open(LIBRARY, "rb") as source, open(second, "wb") as copy:
                copy.write(source.read())
            opening = f"import ctypes\nsecond = ctypes.CDLL('{second}', mode=ctypes.RTLD_GLOBAL)\n"
            tell = (
                "import raskio_kvikio\nassert raskio_kvikio.enabled()\n"
                "from raskio_kvikio._library import _Info, ctypes\ninfo = _Info(ctypes.sizeof(_Info))\n"
                "second.raskio_kvikio_status(ctypes.byref(info))\nprint(info.enabled, info.reason_code, info.reason.decode())\n"
            )
            for code in (opening + READ, READ + opening):
                out = self.works("import raskio_kvikio\n" + code + tell)
                self.assertRegex(out, "0 3 another copy of libraskio_kvikio.so was loaded before this one")
            self.works(READ + COUNT, LD_PRELOAD=f"{LIBRARY} {second}")

    def test_an_import_that_is_not_too_late_does_not_say_so(self):
        code = READ + "import raskio_kvikio as r\nprint(r.status().reason_code, r.status().reason)"
        stub = {"LD_LIBRARY_PATH": os.environ["STUB"]}
        status, out, err = run(code, LD_PRELOAD=LIBRARY, RASKIO_KVIKIO="off", **stub)
        self.assertEqual((status, out), (0, "off RASKIO_KVIKIO=off\n"), err)
        with tempfile.TemporaryDirectory() as folder:
            alone = os.path.join(folder, "libraskio_kvikio.so.0")
            with open(LIBRARY, "rb") as source, open(alone, "wb") as copy:
                copy.write(source.read())
            status, out, err = run(code, LD_PRELOAD=alone, **stub)
            self.assertEqual(status, 0, err)
            self.assertRegex(out, "^no_raskio libraskio.so.0 cannot be loaded")

    def test_that_it_is_too_late_is_told_by_a_code_and_by_the_import(self):
        code = (
            f"import ctypes, kvikio\nlibrary = ctypes.CDLL('{LIBRARY}', mode=ctypes.RTLD_GLOBAL)\n"
            # By hand, since the package cannot be imported: fifteen times eight bytes, the code in the last.
            "info = (ctypes.c_uint64 * 15)(15 * 8)\nlibrary.raskio_kvikio_status(info)\nprint(info[14])\n"
            "try: import raskio_kvikio\nexcept ImportError as error: print(error)\n"
        )
        status, out, err = run(code)
        self.assertEqual(status, 0, err)
        self.assertRegex(out, "^4\nraskio_kvikio was imported after KvikIO's library was loaded")

    def test_programs_without_kvikio_hear_nothing(self):
        environment = os.environ | {"LD_PRELOAD": LIBRARY, "RASKIO_KVIKIO": "of"}
        done = subprocess.run(["ls", "-d", "/"], env=environment, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "/\n", ""))

    def test_without_proc(self):
        # As in a chroot: the file is not there.
        self.works(
            "import builtins\nreal = builtins.open\n"
            "def no_proc(path, *rest, **more):\n"
            "    if str(path).startswith('/proc/'): raise FileNotFoundError(path)\n"
            "    return real(path, *rest, **more)\n"
            "builtins.open = no_proc\nimport raskio_kvikio\n" + READ + COUNT
        )

    def test_the_end_of_a_sub_interpreter_ends_no_reads(self):
        try:
            import _xxsubinterpreters
        except ImportError:
            self.skipTest("this Python names its sub-interpreters otherwise")
        self.works(
            "import raskio_kvikio, kvikio, numpy as np, _xxsubinterpreters as sub\n"
            f"f = kvikio.RemoteFile.open_http('{SERVER}/slow/0.5/1000')\n"
            "future = f.pread(np.zeros(1000, dtype=np.uint8))\n"
            "other = sub.create()\nsub.run_string(other, 'import raskio_kvikio')\nsub.destroy(other)\n"
            "assert future.get() == 1000\n"
        )

    def test_off_is_off(self):
        code = "import raskio_kvikio as r\n" + READ + (
            "s = r.status()\nprint(s.enabled, s.mode, s.reads, s.left_to_kvikio >= 2, s.left_reason)"
        )
        status, out, err = run(code, RASKIO_KVIKIO="off", LD_LIBRARY_PATH=os.environ["STUB"])
        self.assertEqual((status, out, err), (0, "False off 0 True RASKIO_KVIKIO=off\n", ""))

    def test_a_batch_that_is_given_up_waits_for_what_kvikio_reads(self):
        code = (
            "import raskio_kvikio, kvikio, numpy as np\n"
            "def reads():\n"
            "    for i in range(20):\n"
            f"        yield kvikio.RemoteFile.open_http('{SERVER}/slow/0.01/4000000'), 0, 4000000, np.zeros(4000000, 'u1')\n"
            "    raise KeyError\n"
            "try: raskio_kvikio.read_batch(reads())\n"
            "except KeyError: print('given up')\n"
        )
        status, out, err = run(code, RASKIO_KVIKIO="off", LD_LIBRARY_PATH=os.environ["STUB"])
        self.assertEqual((status, out), (0, "given up\n"), err)

    def test_a_mode_that_there_is_not_is_named(self):
        status, _, err = run("import raskio_kvikio\n" + READ, RASKIO_KVIKIO="of")
        self.assertEqual(status, 0, err)
        self.assertIn('RASKIO_KVIKIO is "of"; on, off and exact are possible', err)

    def test_as_a_runner(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program.py")
            with open(program, "w") as file:
                file.write("import sys\nimport neighbour\n" + READ + COUNT + "print(sys.argv[1:], __name__)\n")
            with open(os.path.join(folder, "neighbour.py"), "w") as file:
                file.write("")
            out = self.works(None, "-m", "raskio_kvikio", program, "--flag", "x")
            self.assertEqual(out, "['--flag', 'x'] __main__\n")
        self.works(None, "-m", "raskio_kvikio", "-c", READ + COUNT)
        pickled = "import pickle\ndef f(): return 7\nassert pickle.loads(pickle.dumps(f))() == 7"
        self.works(None, "-m", "raskio_kvikio", "-c", pickled)
        self.assertIn("Linux", self.works(None, "-m", "raskio_kvikio", "-m", "platform"))
        out = self.works(None, "-m", "raskio_kvikio")
        self.assertIn("\nenabled\n", out)

    def test_a_pth_file(self):
        import site

        path = os.path.join(site.getsitepackages()[0], "raskio_kvikio.pth")
        with open(path, "w") as file:
            file.write("import raskio_kvikio\n")
        try:
            self.works(READ + COUNT)
        finally:
            os.remove(path)

    def test_a_process_that_ends_with_reads_running(self):
        code = "import raskio_kvikio, kvikio, numpy as np\n" + (
            "b = np.zeros(1000, dtype=np.uint8)\n"
            f"f = kvikio.RemoteFile.open_http('{SERVER}/slow/3/1000')\n"
            "futures = [f.pread(b, 10, i) for i in range(50)]\n"
            "import time; print(time.monotonic())\n"
        )
        import time

        # From here on, not from the start: the imports alone take seconds on a busy machine.
        ended = float(self.works(code))
        self.assertLess(time.monotonic() - ended, 2.9)

    def test_nothing_of_libcurl_or_openssl_becomes_the_process(self):
        self.works(
            "import raskio_kvikio, ctypes\n" + READ + "p = ctypes.CDLL(None)\n"
            "assert not hasattr(p, 'raskio_get_api') and not hasattr(p, 'curl_multi_perform')\n"
        )


if __name__ == "__main__":
    unittest.main()
