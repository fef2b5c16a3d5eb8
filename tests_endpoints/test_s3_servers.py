"""Two S3 servers that check signatures: SeaweedFS and rclone. Objects are put there by botocore."""

import json
import unittest

import botocore.exceptions
import botocore.session
from botocore.config import Config

import raskio_ctypes as raskio
from servers import Case, free_port, pattern, program

ID, KEY = "MINIO1", "a/secret+key=with-signs"
# Case 19 of tests/CASES.md. Not every server takes every key; which do is asked of it by botocore.
KEYS = [
    "date=2025-09-15", "a+b", "a b", "50%.bin", "q?x", "h#1", "u-ü", "!*'()", "a@2x", "~t", "/lead", "x//y", "p/./q",
    "a%20b", "a;b,c:d$e&f", "deep/er/and/deeper", "日本語", "\"quoted\"", "[x]{y}|z^`<>",
]  # fmt: skip
DATA = pattern(300_000)


def s3_client(port, **more):
    return botocore.session.get_session().create_client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id=ID,
        aws_secret_access_key=KEY,
        config=Config(
            **more,
            s3={"addressing_style": "path"},
            retries={"max_attempts": 3},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


class S3Server:
    """What both must pass."""

    fewest_keys = 16

    def keys(self):
        return {
            "endpoint_url": f"http://127.0.0.1:{self.port}",
            "access_key_id": ID,
            "secret_access_key": KEY,
            "region": "us-east-1",
        }

    def test_every_key_that_the_server_takes_is_read(self):
        s3, taken = s3_client(self.port), []
        for key in KEYS:
            try:
                s3.put_object(Bucket="bucket", Key=key, Body=DATA)
                s3.head_object(Bucket="bucket", Key=key)
                taken.append(key)
            except botocore.exceptions.ClientError:
                pass
        self.assertGreaterEqual(len(taken), self.fewest_keys, taken)
        for backend in (raskio.MULTI_POLL, raskio.EASY_THREADPOOL):
            with raskio.Client(backend) as client:
                for key in taken:
                    with self.subTest(key=key), client.open(f"s3://bucket/{key}", **self.keys()) as opened:
                        self.assertEqual(opened.stat(), len(DATA))
                        self.assertEqual(opened.read(0, len(DATA)), DATA)
                        self.assertEqual(opened.read(12_345, 678), DATA[12_345:13_023])

    def test_a_url_with_keys_is_signed_as_it_is(self):
        s3_client(self.port).put_object(Bucket="bucket", Key="a=b/c+d e", Body=DATA)
        keys = {name: value for name, value in self.keys().items() if name != "endpoint_url"}
        with raskio.Client(raskio.MULTI_POLL) as client:
            for path in ("a%3Db/c%2Bd%20e", "a=b/c%2bd%20e"):
                got = raskio.read(client, f"http://127.0.0.1:{self.port}/bucket/{path}", 5, 10, **keys)
                self.assertEqual(got, DATA[5:15])

    def test_a_presigned_url_is_read_and_measured(self):
        s3 = s3_client(self.port, signature_version="s3v4")
        s3.put_object(Bucket="bucket", Key="pre signed", Body=DATA)
        url = s3.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": "pre signed"}, 600)
        self.assertIn("X-Amz-Signature", url)
        with raskio.Client(raskio.MULTI_POLL) as client, client.open(url) as opened:
            self.assertEqual(opened.stat(), len(DATA))
            self.assertEqual(opened.read(7, 100), DATA[7:107])

    def test_a_batch_and_the_end_of_an_object(self):
        s3 = s3_client(self.port, signature_version="s3v4")
        s3.put_object(Bucket="bucket", Key="batch", Body=DATA)
        s3.put_object(Bucket="bucket", Key="empty", Body=b"")
        presigned = s3.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": "batch"}, 600)
        for backend in (raskio.MULTI_POLL, raskio.EASY_THREADPOOL):
            with raskio.Client(backend) as client:
                for url, options in [("s3://bucket/batch", self.keys()), (presigned, {})]:
                    with client.open(url, **options) as opened:
                        self.assertEqual(opened.read_end(100), DATA[-100:])
                    with client.open(url, **options) as opened:
                        self.assertEqual(opened.read_end(len(DATA) + 1), DATA)
                    with client.open(url, **options) as opened:
                        ranges = [(0, 100), (50, 100), (5000, 10), (5000, 10), (len(DATA) - 5, 10), (None, 7), (3, 0)]
                        got = client.read_batch([(opened, offset, size) for offset, size in ranges])
                        for (offset, size), data in zip(ranges, got):
                            with self.subTest(url=url, offset=offset, size=size):
                                if offset == len(DATA) - 5:
                                    self.assertIn(data.status, ("RANGE", "INVALID_ARGUMENT"))
                                else:
                                    start = len(DATA) - size if offset is None else offset
                                    self.assertEqual(data, DATA[start : start + size])
                with client.open("s3://bucket/empty", **self.keys()) as opened:
                    self.assertEqual(opened.read_end(10), b"")
                with client.open("s3://bucket/missing", **self.keys()) as opened:
                    (missing,) = client.read_batch([(opened, None, 10)])
                    self.assertEqual(missing.status, "NOT_FOUND")

    def test_refusals_say_why(self):
        s3_client(self.port).put_object(Bucket="bucket", Key="k", Body=DATA)
        with raskio.Client(raskio.MULTI_POLL) as client:
            for change, statuses in [
                ({"secret_access_key": "another"}, ["PERMISSION_DENIED"]),
                ({"access_key_id": "NOBODY"}, ["PERMISSION_DENIED"]),
            ]:
                for ask in (lambda opened: opened.stat(), lambda opened: opened.read(0, 10)):
                    with client.open("s3://bucket/k", **(self.keys() | change)) as opened:
                        with self.assertRaises(raskio.Failure) as raised:
                            ask(opened)
                    self.assertIn(raised.exception.status, statuses, raised.exception)
                    self.assertIn("403", raised.exception.message)
            with self.assertRaises(raskio.Failure) as raised:
                raskio.read(client, "s3://bucket/missing", 0, 10, **self.keys())
            self.assertEqual(raised.exception.status, "NOT_FOUND")


class SeaweedFS(S3Server, Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        identity = {"name": "test", "credentials": [{"accessKey": ID, "secretKey": KEY}], "actions": ["Admin"]}
        cls.write("identities.json", json.dumps({"identities": [identity]}))
        cls.write("data/none", "")
        master, volume, filer, cls.port = (free_port() for _ in range(4))
        grpc = [free_port() for _ in range(4)]
        cls.start(
            [
                program("weed"), "server", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=4",
                "-master.volumeSizeLimitMB=64", f"-master.port={master}", f"-master.port.grpc={grpc[0]}",
                f"-volume.port={volume}", f"-volume.port.grpc={grpc[1]}", "-filer", f"-filer.port={filer}",
                f"-filer.port.grpc={grpc[2]}", "-s3", f"-s3.port={cls.port}", f"-s3.port.grpc={grpc[3]}",
                "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.config=identities.json",
            ],
            [master, volume, filer, cls.port],
        )  # fmt: skip
        s3_client(cls.port).create_bucket(Bucket="bucket")


class Rclone(S3Server, Case):
    # It refuses keys with empty or dotted parts.
    fewest_keys = 14

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("data/bucket/none", "")
        cls.port = free_port()
        cls.start(
            [program("rclone"), "serve", "s3", "--auth-key", f"{ID},{KEY}", "--addr", f"127.0.0.1:{cls.port}", "data"],
            [cls.port],
        )


if __name__ == "__main__":
    unittest.main()
