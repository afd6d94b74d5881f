"""Pushes an OCI layout: `FOLDER REFERENCE REGISTRY_URL CONFIG KEYS`. The last container of a builder pod runs this source as `python3 -c`.

A tenant's build wrote the layout, so it cannot be trusted: files are opened without following links, and only uploaded if they have the
digest by which the manifest names them. Therefore a layout cannot make this process publish another file of its container.
"""

import base64
import hashlib
import json
import os
import re
import stat
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

ATTEMPTS = 4
PERMANENT = 3
"""Exit code if another attempt would fail, too."""
LAYOUT = "layout"
MAX_JSON_BYTES = 4 * 2**20
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_TIMEOUT_SEC = 120


class PushFailed(Exception):
    """A non-retryable failure; the text says why."""


class NotNow(Exception):
    """A temporary failure."""


def main() -> None:
    folder, reference, url, config, keys = sys.argv[1:]
    repository, _, tag = reference.partition("/")[2].rpartition(":")
    registry = Repository(url, repository, read_credentials(config, keys.split(",")))
    try:
        print("pushed", reference, push(folder, registry, tag), flush=True)
    except (NotNow, OSError) as error:
        sys.exit(f"cannot push {reference}: {error}")
    except (PushFailed, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"cannot push {reference}: {error or type(error).__name__}", file=sys.stderr)
        sys.exit(PERMANENT)


def push(folder: str, registry: "Repository", tag: str) -> str:
    """Returns the digest."""
    descriptor = find_manifest(folder)
    content = read_blob(folder, descriptor["digest"])
    manifest = json.loads(content)
    kind = manifest.get("mediaType") or descriptor.get("mediaType")
    if kind not in MANIFESTS:
        raise PushFailed(f"expected the manifest of an image, found {kind!r}")
    for item in (manifest["config"], *manifest["layers"]):
        retried(partial(registry.upload, folder, item["digest"]))
    retried(partial(registry.put_manifest, tag, content, kind))
    return str(descriptor["digest"])


def retried(task: Callable[[], None]) -> None:
    for left in reversed(range(ATTEMPTS)):
        try:
            task()
            return
        except (NotNow, OSError) as error:
            if not left:
                raise
            print(f"{error}; trying again", flush=True)
            time.sleep(ATTEMPTS - left)


# --- the layout ---------------------------------------------------------------------------------------------------------------------------


def find_manifest(folder: str) -> dict[str, Any]:
    with open_inside(folder, LAYOUT, "index.json") as file:
        manifests = json.loads(file.read(MAX_JSON_BYTES))["manifests"]
    if len(manifests) != 1:
        raise PushFailed(f"expected one image in the layout, found {len(manifests)}")
    found: dict[str, Any] = manifests[0]
    return found


def read_blob(folder: str, digest: str) -> bytes:
    with open_blob(folder, digest) as file:
        return file.read(MAX_JSON_BYTES)


def open_blob(folder: str, digest: str) -> BinaryIO:
    """Raises PushFailed if the file does not have this digest."""
    name = _DIGEST.fullmatch(digest)
    if name is None:
        raise PushFailed(f"expected a sha256 digest, found {digest!r}")
    file = open_inside(folder, LAYOUT, "blobs", "sha256", name[1])
    found = hashlib.sha256()
    while chunk := file.read(1 << 20):
        found.update(chunk)
    if found.hexdigest() != name[1]:
        file.close()
        raise PushFailed(f"the blob {digest} has another digest")
    file.seek(0)
    return file


def open_inside(folder: str, *parts: str) -> BinaryIO:
    """A regular file below `folder`; no part of the path may be a link. Raises PushFailed."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    except OSError as error:
        raise PushFailed(f"{'/'.join(parts)}: {error.strerror}") from error
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise PushFailed(f"{'/'.join(parts)}: expected a file")
    return os.fdopen(file, "rb")


# --- the registry -------------------------------------------------------------------------------------------------------------------------


def read_credentials(path: str, keys: list[str]) -> str:
    """`user:password` of the first of these keys in a dockerconfigjson; "" without."""
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        auths = {key.rstrip("/"): value for key, value in json.load(file)["auths"].items()}
    entry: dict[str, str] = next((auths[key.rstrip("/")] for key in keys if key.rstrip("/") in auths), {})
    if entry.get("username"):
        return f"{entry['username']}:{entry.get('password', '')}"
    return base64.b64decode(entry.get("auth") or "").decode()


class Repository:
    """One repository over the OCI distribution API."""

    def __init__(self, url: str, repository: str, credentials: str) -> None:
        self._base = f"{url}/v2/{repository}"
        self._scope = f"repository:{repository}:pull,push"
        self._basic = "Basic " + base64.b64encode(credentials.encode()).decode() if credentials else ""
        self._authorization = ""

    def upload(self, folder: str, digest: str) -> None:
        with open_blob(folder, digest) as file:
            status, _, _ = self._ask("HEAD", f"{self._base}/blobs/{digest}")
            if status == 200:
                return
            _, headers, _ = self._check(self._ask("POST", f"{self._base}/blobs/uploads/", b""))
            place = urllib.parse.urljoin(f"{self._base}/blobs/uploads/", headers["Location"])
            place += f"{'&' if '?' in place else '?'}digest={urllib.parse.quote(digest)}"
            self._check(self._ask("PUT", place, file))

    def put_manifest(self, tag: str, content: bytes, kind: str) -> None:
        self._check(self._ask("PUT", f"{self._base}/manifests/{tag}", content, kind))

    def _check(self, answer: tuple[int, Any, bytes]) -> tuple[int, Any, bytes]:
        status, _, body = answer
        if status >= 500 or status == 429:
            raise NotNow(f"the registry answered {status}")
        if status >= 400:
            raise PushFailed(f"the registry answered {status}: {body.decode(errors='replace')[:300]}")
        return answer

    def _ask(
        self, method: str, url: str, body: bytes | BinaryIO | None = None, kind: str = "application/octet-stream"
    ) -> tuple[int, Any, bytes]:
        answer = self._send(method, url, body, kind)
        if answer[0] == 401:
            self._authorization = self._answer_to(answer[1].get("WWW-Authenticate", ""))
            answer = self._send(method, url, body, kind)
        return answer

    def _send(self, method: str, url: str, body: bytes | BinaryIO | None, kind: str) -> tuple[int, Any, bytes]:
        headers = {"Authorization": self._authorization} if self._authorization else {}
        if body is not None:
            size = len(body) if isinstance(body, bytes) else os.fstat(body.fileno()).st_size
            headers |= {"Content-Type": kind, "Content-Length": str(size)}
        if body is not None and not isinstance(body, bytes):
            body.seek(0)
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SEC) as response:
                return response.status, response.headers, response.read(MAX_JSON_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read(MAX_JSON_BYTES)

    def _answer_to(self, challenge: str) -> str:
        """The Authorization header for the challenge of a 401."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic" and self._basic:
            return self._basic
        wanted = dict(_CHALLENGE.findall(rest))
        if scheme.lower() != "bearer" or "realm" not in wanted:
            raise PushFailed("the registry requires a password, but the registry secret has none for it")
        query = {"scope": self._scope, **({"service": wanted["service"]} if "service" in wanted else {})}
        headers = {"Authorization": self._basic} if self._basic else {}
        request = urllib.request.Request(f"{wanted['realm']}?{urllib.parse.urlencode(query)}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SEC) as response:
                answer = json.loads(response.read(MAX_JSON_BYTES))
        except urllib.error.HTTPError as error:
            raise PushFailed(f"the registry rejected the registry secret: {error.code} from {wanted['realm']}") from error
        return f"Bearer {answer.get('token') or answer['access_token']}"


if __name__ == "__main__":
    main()
