"""Puts the objects of test_s3.py into two servers, and prints a presigned link: fill_s3.py S3 MOTO ID KEY NAMES"""

import json
import sys

import botocore.session
from botocore.config import Config
from scripted_server import pattern

s3, moto, key_id, key, names = sys.argv[1:]


def client(url, **more):
    config = Config(
        **more, s3={"addressing_style": "path"}, request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )  # fmt: skip
    return botocore.session.get_session().create_client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id=key_id, aws_secret_access_key=key,
        config=config,
    )  # fmt: skip


for url in (s3, moto):
    there = client(url)
    # moto gives to anybody what is public, and SeaweedFS knows no such thing.
    more = {"ACL": "public-read"} if url == moto else {}
    there.create_bucket(Bucket="bucket")
    for name in json.loads(names):
        there.put_object(Bucket="bucket", Key=name, Body=pattern(0, 300_000), **more)
print(client(s3, signature_version="s3v4").generate_presigned_url("get_object", {"Bucket": "bucket", "Key": "plain"}, 3600))
