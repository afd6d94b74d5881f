"""Request bodies: JSON up to its limit, uploads to disk."""

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from flask import Request, g, request
from werkzeug.exceptions import RequestEntityTooLarge

from sless.config import Settings
from sless.errors import NUL_MISTAKE, Code, Detail, Invalid, SlessError
from sless.usecases import Usecases
from sless.usecases.uploads import Form, Upload

_ZIP_TYPES = frozenset({"application/zip", "application/x-zip-compressed", "application/octet-stream"})
_MULTIPART = "multipart/form-data"
_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_FORM_OVERHEAD_BYTES = 64 * 1024
_CHUNK_BYTES = 256 * 1024
MAX_CODE_HASH_CHARS = 200
MAX_FORM_PARTS = 1000
MAX_FORM_TEXT_BYTES = 512 * 1024
MAX_JSON_VALUES = 20_000
"""Limits the time and memory to parse a body: each value takes up to about 200 bytes."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[,\[{]', re.DOTALL)
_QUOTE = ord('"')
_HUGE_NUMBER = re.compile(r"[0-9](?:[eE]\+?[0-9]{3}|[0-9]{307})")


class UploadRequest(Request):
    """Writes files of a form directly into the upload's staging folder, whose disk space is checked and which is deleted afterwards."""

    def _get_file_stream(
        self, total_content_length: int | None, content_type: str | None, filename: str | None = None, content_length: int | None = None
    ) -> IO[bytes]:
        folder: Path | None = g.get("staging")
        if folder is None:
            return super()._get_file_stream(total_content_length, content_type, filename, content_length)
        g.form_files.append((folder / f"form-{len(g.form_files)}").open("xb+"))
        return cast(IO[bytes], g.form_files[-1])


def read_json(limit_bytes: int, *, required: bool) -> Any:
    if request.mimetype not in ("", _JSON, _FORM) and not request.mimetype.endswith("+json"):
        raise SlessError(Code.UNSUPPORTED_MEDIA, f"Content-Type: expected {_JSON}, found {request.mimetype[:80]}")
    request.max_content_length = limit_bytes
    try:
        data = request.stream.read()
    except RequestEntityTooLarge as error:
        raise _too_large("the request body", limit_bytes, "max_json_bytes") from error
    if not data and not required:
        return None
    return parse_json(data)


def parse_json(data: bytes) -> Any:
    """Parses strict RFC 8259 JSON: no NaN, no lone surrogates. Raises Invalid (invalid_json)."""
    if not data.strip():
        raise _not_json("the body is empty")
    try:
        text = data.decode("utf-8-sig")
        _check_count(data)
        # A hook for each number is slow, so use it only for texts with numbers that may overflow.
        hooks: dict[str, Any] = {"parse_float": _finite} if _HUGE_NUMBER.search(text) else {}
        value = json.loads(text, parse_constant=_refuse_constant, **hooks)
        if "\\u" in text:  # only an escape can produce a lone surrogate
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _not_json("lone surrogate in a string") from error
    except UnicodeDecodeError as error:
        raise _not_json(f"invalid UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise _not_json(f"{error.msg} at line {error.lineno} column {error.colno}") from error
    except RecursionError as error:
        raise _not_json("nested too deeply") from error
    except ValueError as error:
        raise _not_json(str(error)) from error
    return value


@contextmanager
def received_upload(usecases: Usecases, settings: Settings) -> Iterator[Upload]:
    """The upload of this request, which is on disk during the block. Raises Invalid, TOO_LARGE, UNSUPPORTED_MEDIA, STORAGE_FULL."""
    with usecases.uploads.staged() as folder:
        code_hash = request.args.get("code_hash")
        match request.mimetype:
            case "multipart/form-data":
                path, code_hash = _from_form(folder, settings.max_zip_bytes, code_hash)
                form = Form.ZIP
            case "application/json":
                path, form = _from_stream(folder, settings.max_zip_bytes), Form.JSON
            case mimetype if mimetype in _ZIP_TYPES:
                path, form = _from_stream(folder, settings.max_zip_bytes), Form.ZIP
            case mimetype:
                expected = f"{_MULTIPART} with a file in the field code, application/zip or {_JSON}"
                raise SlessError(Code.UNSUPPORTED_MEDIA, f"Content-Type: expected {expected}, found {mimetype[:80] or 'none'}")
        if code_hash is not None and len(code_hash) > MAX_CODE_HASH_CHARS:
            raise Invalid(Detail(field="code_hash", message=f"expected at most {MAX_CODE_HASH_CHARS} characters, found {len(code_hash)}"))
        if code_hash is not None and "\0" in code_hash:
            raise Invalid(Detail(field="code_hash", message=NUL_MISTAKE))
        yield Upload(path=path, form=form, code_hash=code_hash)


def _from_stream(folder: Path, limit_bytes: int) -> Path:
    path = folder / "upload"
    request.max_content_length = limit_bytes
    try:
        with path.open("xb") as file:
            while chunk := request.stream.read(_CHUNK_BYTES):
                file.write(chunk)
    except RequestEntityTooLarge as error:
        raise _too_large("the upload", limit_bytes, "max_zip_bytes") from error
    return path


def _from_form(folder: Path, limit_bytes: int, code_hash: str | None) -> tuple[Path, str | None]:
    g.staging, g.form_files = folder, []
    try:
        return _read_form(limit_bytes, code_hash)
    finally:
        for file in g.form_files:
            file.close()


def _read_form(limit_bytes: int, code_hash: str | None) -> tuple[Path, str | None]:
    request.max_content_length = limit_bytes + _FORM_OVERHEAD_BYTES
    try:
        file = request.files.get("code")
        fields = request.form
    except RequestEntityTooLarge as error:
        if (request.content_length or 0) > request.max_content_length:
            raise _too_large("the upload", limit_bytes, "max_zip_bytes") from error
        message = f"expected a form with at most {MAX_FORM_PARTS} parts and {MAX_FORM_TEXT_BYTES} bytes of text"
        raise Invalid(Detail(field="", message=message)) from error
    if None in fields or None in request.files:
        raise Invalid(Detail(field="", message="the form has a part without a name"))
    if file is None:
        found = ", ".join(sorted({*request.files, *fields})[:5]) or "none"
        raise Invalid(Detail(field="code", message=f"expected a file in the form field code, found the fields: {found[:120]}"))
    file.stream.flush()
    path = Path(str(file.stream.name))
    if path.stat().st_size > limit_bytes:
        raise _too_large("the upload", limit_bytes, "max_zip_bytes")
    return path, fields.get("code_hash", code_hash)


def _too_large(what: str, limit_bytes: int, setting: str) -> SlessError:
    return SlessError(Code.TOO_LARGE, f"{what} is too large: expected at most {limit_bytes} bytes (limit {setting})")


def _not_json(found: str) -> Invalid:
    return Invalid(Detail(field="", message=f"invalid JSON: {found}"), code=Code.INVALID_JSON)


def _check_count(data: bytes) -> None:
    """Raises TOO_LARGE. Counts values before parsing, which would need memory."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= MAX_JSON_VALUES:
        return
    strings = separators = 0
    for token in _TOKEN.finditer(data):
        if data[token.start()] == _QUOTE:
            strings += 1
        else:
            separators += 1
        if separators > MAX_JSON_VALUES or strings > 2 * MAX_JSON_VALUES:
            raise SlessError(Code.TOO_LARGE, f"the request body has too many values: expected at most {MAX_JSON_VALUES}")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")
