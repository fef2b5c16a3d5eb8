"""boto3, as most programs read ranges with it. Usage: boto3_read.py BASE PLAN REQUEST REPS WIDTH

WIDTH threads, each of which calls `get_object` with a Range and reads the body into the destination. The server is
addressed as an S3-compatible one with paths for buckets; requests are not signed, as for a public bucket.
"""

import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from peer import HostBytes, Job, measure

job = Job()
width = int(job.more[0])
destination = HostBytes(job.total)
state = {}


def make_client():
    config = Config(
        signature_version=UNSIGNED,
        max_pool_connections=width,
        s3={"addressing_style": "path"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=job.base,
        verify=os.environ["CURL_CA_BUNDLE"] if job.base.startswith("https:") else None,
        config=config,
    )


def work(requests):
    latencies = []
    for read in requests:
        begin = time.perf_counter()
        bucket, key = read.path.lstrip("/").split("/", 1)
        range_ = f"bytes={read.first}-{read.first + read.length - 1}"
        body = state["client"].get_object(Bucket=bucket, Key=key, Range=range_)["Body"]
        at, end = read.at, read.at + read.length
        while at < end and (count := body.readinto(destination.view[at:end])):
            at += count
        body.close()
        assert at == end, "a body is short"
        latencies.append(time.perf_counter() - begin)
    return latencies


def read_all():
    # The first repetition has everything that a fresh process has to do.
    if not state:
        state["client"] = make_client()
        state["pool"] = ThreadPoolExecutor(width)
    # A list's iterator gives each item to one thread.
    requests = iter(list(job.requests()))
    return list(itertools.chain(*state["pool"].map(work, [requests] * width)))


measure(job, "boto3", f"boto3 {boto3.__version__}", destination, read_all, lambda destination: destination.view)
