"""Converts a handler's result into an HTTP answer."""

from binascii import Error, a2b_base64

from .encode import encode_json

TEXT_TYPE = "text/plain; charset=utf-8"
BINARY_TYPE = "application/octet-stream"
JSON_TYPE = "application/json"
FILE_CHUNK_BYTES = 65536
STATUS_WITHOUT_BODY = (204, 304)

DROPPED_HEADERS = frozenset(
    [
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
TOKEN_CHARACTERS = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class BadResult(Exception):
    """The result is not a valid HTTP answer; the message names the status, header or base64 at fault."""


class Answer:
    """`body` is bytes, or None when `stream` (an iterator or async iterable of str and bytes) yields it in chunks.

    `content_type` applies unless `headers`, (name, value) pairs, contain one; None when the first chunk decides. For sless: `error` is the
    message for the history, `fault` the code when the platform refused the call, `raised` whether the handler raised, `exhausted` whether
    that says that the process has used up what it may have.
    """

    __slots__ = ("body", "content_type", "error", "exhausted", "fault", "headers", "raised", "status", "stream")

    def __init__(self, status=200, body=b"", content_type=None, headers=()):
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.stream = None
        self.error = self.fault = None
        self.raised = self.exhausted = False


def answer_of(result):
    """Convert any result. Raises BadResult, NotSerializable."""
    kind = type(result)
    if kind is dict:
        return status_answer_of(result) if "statusCode" in result else Answer(200, encode_json(result).encode("ascii"), JSON_TYPE)
    if result is None:
        return Answer(204)
    if kind is tuple and len(result) in (2, 3):
        return tuple_answer_of(result)
    if isinstance(result, dict) and "statusCode" in result:
        return status_answer_of(result)
    return filled(Answer(200), result, "result")


def tuple_answer_of(result):
    body, status, *headers = result
    pairs = kept(header_list(*headers)) if headers and headers[0] is not None else ()
    answer = Answer(status_of(status, "status of the tuple"), headers=pairs)
    return filled(answer, body, "body")


def status_answer_of(result):
    headers = header_list(result.get("headers") or {})
    if result.get("multiValueHeaders"):
        multi = header_list(result["multiValueHeaders"], "multiValueHeaders")
        names = {name.lower() for name in result["multiValueHeaders"]}
        headers = [*(pair for pair in headers if pair[0].lower() not in names), *multi]
    headers += header_list({"Set-Cookie": list(cookies_of(result.get("cookies")))}, "cookies")
    answer = Answer(status_of(result["statusCode"], "statusCode"), headers=kept(headers))
    body = result.get("body")
    if result.get("isBase64Encoded") is True and body is not None:
        answer.body, answer.content_type = decode_base64(body), BINARY_TYPE
        return answer
    return filled(answer, body, "body")


def filled(answer, body, root):
    """Set the answer's body from any supported value."""
    if body is None:
        answer.body = b""
    elif isinstance(body, str):
        answer.body, answer.content_type = body.encode("utf-8", "replace"), TEXT_TYPE
    elif isinstance(body, (bytes, bytearray, memoryview)):
        answer.body, answer.content_type = bytes(body), BINARY_TYPE
    elif is_stream(body):
        answer.body, answer.stream = None, chunks_of_file(body) if hasattr(body, "read") and not hasattr(body, "__aiter__") else body
    else:
        answer.body, answer.content_type = encode_json(body, root).encode("ascii"), JSON_TYPE
    return answer


def is_stream(body):
    kind = type(body)
    return hasattr(kind, "__next__") or hasattr(kind, "__aiter__") or (hasattr(kind, "read") and hasattr(kind, "__iter__"))


def chunks_of_file(file):
    try:
        while chunk := file.read(FILE_CHUNK_BYTES):
            yield chunk
    finally:
        file.close()


def status_of(status, name):
    if isinstance(status, str) and status.isascii() and status.isdigit():
        status = int(status[:9])
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
        raise BadResult(f"{name}: expected an integer from 200 to 599, found {status!r:.100}")
    return int(status)


def kept(pairs):
    """The pairs without `Connection` and the headers that it names: they are for this connection only (RFC 9110, 7.6.1)."""
    named = {token.strip().lower() for name, value in pairs if name.lower() == "connection" for token in value.split(",")}
    return [pair for pair in pairs if pair[0].lower() not in named and pair[0].lower() != "connection"] if named else pairs


def header_list(headers, name="headers"):
    """(name, value) pairs of a dict whose values are scalars or lists, without the headers that the runtime sets itself; see `kept` for
    `Connection`."""
    if not isinstance(headers, dict):
        raise BadResult(f"{name}: expected an object of header names and values, found {type(headers).__name__}")
    pairs = []
    for key, value in headers.items():
        check_header_name(key)
        if key.lower() in DROPPED_HEADERS or key.lower().startswith("x-sless-"):
            continue
        items = value if isinstance(value, (list, tuple)) else (value,)
        pairs.extend((key, header_value_of(key, item)) for item in items if item is not None)
    return pairs


def check_header_name(name):
    if not isinstance(name, str) or not name or not TOKEN_CHARACTERS.issuperset(name):
        raise BadResult(f"header name: expected letters, digits and -, found {name!r:.100}")


def header_value_of(name, value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str):
        raise BadResult(f"header {name}: expected a string or number, found {type(value).__name__}")
    if any(character != "\t" and (character < " " or character == "\x7f" or character > "\xff") for character in value):
        raise BadResult(f"header {name}: expected Latin-1 text without line breaks and control characters, found {value!r:.100}")
    return value


def cookies_of(cookies):
    if cookies is None:
        return ()
    if not isinstance(cookies, (list, tuple)):
        raise BadResult(f"cookies: expected a list of strings, found {type(cookies).__name__}")
    return cookies


def decode_base64(body):
    if not isinstance(body, (str, bytes)):
        raise BadResult(f"body: isBase64Encoded is true; expected base64 text, found {type(body).__name__}")
    try:
        return a2b_base64(body, strict_mode=True) if body else b""
    except (Error, ValueError) as wrong:
        raise BadResult(f"body: isBase64Encoded is true, but the body is not base64: {wrong}") from None


def chunk_bytes(chunk):
    """A chunk of a stream as bytes. Raises TypeError unless it is str or bytes."""
    if isinstance(chunk, str):
        return chunk.encode("utf-8", "replace")
    if isinstance(chunk, (bytes, bytearray, memoryview)):
        return bytes(chunk)
    raise TypeError(f"a chunk of a stream must be str or bytes, found {type(chunk).__name__}")


def json_answer(status, value):
    return Answer(status, encode_json(value).encode("ascii"), JSON_TYPE)
