"""An HTTP server for the tests: objects of a known pattern, misbehaviour by path, WebHDFS. Runs as a thread or as a program.

/data/SIZE             the object, with ranges and an ETag
/busy/N/ID/SIZE        503 for the first N GETs of this ID, then the object
/always/STATUS/SIZE    that status for every GET; HEAD is well
/whole/SIZE            ignores ranges: 200 and everything
/gone/SIZE             404 for everything
/moved/SIZE            302 to /data/SIZE
/short/SIZE            bodies lack their last byte, and do not say so
/wrong/SIZE            another range than the one asked for
/headless/SIZE         HEAD is 403; the size is in Content-Range (a presigned URL)
/unsized/SIZE          HEAD has no length, and GET of a range says bytes 0-0/*
/slow/SECONDS/SIZE     answers GETs so much later
/changing/ID/SIZE      a new ETag, and other bytes, after PUT /changing/ID
/expiring/ID/SIZE      wants the session token "token-N", N counting the PUTs of /expiring/ID; with another one it says that it has expired
/growing/ID/SIZE       1000 bytes more, and another ETag, for each PUT /growing/ID
/file/PATH             a file of this machine
/webhdfs/v1/SIZE       op=GETFILESTATUS and op=OPEN, which leads to another path
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


def pattern(first, size, salt=0):
    """data[i] = (i * 31 + 7 + salt) mod 251"""
    period = bytes((i * 31 + 7 + salt) % 251 for i in range(251))
    at = first % 251
    return (period * ((at + size) // 251 + 1))[at : at + size]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.serve(True)

    def do_GET(self):
        self.serve(False)

    def do_PUT(self):
        self.server.versions[self.path] = self.server.versions.get(self.path, 0) + 1
        self.reply(200, b"")

    def reply(self, status, body, headers=(), head=False):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not head:
            self.wfile.write(body)

    def serve(self, head):
        with self.server.lock:
            self.server.requests.append((self.command, self.path, self.headers.get("Range")))
        url = urlsplit(self.path)
        if url.path == "/requests":
            with self.server.lock:
                seen, self.server.requests = self.server.requests[:-1], []
            return self.reply(200, json.dumps(seen).encode())
        if url.path.startswith("/webhdfs/v1/"):
            return self.webhdfs(url)
        if url.path.startswith("/file/"):
            with open(url.path[5:], "rb") as file:
                data = file.read()
            first, end = self.range(len(data))
            headers = [("Content-Range", f"bytes {first}-{end - 1}/{len(data)}")] if self.headers.get("Range") else []
            return self.reply(206 if headers else 200, data[first:end], headers, head)
        _, kind, *more = url.path.split("/")
        size, etag, salt = int(more[-1]), '"one"', 0
        if kind == "growing":
            grown = self.server.versions.get("/growing/" + more[0], 0)
            size, etag = size + 1000 * grown, f'"{grown}"'
        first, end = self.range(size)
        status = 206 if self.headers.get("Range") else 200
        if kind == "moved":
            return self.reply(302, b"", [("Location", f"/data/{size}")], head=head)
        if kind == "expiring":
            valid = f"token-{self.server.versions.get('/expiring/' + more[0], 0)}"
            if self.headers.get("x-amz-security-token") != valid:
                return self.reply(400, b"<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>", head=head)
        if kind == "gone":
            return self.reply(404, b"", head=head)
        if kind == "always" and not head:
            return self.reply(int(more[0]), b"<Error><Code>Planned</Code><Message>As asked for.</Message></Error>")
        if kind == "busy" and not head:
            with self.server.lock:
                seen = self.server.versions[more[1]] = self.server.versions.get(more[1], 0) + 1
            if seen <= int(more[0]):
                return self.reply(503, b"")
        if kind == "headless" and head:
            return self.reply(403, b"")
        if kind == "unsized":
            if head:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                return None
            return self.reply(206, b"x", [("Content-Range", "bytes 0-0/*")])
        if kind == "slow" and not head:
            time.sleep(float(more[0]))
        if kind == "changing":
            salt = self.server.versions.get("/changing/" + more[0], 0)
            etag = f'"{salt}"'
        if first >= size and self.headers.get("Range"):
            return self.reply(416, b"", [("Content-Range", f"bytes */{size}")])
        if kind == "whole":
            first, end, status = 0, size, 200
        headers = [("ETag", etag), ("Accept-Ranges", "bytes")]
        if status == 206:
            shift = 1 if kind == "wrong" else 0
            headers.append(("Content-Range", f"bytes {first + shift}-{end - 1 + shift}/{size}"))
        if kind == "short" and not head:
            end -= 1
        if head:
            return self.reply(200, b"", [*headers, ("Content-Length", str(size))], True)
        return self.reply(status, pattern(first, end - first, salt), headers)

    def range(self, size):
        text = self.headers.get("Range")
        if text is None:
            return 0, size
        first, _, last = text.removeprefix("bytes=").partition("-")
        if not first:
            return max(0, size - int(last)), size
        return int(first), min(size, int(last) + 1 if last else size)

    def webhdfs(self, url):
        size, query = int(url.path.rsplit("/", 1)[1]), parse_qs(url.query)
        self.server.users.append(query.get("user.name", [None])[0])
        if query["op"] == ["GETFILESTATUS"]:
            return self.reply(200, json.dumps({"FileStatus": {"length": size, "type": "FILE"}}).encode())
        first, length = int(query["offset"][0]), int(query["length"][0])
        if "node" not in query:
            host = self.headers["Host"]
            return self.reply(307, b"", [("Location", f"http://{host}{self.path}&node=1")])
        return self.reply(200, pattern(first, min(length, size - first)))


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.requests, self.versions, self.users = threading.Lock(), [], {}, []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """Clients that give up in the middle are part of the tests."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


if __name__ == "__main__":
    print(Server().url, flush=True)
    sys.stdin.read()
