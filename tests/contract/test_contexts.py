"""Build contexts for builder pods: signed URLs, the route that serves them, S3."""

import asyncio
import os
import stat
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from sless.asgi.contexts import send_context
from sless.asgi.paths import PathKind, path_of
from sless.code.contexts import FolderContextStore, open_context_store
from sless.config import Settings
from sless.errors import Code, SlessError
from tests.services.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server

BUILD = "b0123"


@pytest.fixture
def contexts(tmp_path: Path) -> FolderContextStore:
    return FolderContextStore(tmp_path / "data", "http://sless.example:9090")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "context.tar.gz"
    path.write_bytes(os.urandom(700_000))
    return path


def query_of(url: str) -> str:
    return url.partition("?")[2]


def refused(contexts: FolderContextStore, build_id: str, query: str) -> str:
    with pytest.raises(SlessError) as error:
        contexts.get_path(build_id, query)
    assert error.value.code is Code.FORBIDDEN
    return error.value.message


def test_a_signed_url_opens_only_its_context(contexts, archive):
    url = contexts.put(BUILD, archive, 60)
    assert url.startswith(f"http://sless.example:9090/internal/contexts/{BUILD}?expires=")
    assert contexts.get_path(BUILD, query_of(url)).read_bytes() == archive.read_bytes()
    contexts.put("other", archive, 60)
    assert refused(contexts, "other", query_of(url)) == "the signature of this URL is wrong"


@pytest.mark.parametrize(
    "query", ["", "expires=1", "signature=x", "expires=x&signature=y", "expires=-1&signature=y", "expires=9&signature=%ff"]
)
def test_unsigned_urls_are_refused(contexts, archive, query):
    contexts.put(BUILD, archive, 60)
    refused(contexts, BUILD, query)


def test_a_url_expires_and_cannot_be_extended(contexts, archive):
    query = query_of(contexts.put(BUILD, archive, -1))
    assert refused(contexts, BUILD, query) == "this URL has expired"
    expires = int(query.partition("=")[2].partition("&")[0])
    later = query.replace(str(expires), str(expires + 3600))
    assert refused(contexts, BUILD, later) == "the signature of this URL is wrong"


@pytest.mark.parametrize("build_id", ["../context.key", "..%2fcontext.key", "", "B", "a/b"])
def test_paths_cannot_escape_the_folder(contexts, build_id):
    refused(contexts, build_id, f"expires={int(time.time()) + 60}&signature=x")


def test_a_missing_context_is_404_only_with_a_valid_signature(contexts, archive):
    url = contexts.put(BUILD, archive, 60)
    assert contexts.list_ids() == [BUILD]
    contexts.delete(BUILD)
    contexts.delete(BUILD)
    assert contexts.list_ids() == []
    with pytest.raises(SlessError) as error:
        contexts.get_path(BUILD, query_of(url))
    assert error.value.code is Code.NOT_FOUND
    refused(contexts, BUILD, "expires=1&signature=x")


def test_the_key_is_private_and_survives_a_restart(contexts, archive, tmp_path):
    url = contexts.put(BUILD, archive, 60)
    again = FolderContextStore(tmp_path / "data", "http://sless.example:9090")
    assert again.get_path(BUILD, query_of(url)).is_file()
    assert stat.S_IMODE((tmp_path / "data" / "context.key").stat().st_mode) == 0o600


def test_pods_get_the_internal_url(tmp_path, archive):
    given = Settings(data_dir=tmp_path, pod_namespace="functions", port=9000)
    assert open_context_store(given, "i").put(BUILD, archive, 60).startswith("http://sless.functions.svc:9000/internal/contexts/")


# --- the route ---------------------------------------------------------------------------------------------------------------------------


def test_the_route_streams_the_file(contexts, archive):
    found = path_of("GET", f"/internal/contexts/{BUILD}".encode(), b"")
    assert (found.path_kind, found.name) == (PathKind.CONTEXT, BUILD)
    assert path_of("POST", b"/internal/contexts/x", b"").path_kind is PathKind.FLASK
    query = query_of(contexts.put(BUILD, archive, 60))
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    scope = {"method": "GET", "query_string": query.encode()}
    assert asyncio.run(send_context(scope, send, contexts.get_path, BUILD)) == 200
    assert dict(sent[0]["headers"])[b"content-length"] == b"700000"
    assert b"".join(message["body"] for message in sent[1:]) == archive.read_bytes()
    assert len(sent) > 3, "in pieces"


# --- S3 ----------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def s3_settings(tmp_path: Path, s3_server: S3Server) -> Settings:
    return Settings(
        data_dir=tmp_path, s3_endpoint=f"http://{s3_server.endpoint}", s3_bucket=BUCKET, s3_access_key=ACCESS_KEY, s3_secret_key=SECRET_KEY
    )


def test_a_presigned_url_needs_no_credentials_and_expires(s3_settings, archive):
    contexts = open_context_store(s3_settings, "one")
    url = contexts.put(BUILD, archive, 60)
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.read() == archive.read_bytes()
    assert BUILD in contexts.list_ids() and SECRET_KEY not in url
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(url.partition("?")[0], timeout=20)
    contexts.delete(BUILD)
    contexts.delete(BUILD)
    assert BUILD not in contexts.list_ids()


def test_installations_share_a_bucket(s3_settings, archive):
    one, other = open_context_store(s3_settings, "one"), open_context_store(s3_settings, "other")
    one.put(BUILD, archive, 60)
    assert BUILD not in other.list_ids()
    other.delete(BUILD)
    assert BUILD in one.list_ids()
    one.delete(BUILD)
