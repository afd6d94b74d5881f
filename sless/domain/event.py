"""HTTP body and query → the event of contract §4, for calls that reach their handler as a run instead of over HTTP; and HTTP answer → the
result in history.

The runtimes apply the same rules to calls over HTTP; tests/unit/domain/test_event.py holds the cases for both.
"""

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote

from sless.errors import Code, SlessError

_PARAMETER = re.compile(r';\s*([^=;"\s]+)\s*=\s*(?:"((?:\\["\\]|[^"])*)"?[^;]*|([^;]*))')
_BOM = b"\xef\xbb\xbf"
_MAX_ERROR_CHARS = 1000
OWN_FAILURE_STATUS = 500
_BODILESS = frozenset({204, 304})


def event_of(content_type: str, query: str, body: bytes) -> str:
    """The event as JSON text. `query` is raw, without "?". Raises SlessError INVALID_JSON if a body declared as JSON does not parse."""
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
    """A handler's answer as JSON text: JSON unchanged, text as a string, bytes as a base64 string, no body as null."""
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
        except ValueError:  # the handler declared JSON but sent something else
            pass
    return json.dumps(text, ensure_ascii=False)


def own_failure_of(status: int, body: bytes) -> str | None:
    """The error text for an answer with status 500 or above: its shortened body. None below 500."""
    if status < OWN_FAILURE_STATUS:
        return None
    return body[: 4 * _MAX_ERROR_CHARS].decode(errors="replace")[:_MAX_ERROR_CHARS] or f"status {status}"


def _other_event(media_type: str, content_type: str, body: bytes) -> str:
    found: str | None = None
    start = body.removeprefix(_BOM).lstrip()[:1]
    # `curl -d` sends JSON as a form; without a type, try JSON only if it looks like it.
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
    """The body as text if it is valid JSON (without NaN and Infinity). Raises ValueError."""
    try:
        text = body.removeprefix(_BOM).decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return text


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _pairs(text: str) -> list[tuple[str, str]]:
    return parse_qsl(text, keep_blank_values=True, encoding="utf-8", errors="replace")


def _body_fields(body: bytes) -> dict[str, object]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def _parameters(header: str) -> dict[str, str]:
    """Parameters of a header such as `form-data; name="a"; filename*=UTF-8''b`. Browsers write `"` within quotes as %22."""
    parameters = {}
    for name, quoted, plain in _PARAMETER.findall(header):
        value = re.sub(r'\\(["\\])', r"\1", quoted).replace("%22", '"') if quoted else plain.strip()
        if name.endswith("*"):
            value = unquote(value.rpartition("'")[2])
        parameters[name.rstrip("*").lower()] = value
    return parameters


def _multipart_pairs(body: bytes, boundary: str) -> Iterable[tuple[str, object]]:
    """Yields (name, text) for fields and (name, {filename, content_type, body[, isBase64Encoded]}) for files."""
    # The added line break makes the first delimiter look like the others. Text before the first and after the last one is ignored.
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
