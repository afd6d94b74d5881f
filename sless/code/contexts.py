"""Build contexts without S3: files in the data folder. Builder pods download them from sless through signed URLs that expire."""

import hashlib
import hmac
import os
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from sless.errors import Code, NotFound, SlessError

if TYPE_CHECKING:
    from sless.config import Settings
    from sless.domain.ports import ContextStore

PATH = "/internal/contexts/"
_ID = re.compile(r"[a-z0-9]{1,64}")
_KEY_FILE = "context.key"
_KEY_BYTES = 32


def open_context_store(settings: "Settings", installation: str) -> "ContextStore":
    """S3 when an endpoint is configured, else the data folder. Several installations may share a bucket."""
    if settings.s3_endpoint:
        from sless.code.s3 import S3ContextStore

        return S3ContextStore.of(settings, installation)
    return FolderContextStore(settings.data_dir, internal_url_of(settings))


def internal_url_of(settings: "Settings") -> str:
    return (settings.internal_url or f"http://sless.{settings.pod_namespace}.svc:{settings.port}").rstrip("/")


class FolderContextStore:
    """The signing key is in the data folder, so that URLs stay valid after a restart of the server, which a builder's Job survives."""

    def __init__(self, data_dir: Path, internal_url: str) -> None:
        self._folder = data_dir / "contexts"
        self._url = internal_url
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._key = _ensure_key(data_dir / _KEY_FILE)

    def put(self, build_id: str, source: Path, expires_sec: int) -> str:
        target = self._path_of(build_id)
        staged = target.with_suffix(".tmp")
        shutil.copyfile(source, staged)
        staged.rename(target)
        expires = int(time.time()) + expires_sec
        return f"{self._url}{PATH}{build_id}?expires={expires}&signature={self._signature_of(build_id, expires)}"

    def delete(self, build_id: str) -> None:
        self._path_of(build_id).unlink(missing_ok=True)

    def list_ids(self) -> list[str]:
        return sorted(path.name.removesuffix(".tar.gz") for path in self._folder.glob("*.tar.gz"))

    def get_path(self, build_id: str, query: str) -> Path:
        """The file for a signed URL. Raises FORBIDDEN for a wrong or expired signature before it checks that the file exists."""
        given = {name: values[0] for name, values in parse_qs(query).items()}
        expires, signature = given.get("expires", ""), given.get("signature", "")
        if not expires.isdecimal() or len(expires) > 12 or not _ID.fullmatch(build_id):
            raise SlessError(Code.FORBIDDEN, "this URL is not signed: expected expires and signature")
        if not hmac.compare_digest(self._signature_of(build_id, int(expires)).encode(), signature.encode()):
            raise SlessError(Code.FORBIDDEN, "the signature of this URL is wrong")
        if int(expires) < time.time():
            raise SlessError(Code.FORBIDDEN, "this URL has expired")
        path = self._path_of(build_id)
        if not path.is_file():
            raise NotFound("build context", build_id)
        return path

    def _path_of(self, build_id: str) -> Path:
        if not _ID.fullmatch(build_id):
            raise ValueError(f"expected a build id of letters and digits, found {build_id!r}")
        return self._folder / f"{build_id}.tar.gz"

    def _signature_of(self, build_id: str, expires: int) -> str:
        return hmac.new(self._key, f"context\n{build_id}\n{expires}".encode(), hashlib.sha256).hexdigest()


def _ensure_key(path: Path) -> bytes:
    """Creates the key once, with mode 0600. If two processes do so at the same time, both use the first one."""
    if not path.exists():
        staged = path.with_name(f"{path.name}.{secrets.token_hex(6)}")
        staged.touch(mode=0o600)
        staged.write_bytes(secrets.token_bytes(_KEY_BYTES))
        try:
            os.link(staged, path)
        except FileExistsError:
            pass
        finally:
            staged.unlink()
    return path.read_bytes()
