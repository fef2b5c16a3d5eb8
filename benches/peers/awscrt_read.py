"""The S3 client of the AWS Common Runtime. Usage: awscrt_read.py BASE PLAN REQUEST REPS WIDTH all|one

It is the C client that the AWS CLI and the AWS SDKs use for fast transfers, through its Python binding. Requests are
not signed, as for a public bucket; the part of S3 that a ranged GetObject needs (Range, 206, ETag) is what any HTTP
server has. REQUEST is its part size, WIDTH the most connections that it may have. It hands out `bytes` of its own,
which are copied into the destination, as a program with a buffer of its own would have to.
"""

import os
import time
from importlib.metadata import version
from urllib.parse import urlsplit

from awscrt.http import HttpHeaders, HttpRequest
from awscrt.io import ClientBootstrap, ClientTlsContext, DefaultHostResolver, EventLoopGroup, TlsContextOptions
from awscrt.s3 import S3Client, S3RequestTlsMode, S3RequestType
from peer import HostBytes, Job, measure

job = Job()
width, submit = int(job.more[0]), job.more[1]
url = urlsplit(job.base)
destination = HostBytes(job.total)
clients = []


def make_client():
    group = EventLoopGroup()
    bootstrap = ClientBootstrap(group, DefaultHostResolver(group))
    tls = None
    if url.scheme == "https":
        options = TlsContextOptions()
        options.override_default_trust_store_from_path(None, os.environ["CURL_CA_BUNDLE"])
        tls = ClientTlsContext(options).new_connection_options()
        tls.set_server_name(url.hostname)
    return S3Client(
        bootstrap=bootstrap,
        region="us-east-1",
        tls_mode=S3RequestTlsMode.ENABLED if tls else S3RequestTlsMode.DISABLED,
        tls_connection_options=tls,
        part_size=job.request,
        throughput_target_gbps=100,
        max_active_connections_override=width,
    )


def start(read):
    def on_body(chunk, offset, **_):
        at = read.at + offset - read.first
        assert read.at <= at and at + len(chunk) <= read.at + read.length
        destination.view[at : at + len(chunk)] = chunk

    headers = HttpHeaders([("host", url.netloc), ("range", f"bytes={read.first}-{read.first + read.length - 1}")])
    request = clients[0].make_request(
        type=S3RequestType.GET_OBJECT,
        request=HttpRequest("GET", read.path, headers),
        on_body=on_body,
    )
    return request.finished_future


def read_all():
    # The first repetition has everything that a fresh process has to do.
    if not clients:
        clients.append(make_client())
    if submit == "all":
        for future in [start(read) for read in job.reads]:
            future.result()
        return None
    latencies = []
    for read in job.reads:
        begin = time.perf_counter()
        start(read).result()
        latencies.append(time.perf_counter() - begin)
    return latencies


measure(job, "awscrt", f"awscrt {version('awscrt')}", destination, read_all, lambda destination: destination.view)
