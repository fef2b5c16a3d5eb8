"""nginx on loopback, serving files from memory."""

import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from . import Unavailable

CONFIGS = Path(__file__).resolve().parent.parent / "servers"
STATUS_PORT = 8099
NEEDED = "`apt-get install nginx libnginx-mod-http-lua openssl` brings it"


@contextlib.contextmanager
def nginx(config, files, program="nginx"):
    """Runs `config` on free ports, serving random bytes at the paths and of the sizes of `files`. Gives a `Server`."""
    if not shutil.which(program):
        raise Unavailable(f"no {program} here; {NEEDED}")
    with tempfile.TemporaryDirectory(prefix="raskio-bench-", dir=memory_folder(sum(files.values()))) as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx's workers are another user where its master is root
        root = folder / "www"
        for path, size in files.items():
            file = root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            write_random(file, size)
        text, ports = with_free_ports((CONFIGS / config).read_text())
        if "load_module" in text:
            (folder / "modules").symlink_to(module_folder(program))
        if "ssl_certificate" in text:
            make_certificate(folder)
        (folder / "nginx.conf").write_text(text)
        command = [program, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            wait_until_ready(process, ports.values(), folder)
            yield Server(folder, root, ports, version(program), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


class Server:
    def __init__(self, folder, root, ports, version, pid):
        self.folder, self.root, self.version = folder, root, version
        self._ports, self._pid = ports, pid
        self.certificate = folder / "ca.pem"
        self._status = http.client.HTTPConnection("127.0.0.1", ports[STATUS_PORT], timeout=10)

    def base(self, port):
        """Scheme, host and port of URLs, `port` being the one that the configuration names."""
        scheme = "https" if port in (8443, 8444) else "http"
        return f"{scheme}://127.0.0.1:{self._ports[port]}"

    def counters(self):
        """Connections accepted and requests received since the start: nginx's own count, the same for every client.

        It comes over one connection that stays open, and each look is a request itself.
        """
        self._status.request("GET", "/")
        text = self._status.getresponse().read().decode()
        accepted, _, requests = map(int, text.splitlines()[2].split())
        return accepted, requests


    def workers(self):
        """The processes that serve."""
        return [int(pid) for pid in Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()]


def memory_folder(size):
    """/dev/shm where it has room, so that no disk is measured."""
    with contextlib.suppress(OSError):
        room = os.statvfs("/dev/shm")
        if room.f_bavail * room.f_frsize > size + (64 << 20):
            return "/dev/shm"
    return None


def write_random(path, size):
    """Random, so that a wrong or misplaced range cannot have the right check sum."""
    with open(path, "wb") as file:
        while size > 0:
            size -= file.write(os.urandom(min(size, 16 << 20)))


def with_free_ports(text):
    """The configuration with every port replaced by a free one, and the map from one to the other."""
    ports = {}
    with contextlib.ExitStack() as stack:
        for port in map(int, re.findall(r"listen 127\.0\.0\.1:(\d+)", text)):
            # All are held until all are found: no port is given out twice.
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports[port] = listener.getsockname()[1]
    return re.sub(r"(listen 127\.0\.0\.1:)(\d+)", lambda m: m[1] + str(ports[int(m[2])]), text), ports


def module_folder(program):
    build = subprocess.run([program, "-V"], capture_output=True, text=True).stderr
    found = re.search(r"--modules-path=(\S+)", build)
    folder = Path(found[1] if found else "/usr/lib/nginx/modules")
    if not (folder / "ngx_http_lua_module.so").exists():
        raise Unavailable(f"no ngx_http_lua_module.so in {folder}, which delays the answers; {NEEDED}")
    return folder


def make_certificate(folder):
    """ca.pem, which the clients trust, and a certificate of it for the server: some take no other chain."""
    if not shutil.which("openssl"):
        raise Unavailable(f"no openssl here, which makes the server's certificate; {NEEDED}")
    (folder / "openssl.cnf").write_text(
        "[req]\ndistinguished_name = name\n[name]\n"
        "[authority]\nbasicConstraints = critical, CA:TRUE\nsubjectKeyIdentifier = hash\n"
        "[server]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1\n"
    )
    common = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-config", "openssl.cnf"]
    for more in (
        ["-extensions", "authority", "-subj", "/CN=RaskIO benchmark", "-keyout", "ca-key.pem", "-out", "ca.pem"],
        ["-extensions", "server", "-subj", "/CN=127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
        + ["-CA", "ca.pem", "-CAkey", "ca-key.pem"],
    ):
        done = subprocess.run(common + more, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"openssl makes no certificate (3.0 or later is needed): {done.stderr.strip()}")


def wait_until_ready(process, ports, folder):
    deadline = time.monotonic() + 10
    for port in ports:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                log = folder / "error.log"
                text = (process.stderr.read() if process.poll() is not None else "") or log.read_text()
                raise Unavailable(f"nginx does not answer on port {port}: {text.strip()}")
            time.sleep(0.02)


def version(program):
    return (
        subprocess.run([program, "-v"], capture_output=True, text=True).stderr.strip().removeprefix("nginx version: ")
    )
