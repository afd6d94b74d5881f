"""Limits and rules of a request head, and a request that a connection repeats byte by byte, whose head need not be parsed again. Pure."""

from dataclasses import dataclass

from sless.errors import Code, SlessError
from sless.proxy.request import Headers, Request

MAX_HEAD_BYTES = 64 * 1024
MAX_FIELDS = 100
MAX_URL_BYTES = 16 * 1024
_MOST_REPEATED_BYTES = 4096
_END = b"\r\n\r\n"


def head_too_large() -> SlessError:
    return SlessError(Code.HEAD_TOO_LARGE, f"the request head is over the limit of {MAX_HEAD_BYTES} bytes or {MAX_FIELDS} fields")


def url_too_long() -> SlessError:
    return SlessError(Code.URI_TOO_LONG, f"the URL is over the limit of {MAX_URL_BYTES} bytes")


def check_head(method: bytes, version: str, headers: Headers) -> None:
    """Raises SlessError for a head that parses but is not accepted. The application checks methods other than CONNECT."""
    if version not in ("1.1", "1.0"):
        raise SlessError(Code.INVALID, f"unsupported HTTP version {version}; use HTTP/1.1 or 1.0")
    hosts = authorizations = 0
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"authorization":
            authorizations += 1
        elif name == b"transfer-encoding":
            if version == "1.0":
                raise SlessError(Code.INVALID, "HTTP/1.0 has no Transfer-Encoding")
            if value.lower() != b"chunked":
                raise SlessError(Code.NOT_IMPLEMENTED, "unsupported Transfer-Encoding; only chunked is supported")
    if hosts != 1 and not (hosts == 0 and version == "1.0"):
        raise SlessError(Code.INVALID, f"expected exactly one Host header, found {hosts}")
    if authorizations > 1:
        raise SlessError(Code.INVALID, f"expected at most one Authorization header, found {authorizations}")
    if method == b"CONNECT":
        raise SlessError(Code.METHOD_NOT_ALLOWED, "CONNECT is not supported")


def head_without_upgrade(method: bytes, url: bytes, version: str, headers: Headers) -> bytes:
    """The head with the upgrade removed from Connection, so that the parser reads the body. Keeps the Upgrade header itself."""
    lines = [b"%b %b HTTP/%b" % (method, url, version.encode())]
    for name, value in headers:
        if name == b"connection":
            tokens = [token.strip() for token in value.split(b",")]
            value = b", ".join(token for token in tokens if token and token.lower() != b"upgrade")
            if not value:
                continue
        lines.append(name + b": " + value)
    return b"\r\n".join(lines) + b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Repeated:
    """`request` has been accepted for the fast path with this head; `size` is that of head and body."""

    head: bytes
    size: int
    request: Request


def find_repeated(packet: bytes, request: Request) -> Repeated | None:
    """The request as one to recognise again, if the packet consists of exactly this request; else None."""
    head_bytes = packet.find(_END) + len(_END)
    if head_bytes > _MOST_REPEATED_BYTES or len(packet) != head_bytes + request.length:
        return None
    return Repeated(packet[:head_bytes], len(packet), request)
