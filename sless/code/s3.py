"""Code and build contexts in an S3 bucket, addressed by path: Ceph, SeaweedFS and MinIO have no host name per bucket."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from sless.code.folder import check_key, is_key
from sless.config import Settings
from sless.domain.blobs import StoredBlob
from sless.errors import Code, NotFound, SlessError

_ABSENT = frozenset({"NoSuchKey", "404", "NotFound"})
_IN_MEMORY_BYTES = 1 << 20
_CONTEXTS, _CONTEXT_SUFFIX = "contexts/", ".tar.gz"


def _client_of(settings: Settings) -> Any:
    endpoint = settings.s3_endpoint
    if "://" not in endpoint:
        endpoint = f"{'https' if settings.s3_use_ssl else 'http'}://{endpoint}"
    config = Config(
        s3={"addressing_style": "path"},
        connect_timeout=5,
        read_timeout=30,
        retries={"max_attempts": 3, "mode": "standard"},
        # Many servers do not support AWS's newer trailing checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name=settings.s3_region,
        aws_access_key_id=settings.s3_access_key or None,
        aws_secret_access_key=settings.s3_secret_key or None,
        config=config,
    )


class S3CodeStore:
    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    @classmethod
    def of(cls, settings: Settings) -> "S3CodeStore":
        return cls(_client_of(settings), settings.s3_bucket)

    def put(self, key: str, source: Path) -> None:
        with _failures("written"), source.open("rb") as body:
            self._client.put_object(Bucket=self._bucket, Key=check_key(key), Body=body, ContentType="application/zip")

    def open(self, key: str) -> BinaryIO:
        """The whole object in a temporary file, because the readers seek."""
        check_key(key)
        file: Any = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - the caller closes it
        try:
            with _failures("read"):
                answer = self._client.get_object(Bucket=self._bucket, Key=key)
                for chunk in answer["Body"].iter_chunks(1 << 20):
                    file.write(chunk)
        except BaseException as error:
            file.close()
            if isinstance(error, SlessError) and error.code is Code.NOT_FOUND:
                raise NotFound("code", key) from error
            raise
        file.seek(0)
        return cast(BinaryIO, file)

    def list_blobs(self) -> Iterator[StoredBlob]:
        """Blobs of all installations that share the bucket."""
        with _failures("read"):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket):
                for item in page.get("Contents") or ():
                    if is_key(item["Key"]):
                        yield StoredBlob(key=item["Key"], size_bytes=item["Size"], stored_at=item["LastModified"])

    def delete(self, key: str) -> None:
        with _failures("changed"):
            self._client.delete_object(Bucket=self._bucket, Key=check_key(key))


class S3ContextStore:
    """Build contexts under `contexts/INSTALLATION/`. Builder pods use presigned URLs, so they need no credentials."""

    def __init__(self, client: Any, bucket: str, installation: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{_CONTEXTS}{installation}/"

    @classmethod
    def of(cls, settings: Settings, installation: str) -> "S3ContextStore":
        return cls(_client_of(settings), settings.s3_bucket, installation)

    def put(self, build_id: str, source: Path, expires_sec: int) -> str:
        with _failures("written"), source.open("rb") as body:
            self._client.put_object(Bucket=self._bucket, Key=self._key_of(build_id), Body=body, ContentType="application/gzip")
            place = {"Bucket": self._bucket, "Key": self._key_of(build_id)}
            return str(self._client.generate_presigned_url("get_object", Params=place, ExpiresIn=expires_sec))

    def delete(self, build_id: str) -> None:
        with _failures("changed"):
            self._client.delete_object(Bucket=self._bucket, Key=self._key_of(build_id))

    def list_ids(self) -> list[str]:
        with _failures("read"):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
            keys = [item["Key"] for page in pages for item in page.get("Contents") or ()]
        return sorted(key.removeprefix(self._prefix).removesuffix(_CONTEXT_SUFFIX) for key in keys)

    def _key_of(self, build_id: str) -> str:
        return f"{self._prefix}{build_id}{_CONTEXT_SUFFIX}"


def read_object(settings: Settings, bucket: str, key: str) -> bytes:
    """Reads an object of any bucket. Raises NOT_FOUND, TOO_LARGE, UNAVAILABLE."""
    with _failures("read"):
        answer = _client_of(settings).get_object(Bucket=bucket, Key=key)
        if answer["ContentLength"] > settings.max_unpacked_bytes:
            raise SlessError(Code.TOO_LARGE, f"{key} has {answer['ContentLength']} bytes, expected at most {settings.max_unpacked_bytes}")
        content: bytes = answer["Body"].read()
        return content


@contextmanager
def _failures(doing: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        reason = str(error.response.get("Error", {}).get("Code", ""))
        if reason in _ABSENT:
            raise SlessError(Code.NOT_FOUND, "no such object") from error
        raise SlessError(Code.UNAVAILABLE, f"the code store cannot be {doing} now: {reason or 'refused'}", retry_after_sec=10) from error
    except BotoCoreError as error:
        raise SlessError(Code.UNAVAILABLE, f"the code store cannot be {doing} now: no response", retry_after_sec=10) from error
