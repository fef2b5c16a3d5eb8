"""TLS and client certificates against nginx, and a real forward proxy (tinyproxy)."""

import os
import ssl
import subprocess
import unittest
from unittest import mock

import raskio_ctypes as raskio
from servers import Case, free_port, pattern, program

DATA = pattern(100_000)
BACKENDS = (raskio.MULTI_POLL, raskio.EASY_THREADPOOL)

NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
events {{ worker_connections 256; }}
http {{
  log_format sessions '$server_port $request_method $ssl_protocol "$ssl_session_reused"';
  access_log {folder}/access.log sessions;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  root {folder}/www;
  ssl_certificate {folder}/server.pem;
  ssl_certificate_key {folder}/server.key;
  ssl_session_cache shared:s:1m;
  server {{ listen 127.0.0.1:{plain}; }}
  server {{
    listen 127.0.0.1:{tls} ssl;
    location = /to-http {{ return 302 http://localhost:{plain}/data; }}
    location = /to-mutual {{ return 302 https://localhost:{mutual}/data; }}
  }}
  server {{
    listen 127.0.0.1:{mutual} ssl;
    ssl_client_certificate {folder}/ca.pem;
    ssl_verify_client on;
    location = /to-tls {{ return 302 https://localhost:{tls}/data; }}
  }}
  server {{
    # A new connection for each request.
    listen 127.0.0.1:{short} ssl;
    keepalive_timeout 0;
  }}
  server {{
    listen 127.0.0.1:{old} ssl;
    ssl_protocols TLSv1.1;
    ssl_ciphers ALL:@SECLEVEL=0;
  }}
}}
"""


class Tls(Case):
    @classmethod
    def openssl(cls, *arguments):
        command = [program("openssl"), *arguments]
        subprocess.run(command, cwd=cls.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @classmethod
    def certificate(cls, name, subject, extra):
        cls.openssl(
            "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject
        )
        cls.write(f"{name}.ext", extra)
        cls.openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-out", f"{name}.pem", "-extfile", f"{name}.ext",
        )  # fmt: skip

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        nginx = program("nginx")
        cls.openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
            "-subj", "/CN=a test's own CA", "-addext", "basicConstraints=critical,CA:TRUE",
        )  # fmt: skip
        # Not for 127.0.0.1: a name that does not fit must be seen.
        cls.certificate("server", "/CN=localhost", "subjectAltName=DNS:localhost\n")
        cls.certificate("client", "/CN=a client", "extendedKeyUsage=clientAuth\n")
        cls.openssl("rsa", "-aes256", "-passout", "pass:pass word", "-in", "client.key", "-out", "locked.key")
        with open(cls.path("client.key")) as key, open(cls.path("client.pem")) as certificate:
            cls.write("both.pem", certificate.read() + key.read())
        hashed = subprocess.run(
            [program("openssl"), "x509", "-hash", "-noout", "-in", "ca.pem"],
            cwd=cls.folder, check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        with open(cls.path("ca.pem")) as certificate:
            cls.write(f"certs/{hashed}.0", certificate.read())
        cls.write("www/data", DATA)
        cls.ports = {name: free_port() for name in ("plain", "tls", "mutual", "short", "old")}
        cls.write("nginx.conf", NGINX.format(folder=cls.folder, **cls.ports))
        cls.nginx = cls.start(
            [nginx, "-p", cls.folder, "-e", cls.path("error.log"), "-c", cls.path("nginx.conf")], cls.ports.values()
        )
        for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
            os.environ.pop(name, None)

    def url(self, server, path="/data", host="localhost"):
        scheme = "http" if server == "plain" else "https"
        return f"{scheme}://{host}:{self.ports[server]}{path}"

    def check(self, url, **options):
        for backend in BACKENDS:
            with raskio.Client(backend) as client, client.open(url, **options) as opened:
                self.assertEqual(opened.stat(), len(DATA))
                self.assertEqual(opened.read(0, len(DATA)), DATA)

    def fails(self, status, words, url, **options):
        for backend in BACKENDS:
            with raskio.Client(backend) as client, self.assertRaises(raskio.Failure) as raised:
                raskio.read(client, url, 0, 10, **options)
            self.assertEqual(raised.exception.status, status, raised.exception)
            self.assertIn(words, raised.exception.message)

    def test_the_ca_comes_from_option_or_environment(self):
        ca, url = self.path("ca.pem"), self.url("tls")
        self.fails("TLS", "certificate authorities: ", url)
        self.check(url, ca_file=ca)
        for variables in (
            {"CURL_CA_BUNDLE": ca, "SSL_CERT_FILE": "/does/not/exist"},
            {"SSL_CERT_FILE": ca},
            {"SSL_CERT_DIR": self.path("certs")},
        ):
            with mock.patch.dict(os.environ, variables):
                self.check(url)
        # The first one counts, also where it is of no use.
        with mock.patch.dict(os.environ, {"CURL_CA_BUNDLE": "/does/not/exist", "SSL_CERT_FILE": ca}):
            self.fails("TLS", "/does/not/exist, from CURL_CA_BUNDLE", url)
            # Plain http needs none of it.
            self.check(self.url("plain"))

    def test_a_certificate_for_another_name_is_refused(self):
        self.fails("TLS", "127.0.0.1", self.url("tls", host="127.0.0.1"), ca_file=self.path("ca.pem"))

    def test_verification_is_switched_off_by_the_flag_alone_and_with_a_warning(self):
        with raskio.Log() as log:
            self.check(self.url("tls", host="127.0.0.1"), flags=raskio.TLS_UNVERIFIED)
        self.assertTrue(any(line.startswith("2 ") and "not verified" in line for line in log.lines), log.lines[:20])
        # An object that is opened without it is verified, on the same client and after the other.
        with raskio.Client(raskio.MULTI_POLL) as client:
            raskio.read(client, self.url("tls"), 0, 10, flags=raskio.TLS_UNVERIFIED)
            with self.assertRaises(raskio.Failure) as raised:
                raskio.read(client, self.url("tls"), 0, 10)
            self.assertEqual(raised.exception.status, "TLS")

    def test_a_client_certificate_is_shown_to_its_own_origin(self):
        url, ca = self.url("mutual"), self.path("ca.pem")
        self.fails("HTTP", "400", url, ca_file=ca)
        own = {"client_certificate": self.path("client.pem"), "client_key": self.path("client.key")}
        self.check(url, ca_file=ca, **own)
        self.check(url, ca_file=ca, client_certificate=self.path("both.pem"))
        locked = own | {"client_key": self.path("locked.key")}
        self.check(url, ca_file=ca, client_key_password="pass word", **locked)
        for password in ({"client_key_password": "wrong s3cr3t"}, {}):
            for backend in BACKENDS:
                with raskio.Client(backend) as client, self.assertRaises(raskio.Failure) as raised:
                    raskio.read(client, url, 0, 10, ca_file=ca, **locked, **password)
                self.assertEqual(raised.exception.status, "TLS", raised.exception)
                self.assertIn("is client_key_password right", raised.exception.message.replace("\n", " "))
                self.assertNotIn("s3cr3t", raised.exception.message)
        # A redirect to another origin does not get it; one that comes from there needs none.
        self.fails("HTTP", "400", self.url("tls", "/to-mutual"), ca_file=ca, **own)
        self.check(self.url("mutual", "/to-tls"), ca_file=ca, **own)
        # Objects with and without one never share a connection.
        with raskio.Client(raskio.MULTI_POLL) as client:
            raskio.read(client, url, 0, 10, ca_file=ca, **own)
            with self.assertRaises(raskio.Failure) as raised:
                raskio.read(client, url, 0, 10, ca_file=ca)
            self.assertEqual(raised.exception.http_status, 400)

    def test_https_never_falls_to_http(self):
        self.fails("HTTP", "https to http", self.url("tls", "/to-http"), ca_file=self.path("ca.pem"))

    def test_less_than_tls_1_2_is_refused(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.load_verify_locations(self.path("ca.pem"))
        try:
            import socket

            with socket.create_connection(("127.0.0.1", self.ports["old"])) as plain:
                with context.wrap_socket(plain, server_hostname="localhost") as old:
                    self.assertEqual(old.version(), "TLSv1.1")
        except ssl.SSLError as error:
            self.skipTest(f"this machine's OpenSSL does not speak TLS 1.1 at all: {error}")
        self.fails("TLS", "", self.url("old"), ca_file=self.path("ca.pem"))

    def test_sessions_are_resumed_across_connections(self):
        ca = self.path("ca.pem")
        with raskio.Client(raskio.MULTI_POLL) as client, client.open(self.url("short"), ca_file=ca) as opened:
            for n in range(20):
                self.assertEqual(opened.read(n, 10), DATA[n : n + 10])
        self.nginx.process.send_signal(10)  # USR1: nginx writes its log out
        with open(self.path("access.log")) as log:
            seen = [line.split() for line in log if line.startswith(str(self.ports["short"]))]
        reused = [line for line in seen if line[-1] == '"r"']
        self.assertEqual(len(seen), 20)
        self.assertGreaterEqual(len(reused), 18, seen)
        self.assertTrue(all(line[2] in ("TLSv1.2", "TLSv1.3") for line in seen), seen)

    def test_a_forward_proxy_tunnels_tls_and_wants_its_password(self):
        port = free_port()
        self.write(
            "tinyproxy.conf",
            f"Port {port}\nListen 127.0.0.1\nMaxClients 20\nAllow 127.0.0.1\nBasicAuth puser p4ss\nLogLevel Info\n",
        )
        proxy = self.start([program("tinyproxy"), "-d", "-c", self.path("tinyproxy.conf")], [port])
        ca, url = self.path("ca.pem"), f"http://puser:p4ss@127.0.0.1:{port}"
        self.check(self.url("tls"), ca_file=ca, proxy=url)
        self.check(self.url("plain"), proxy=url)
        self.assertIn("CONNECT localhost", proxy.output())
        with mock.patch.dict(os.environ, {"https_proxy": url, "http_proxy": url}):
            before = proxy.output().count("CONNECT localhost")
            self.check(self.url("tls"), ca_file=ca)
            self.assertGreater(proxy.output().count("CONNECT localhost"), before)
            before = proxy.output().count("Request (file descriptor")
            with mock.patch.dict(os.environ, {"no_proxy": "localhost"}):
                self.check(self.url("tls"), ca_file=ca)
                self.check(self.url("plain"))
            self.check(self.url("tls"), ca_file=ca, proxy="")
            self.assertEqual(proxy.output().count("Request (file descriptor"), before, "not by the proxy")
        wrong = f"http://puser:s3cr3t@127.0.0.1:{port}"
        for server in ("tls", "plain"):
            for backend in BACKENDS:
                with raskio.Client(backend) as client, self.assertRaises(raskio.Failure) as raised:
                    raskio.read(client, self.url(server), 0, 10, ca_file=ca, proxy=wrong)
                words = "401 Unauthorized|407" if server == "plain" else "40[17].*user:password@host:port.*from the option proxy"
                self.assertRegex(raised.exception.message, words)  # tinyproxy says 401 where it should say 407
                self.assertNotIn("s3cr3t", raised.exception.message)


if __name__ == "__main__":
    unittest.main()
