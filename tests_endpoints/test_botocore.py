"""Signatures against botocore's signer, on random keys, headers, regions and credentials. A server takes each request as it
came over the wire, has botocore sign the same again, and compares."""

import random
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

import raskio_ctypes as raskio
from servers import pattern

COUNT = 3000
DATA = pattern(1000)
ALPHABET = "abcXYZ019-._~!*'()@:$,;=+&?#% []{}|\\^`\"<>/üß€日🎉"


class Account:
    """What the next request must be signed with."""

    credentials = None
    region = ""
    wrong = []
    seen = 0


class AsReceived(S3SigV4Auth):
    """Signs for the time that the request names."""

    def __init__(self, *arguments, timestamp):
        super().__init__(*arguments)
        self.timestamp = timestamp

    def again(self, request):
        request.context["timestamp"] = self.timestamp
        canonical = self.canonical_request(request)
        return self.signature(self.string_to_sign(request, canonical), request), canonical


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one packet: the second of two waits for the acknowledgement of the first.
    wbufsize = -1

    def answer(self, body):
        Account.seen += 1
        problem = self.problem()
        if problem:
            Account.wrong.append(problem)
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        first, last = 0, len(DATA) - 1
        if "Range" in self.headers:
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(DATA)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        if body:
            self.wfile.write(DATA[first : last + 1])

    def problem(self):
        authorization = self.headers.get("Authorization", "")
        parts = dict(part.split("=", 1) for part in authorization.removeprefix("AWS4-HMAC-SHA256 ").split(", ") if part)
        signed = parts.get("SignedHeaders", "").split(";")
        request = AWSRequest(self.command, f"http://{self.headers['Host']}{self.path}")
        for name in signed:
            for value in self.headers.get_all(name, []):
                request.headers.add_header(name, value.encode("latin-1").decode("utf-8"))
        for name in self.headers:
            if name.lower().startswith("x-amz-") and name.lower() not in signed:
                return f"{name} is not signed"
        token = Account.credentials.token
        if self.headers.get("x-amz-security-token") != token:
            return "another session token"
        date = self.headers["x-amz-date"]
        wanted = f"{Account.credentials.access_key}/{date[:8]}/{Account.region}/s3/aws4_request"
        if parts.get("Credential") != wanted:
            return f"Credential is {parts.get('Credential')}, not {wanted}"
        signer = AsReceived(Account.credentials, "s3", Account.region, timestamp=date)
        signature, canonical = signer.again(request)
        if signature != parts.get("Signature"):
            return f"{self.path}: another signature; botocore's canonical request is {canonical!r}"
        return None

    def do_GET(self):
        self.answer(True)

    def do_HEAD(self):
        self.answer(False)

    def log_message(self, *_):
        pass


class Botocore(unittest.TestCase):
    def test_thousands_of_random_requests_are_signed_as_botocore_does(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        dice = random.Random(seed)
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        words = "abcdefghijklmnopqrstuvwxyz0123456789"
        with raskio.Client(raskio.MULTI_POLL) as client:
            for n in range(COUNT):
                key = "".join(dice.choices(ALPHABET, k=dice.randint(1, 60)))
                token = None if n % 2 else "".join(dice.choices(words + "/+=", k=dice.randint(1, 300)))
                Account.credentials = Credentials(
                    "".join(dice.choices(words.upper(), k=20)), "".join(dice.choices(words + "/+=", k=40)), token
                )
                Account.region = "".join(dice.choices(words, k=4)) + "-" + str(dice.randint(1, 9))
                headers = [
                    f"X-Amz-{''.join(dice.choices(words, k=5))}: {'  '.join(dice.choices(words, k=dice.randint(1, 4)))} "
                    for _ in range(dice.choice([0, 0, 1, 3]))
                ]
                options = {
                    "endpoint_url": f"http://127.0.0.1:{server.server_port}",
                    "region": Account.region,
                    "access_key_id": Account.credentials.access_key,
                    "secret_access_key": Account.credentials.secret_key,
                    "headers": headers,
                }
                if token:
                    options["session_token"] = token
                try:
                    with client.open(f"s3://bucket/{key}", **options) as opened:
                        if n % 4 == 0:
                            self.assertEqual(opened.stat(), len(DATA))
                        self.assertEqual(opened.read(n % 900, 10), DATA[n % 900 : n % 900 + 10])
                except raskio.Failure as failure:
                    self.fail(f"seed {seed}, request {n}, key {key!r}: {failure}; {Account.wrong}")
        self.assertEqual(Account.wrong, [])
        self.assertGreaterEqual(Account.seen, COUNT)


if __name__ == "__main__":
    unittest.main()
