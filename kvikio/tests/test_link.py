"""Programs that link KvikIO: the CMake target works in every order, and what cannot work says so.

Environment: SERVER, PREFIX (where RaskIO is installed), STUB.
"""

import os
import shutil
import subprocess
import sysconfig
import tempfile
import unittest
from pathlib import Path

SERVER, PREFIX, STUB = os.environ["SERVER"], Path(os.environ["PREFIX"]), os.environ["STUB"]
HERE = Path(__file__).resolve().parent
SITE = Path(sysconfig.get_paths()["purelib"])
KVIKIO = SITE / "libkvikio" / "lib64" / "libkvikio.so"
LOADED_TOO_LATE = "raskio_kvikio: libkvikio.so was loaded before libraskio_kvikio.so"


class Linking(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="raskio-link-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def command(self, *command, **environment):
        done = subprocess.run(
            [str(part) for part in command], env=os.environ | environment, capture_output=True, text=True, timeout=120
        )
        return done.returncode, done.stdout, done.stderr

    def builds(self, *command, **environment):
        status, out, err = self.command(*command, **environment)
        self.assertEqual(status, 0, out + err)
        return out

    def run_reader(self, program, stub=False):
        libraries = [str(KVIKIO.parent), str(SITE / "rapids_logger" / "lib64")] + ([STUB] if stub else [])
        return self.command(
            program, SERVER + "/data/100000", 100000, LD_LIBRARY_PATH=":".join(libraries), KVIKIO_COMPAT_MODE="ON"
        )

    def by_hand(self, name, *link):
        program = os.path.join(self.folder, name)
        defines = ["-DUSES_STATUS"] if name.startswith("status") else []
        self.builds(
            "c++", "-std=c++17", *defines, f"-I{PREFIX}/include", HERE / "link" / "reader.cpp", "-o", program,
            f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib", f"-L{KVIKIO.parent}", "-Wl,--allow-shlib-undefined", *link,
            "-ldl", "-pthread",
        )  # fmt: skip
        return program

    def test_the_cmake_target_in_every_order(self):
        moved = os.path.join(self.folder, "moved prefix")
        shutil.copytree(PREFIX, moved, symlinks=True)
        every = ("first", "last", "first_as_needed", "last_as_needed", "through", "status")
        for prefix, programs in ((PREFIX, every), (moved, ("last", "status"))):
            build = tempfile.mkdtemp(dir=self.folder)
            self.builds("cmake", "-S", HERE / "link", "-B", build, f"-DKVIKIO_LIBRARY={KVIKIO}",
                        f"-DCMAKE_PREFIX_PATH={prefix}")  # fmt: skip
            self.builds("cmake", "--build", build, "-j2", "--target", *programs)
            for name in programs:
                with self.subTest(program=name, prefix=str(prefix)):
                    status, out, err = self.run_reader(os.path.join(build, name))
                    self.assertEqual((status, err), (0, ""), out)
                    self.assertTrue(out.startswith("enabled 1"), out)

    def test_pkg_config(self):
        flags = self.builds("pkg-config", "--libs", "raskio-kvikio", PKG_CONFIG_PATH=f"{PREFIX}/lib/pkgconfig").split()
        for name, link in (("pc", [*flags, "-lkvikio"]), ("pc_as_needed", ["-Wl,--as-needed", *flags, "-lkvikio"])):
            status, out, err = self.run_reader(self.by_hand(name, *link))
            self.assertEqual((status, out, err), (0, "enabled 1\n", ""))

    def test_the_wrong_order_says_so(self):
        # Distributions' compilers put --as-needed in front by themselves.
        link = ["-Wl,--no-as-needed", "-lkvikio", "-lraskio_kvikio"]
        status, out, err = self.run_reader(self.by_hand("wrong", *link), stub=True)
        self.assertEqual((status, out), (0, "enabled 0\n"), err)
        self.assertIn(LOADED_TOO_LATE, err)
        self.assertEqual(err.count("raskio_kvikio:"), 1, err)

    def test_what_the_linker_drops_is_kept_by_asking_for_it(self):
        # KvikIO's names are taken from KvikIO, so nothing of the other library seems to be needed: it is not loaded, and
        # cannot say so. This is why programs should ask.
        link = ["-Wl,--as-needed", "-lkvikio", "-lraskio_kvikio"]
        status, out, err = self.run_reader(self.by_hand("dropped", *link), stub=True)
        self.assertEqual((status, out, err), (0, "enabled -1\n", ""))
        status, out, err = self.run_reader(self.by_hand("status_kept", *link), stub=True)
        self.assertEqual((status, out), (0, "enabled 0, reads 0\n"), err)
        self.assertIn(LOADED_TOO_LATE, err)

    def test_the_right_order_is_enough(self):
        link = ["-Wl,--as-needed", "-lraskio_kvikio", "-lkvikio"]
        status, out, err = self.run_reader(self.by_hand("status_right", *link))
        self.assertEqual((status, out, err), (0, "enabled 1, reads 2\n", ""))

    def test_a_kvikio_that_is_not_known_is_left_alone(self):
        unknown = "laid out in an unknown way"
        for change, says in (
            ("GOOD", ("RK", 1, "-", "of a class that is not KvikIO's own")),
            ("SHIFTED", ("KK", 0, f"its endpoints are {unknown}", "this KvikIO is not known")),
            ("TURNED", ("KK", 0, f"its RemoteHandle is {unknown}", "this KvikIO is not known")),
            ("LACKING", ("KK", 0, f"its WebHdfsEndpoint is {unknown}", "this KvikIO is not known")),
            ("ASKING", ("KK", 0, "a constructor of KvikIO's does more than it should", "not known")),
            ("THROWING", ("KK", 0, "its constructors refuse what they should take: not like this", "not known")),
        ):
            with self.subTest(change=change):
                folder = tempfile.mkdtemp(dir=self.folder)
                common = ["c++", "-std=c++17", f"-DCHANGE={change}", "-pthread", f"-I{PREFIX}/include"]
                self.builds(*common, "-shared", "-fPIC", "-Wl,-soname,libkvikio.so", "-o", f"{folder}/libkvikio.so",
                            HERE / "link" / "other_kvikio.cpp")  # fmt: skip
                self.builds(*common, "-o", f"{folder}/reader", HERE / "link" / "other_reader.cpp", f"-L{PREFIX}/lib",
                            f"-L{folder}", "-lraskio_kvikio", "-lkvikio", f"-Wl,-rpath,{PREFIX}/lib:{folder}")  # fmt: skip
                status, out, err = self.command(f"{folder}/reader", SERVER + "/data/1000")
                self.assertEqual((status, err), (0, ""), out)
                who, enabled, reason, left = says
                self.assertTrue(out.startswith(f"{who} enabled {enabled}, "), out)
                self.assertIn(reason, out)
                self.assertIn(left, out)


if __name__ == "__main__":
    unittest.main()
