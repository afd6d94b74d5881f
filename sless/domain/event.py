"""An HTTP request's body and query → the event, contract §4, for calls that reach their handler as a run and not over HTTP; and an HTTP
answer → the result that history keeps, whichever way the call went.

The runtimes hold the same rules of events for calls over HTTP; tests/unit/domain/test_event.py is the table of both.
"""

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote

from sless.errors import Code, SlessError

_PARAMETER = re.compile(r';\s*([^=;"\s]+)\s*=\s*(?:"((?:\\["\\]|[^"])*)"?[^;]*|([^;]*))')
_BOM = b"\xef\xbb\xbf"
_MAX_SAID_CHARS = 1000
OWN_FAILURE_STATUS = 500
_BODILESS = frozenset({204, 304})


def event_of(content_type: str, query: str, body: bytes) -> str:
    """The event as JSON text. `query` is raw, without "?". Raises SlessError INVALID_JSON for a body that says it is JSON and is not."""
    if not body:
        return json.dumps(dict(_pairs(query)), ensure_ascii=False)
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in ("application/json", "text/json") or media_type.endswith("+json"):
        try:
            return _json_text(body)
        except ValueError as error:
            raise SlessError(Code.INVALID_JSON, f"the request body is not valid JSON: {error}") from None
    return _other_event(media_type, content_type, body)


def result_of(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> str:
    """JSON text of what a handler answered: JSON as it is, text as a string, bytes as a string of base64, nothing as null."""
    content_type = next((value for name, value in headers if name.lower() == "content-type"), "")
    media_type = content_type.partition(";")[0].strip().lower()
    if status in _BODILESS or (not body and not media_type.startswith("text/")):
        return "null"
    try:
        text = base64.b64encode(body).decode() if media_type == "application/octet-stream" else body.decode()
    except UnicodeDecodeError:
        text = base64.b64encode(body).decode()
    if media_type == "application/json" or media_type.endswith("+json"):
        try:
            return _json_text(body)
        except ValueError:  # the handler's own header says what is not so
            pass
    return json.dumps(text, ensure_ascii=False)


def own_failure_of(status: int, body: bytes) -> str | None:
    """Why an answer that the handler meant is a failure: what it says itself, shortened. None below 500."""
    if status < OWN_FAILURE_STATUS:
        return None
    return body[: 4 * _MAX_SAID_CHARS].decode(errors="replace")[:_MAX_SAID_CHARS] or f"status {status}"


def _other_event(media_type: str, content_type: str, body: bytes) -> str:
    found: str | None = None
    start = body.removeprefix(_BOM).lstrip()[:1]
    # `curl -d` sends JSON as a form; without a type only what looks like JSON is taken for it.
    if (media_type == "" and start and start in b'"[{-0123456789tfn') or (
        media_type == "application/x-www-form-urlencoded" and start in (b"{", b"[")
    ):
        try:
            found = _json_text(body)
        except ValueError:
            found = None
    if found is not None:
        return found
    fields = _form_fields(media_type, content_type, body)
    return json.dumps(_body_fields(body) if fields is None else fields, ensure_ascii=False)


def _form_fields(media_type: str, content_type: str, body: bytes) -> dict[str, object] | None:
    if media_type == "application/x-www-form-urlencoded":
        return dict(_pairs(body.decode("utf-8", "replace")))
    if media_type == "multipart/form-data" and (boundary := _parameters(content_type).get("boundary")):
        return dict(_multipart_pairs(body, boundary))
    return None


def _json_text(body: bytes) -> str:
    """The body as text when it is JSON (NaN and Infinity are not). Raises ValueError."""
    try:
        text = body.removeprefix(_BOM).decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return text


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _pairs(text: str) -> list[tuple[str, str]]:
    return parse_qsl(text, keep_blank_values=True, encoding="utf-8", errors="replace")


def _body_fields(body: bytes) -> dict[str, object]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def _parameters(header: str) -> dict[str, str]:
    """name → value of `form-data; name="a"; filename*=UTF-8''b`. In quotes browsers write `"` as %22."""
    parameters = {}
    for name, quoted, plain in _PARAMETER.findall(header):
        value = re.sub(r'\\(["\\])', r"\1", quoted).replace("%22", '"') if quoted else plain.strip()
        if name.endswith("*"):
            value = unquote(value.rpartition("'")[2])
        parameters[name.rstrip("*").lower()] = value
    return parameters


def _multipart_pairs(body: bytes, boundary: str) -> Iterable[tuple[str, object]]:
    """(name, text), or for a file (name, {filename, content_type, body[, isBase64Encoded]})."""
    # A line break in front makes the first delimiter like all others; the first and the last piece are no parts.
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode())
    for piece in pieces[1:-1]:
        _, _, part = piece.partition(b"\r\n")
        head, found, content = part.partition(b"\r\n\r\n")
        headers = _headers_of(head.decode("utf-8", "replace"))
        parameters = _parameters(headers.get("content-disposition", ""))
        name = parameters.get("name")
        if not found or name is None:
            continue
        filename = parameters.get("filename")
        if filename is None:
            yield name, content.decode("utf-8", "replace")
        else:
            content_type = headers.get("content-type", "application/octet-stream")
            yield name, {"filename": filename, "content_type": content_type, **_body_fields(content)}


def _headers_of(head: str) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in head.split("\r\n") if ":" in line)
    return {name.strip().lower(): value.strip() for name, value in pairs}
