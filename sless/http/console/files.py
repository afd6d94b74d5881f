"""Serves the console's files: compressed, and below a path with the hash of all of them, so that browsers may keep them forever.

Only these are compressed, not pages: a page has the key of the session beside texts that strangers may have caused, such as the last words
of a crashed function, and its compressed length would reveal how much the two have in common (BREACH).
"""

import functools
import gzip
import hashlib

from flask import Response, request, send_from_directory
from werkzeug.security import safe_join

from sless import assets

_YEAR_SEC = 365 * 86400
_TEXTS = (".js", ".css", ".svg", ".json")


@functools.cache
def static_version() -> str:
    """Hash of all files of the console, which is part of their path, so that browsers may cache them forever."""
    folder = assets.static_dir() / "console"
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:12]


def versioned(tag: str, filename: str) -> Response:
    """Serves this version's files to a page of another one (from before an upgrade, or of another replica), but uncached."""
    current = tag == static_version()
    response = send_from_directory(assets.static_dir(), filename, max_age=_YEAR_SEC if current else 0)
    if current:
        response.cache_control.public, response.cache_control.immutable = True, True
    if filename.endswith(_TEXTS):
        response.vary.add("Accept-Encoding")
        if current and response.status_code == 200 and "Range" not in request.headers and request.accept_encodings["gzip"]:
            _compress(response, filename)
    return response


def _compress(response: Response, filename: str) -> None:
    response.close()  # the file
    response.direct_passthrough = False
    response.set_data(_compressed(filename))
    response.content_encoding = "gzip"
    etag, _ = response.get_etag()
    response.set_etag(f"{etag}-gzip")


@functools.cache
def _compressed(filename: str) -> bytes:
    path = safe_join(str(assets.static_dir()), filename)
    assert path is not None  # else `send_from_directory` has answered 404
    with open(path, "rb") as file:
        return gzip.compress(file.read(), mtime=0)
