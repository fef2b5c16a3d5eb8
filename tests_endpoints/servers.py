"""Programs that are started for a test and gone after it."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def pattern(size):
    period = bytes((i * 31 + 7) % 251 for i in range(251))
    return (period * (size // 251 + 1))[:size]


def program(name):
    """Where a program is; a test that needs one that is not there is skipped, unless REQUIRE_SERVERS is set."""
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if path is None:
        if os.environ.get("REQUIRE_SERVERS"):
            raise AssertionError(f"{name} is not installed")
        raise unittest.SkipTest(f"{name} is not installed")
    return path


class Server:
    """A running program. `ports`: it is up when it listens on all of them."""

    def __init__(self, command, ports, cwd=None, env=None):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd=cwd, env=env
        )
        end = time.monotonic() + 60
        for port in ports:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if self.process.poll() is not None or time.monotonic() > end:
                        self.stop()
                        raise AssertionError(f"{command[0]} did not start: {self.output()}") from None
                    time.sleep(0.05)

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Case(unittest.TestCase):
    """A test with a folder of its own, and servers that end with it."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="raskio-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        # nginx's workers may run as another user.
        os.chmod(cls.folder, 0o755)

    @classmethod
    def start(cls, command, ports, **options):
        server = Server(command, ports, cwd=cls.folder, **options)
        cls.addClassCleanup(server.stop)
        return server

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def write(cls, name, data):
        os.makedirs(os.path.dirname(cls.path(name)), exist_ok=True)
        with open(cls.path(name), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return cls.path(name)
