"""S3 as a user of KvikIO reads it, from SeaweedFS (checks signatures) and moto. As test_reads.py, with KvikIO alone or
with RaskIO below it.

Environment: S3 and MOTO, URLs of the servers; PRESIGNED, a link; AWS_* with the right keys. The bucket `bucket` holds
objects of 300,000 bytes.
"""

import os
import unittest
import urllib.request

NATIVE = os.environ.get("NATIVE") == "1"
if not NATIVE:
    import raskio_kvikio

import kvikio
import numpy as np

from scripted_server import Server, pattern

S3, MOTO, SIZE = os.environ["S3"], os.environ["MOTO"], 300_000


def read(file, size=SIZE, offset=0):
    memory = np.zeros(size, dtype=np.uint8)
    assert file.pread(memory, size, offset).get() == size
    return memory.tobytes()


class S3Reads(unittest.TestCase):
    def tearDown(self):
        if not NATIVE:
            self.assertEqual(raskio_kvikio.status().left_to_kvikio, 0, raskio_kvikio.status())

    def check(self, file):
        self.assertEqual(file.nbytes(), SIZE)
        self.assertEqual(read(file), pattern(0, SIZE))
        self.assertEqual(read(file, 678, 12_345), pattern(12_345, 678))

    def test_bucket_and_object(self):
        for service in (S3, MOTO):
            os.environ["AWS_ENDPOINT_URL"] = service
            self.check(kvikio.RemoteFile.open_s3("bucket", "plain"))
            self.check(kvikio.RemoteFile.open_s3_url("s3://bucket/deep/er/and/deeper"))
            self.check(kvikio.RemoteFile.open("s3://bucket/plain"))

    def test_an_http_url_with_keys(self):
        self.check(kvikio.RemoteFile.open_s3_url(S3 + "/bucket/plain"))

    def test_names_that_must_be_encoded(self):
        os.environ["AWS_ENDPOINT_URL"] = S3
        for name in ("date=2025-09-15/x", "a+b", "!*'()", "a@2x", "~t", "a;b,c:d$e&f"):
            with self.subTest(name=name):
                self.check(kvikio.RemoteFile.open_s3("bucket", name))

    @unittest.skipIf(NATIVE, "KvikIO refuses them")
    def test_names_that_kvikio_cannot_open(self):
        os.environ["AWS_ENDPOINT_URL"] = S3
        for name in ("a b", "u-ü", "[x]{y}|z^`<>"):
            with self.subTest(name=name):
                self.check(kvikio.RemoteFile.open_s3("bucket", name))

    def test_a_presigned_link(self):
        self.check(kvikio.RemoteFile.open_s3_presigned_url(os.environ["PRESIGNED"]))

    def test_a_public_object(self):
        self.check(kvikio.RemoteFile.open_s3_public(MOTO + "/bucket/plain"))

    def test_refusals(self):
        os.environ["AWS_ENDPOINT_URL"] = S3
        with self.assertRaisesRegex(RuntimeError, "returned error: 404"):
            kvikio.RemoteFile.open_s3("bucket", "missing")
        secret = os.environ["AWS_SECRET_ACCESS_KEY"]
        os.environ["AWS_SECRET_ACCESS_KEY"] = "another"
        try:
            with self.assertRaisesRegex(RuntimeError, "returned error: 403") as raised:
                kvikio.RemoteFile.open_s3("bucket", "plain")
            self.assertNotIn("another", str(raised.exception))
            # The reactors of 26.08 name no status.
            with self.assertRaisesRegex(RuntimeError, "returned error: 403|HTTP response code said error"):
                read(kvikio.RemoteFile.open_s3("bucket", "plain", SIZE))
        finally:
            os.environ["AWS_SECRET_ACCESS_KEY"] = secret
        # The same name with the right keys again: nothing of the refusal stuck to it.
        self.check(kvikio.RemoteFile.open_s3("bucket", "plain"))

    def test_a_session_that_expires(self):
        server = Server()
        os.environ["AWS_ENDPOINT_URL"] = server.url

        def session(number):
            # KvikIO takes a token along with the key of a session only.
            os.environ["AWS_ACCESS_KEY_ID"] = "ASIASESSION"
            os.environ["AWS_SESSION_TOKEN"] = f"token-{number}"
            return kvikio.RemoteFile.open_s3("expiring", "one/300000")

        def expire():
            urllib.request.urlopen(urllib.request.Request(server.url + "/expiring/one", method="PUT")).close()

        key_id = os.environ["AWS_ACCESS_KEY_ID"]
        try:
            first = session(0)
            self.check(first)
            expire()
            # An endpoint of KvikIO has the keys that it was made with. The reactors of 26.08 name no status.
            with self.assertRaisesRegex(RuntimeError, "returned error: 400|HTTP response code said error") as raised:
                read(first)
            self.assertNotIn("token-0", str(raised.exception))
            second = session(1)
            self.check(second)
            with self.assertRaises(RuntimeError):
                read(first, 10)
            self.check(second)
            # Those of before, once they are good again.
            self.check(session(1))
        finally:
            del os.environ["AWS_SESSION_TOKEN"]
            os.environ["AWS_ACCESS_KEY_ID"] = key_id
            server.shutdown()
            server.server_close()


if __name__ == "__main__":
    unittest.main()
