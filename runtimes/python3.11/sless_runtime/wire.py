"""Reads HTTP/1.1 requests from a socket: small ones without blocking, others by blocking."""

from _socket import MSG_DONTWAIT

from .answers import TOKEN_CHARACTERS

HEAD_LIMIT_BYTES = 128 * 1024
BODY_LIMIT_BYTES = 256 * 1024 * 1024
"""Safety limit; sless enforces the documented limits."""
RECEIVE_BYTES = 65536
SMALL_BODY_BYTES = 65536
"""The leader waits for a body of up to this size; a larger one is read in a thread."""
KNOWN_METHODS = frozenset(("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"))
HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

STEADY_HEADERS = frozenset(
    [
        *("host", "content-type", "content-length", "user-agent", "connection", "accept", "accept-encoding", "accept-language"),
        *("x-sless-trigger", "x-sless-client-ip", "x-sless-timeout-ms", "x-sless-control", "x-sless-full-path"),
        *("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"),
    ]
)
STEADY_LINE = 300
STEADY_LINES = 1000
request_lines = {}
header_lines = {}
"""Cache of parsed header lines. Bounded, because clients choose the values."""


class BadRequest(Exception):
    """The request is malformed or unsupported; answer with `status`, then close."""

    def __init__(self, message, status=400):
        super().__init__(message)
        self.status = status


class Request:
    """`headers` are (lower-case name, value) pairs in order; `path` and `query` are not decoded and hold Latin-1 characters."""

    __slots__ = ("_values", "body", "header_of", "headers", "method", "minor_version", "path", "peer", "query")

    def __init__(self, line, headers):
        self.method, self.path, self.query, self.minor_version = line
        self.headers = headers
        self._values = values = dict(headers)
        self.header_of = values.get
        """The last value of a header, or None."""
        self.body = b""
        self.peer = ""

    def header(self, key):
        """The last value of a header, or ""."""
        return self._values.get(key, "")

    def repeats(self, key):
        return sum(name == key for name, _ in self.headers) > 1

    def has_repeats(self):
        """Whether any header is repeated."""
        return len(self._values) != len(self.headers)

    def keeps_alive(self):
        connection = self.header_of("connection")
        if self.minor_version == 0:
            return connection is not None and connection.lower() == "keep-alive"
        return connection is None or "close" not in connection.lower()


def parse_head(head):
    """Parse request line and headers (without the empty line). Raises BadRequest."""
    lines = head.decode("latin-1").split("\r\n")
    first = lines.pop(0)
    known = header_lines.get
    return Request(request_lines.get(first) or parse_request_line(first), [known(line) or parse_header(line) for line in lines])


def parse_request_line(line):
    """(method, path, query, minor version) of a request line. Raises BadRequest."""
    try:
        method, target, version = line.split(" ")
    except ValueError:
        raise BadRequest(f"request line: expected method, target and version, found {line!r:.100}") from None
    check_clean(target)
    if method not in KNOWN_METHODS and not (method and TOKEN_CHARACTERS.issuperset(method)):
        raise BadRequest(f"method: found {method!r:.100}")
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequest(f"version: expected HTTP/1.1, found {version!r:.100}", 505 if version.startswith("HTTP/") else 400)
    if not target.startswith("/"):
        target = path_of_absolute(target)
    path, _, query = target.partition("?")
    parsed = method, path, query, int(version[-1])
    if len(line) < STEADY_LINE and len(request_lines) < STEADY_LINES:
        request_lines[line] = parsed
    return parsed


def check_clean(text):
    """Raise BadRequest for characters that another parser could take for the end of a line or string."""
    if "\n" in text or "\r" in text or "\0" in text:
        raise BadRequest("request head: expected lines that end in CR LF, without control characters")


def path_of_absolute(target):
    """`http://host/path` → `/path`, `*` → `/`. Raises BadRequest for other forms."""
    scheme, found, rest = target.partition("://")
    if target == "*":
        return "/"
    if not found or scheme.lower() not in ("http", "https"):
        raise BadRequest(f"request target: expected a path, found {target!r:.100}")
    slash = rest.find("/")
    return rest[slash:] if slash >= 0 else "/"


def parse_header(line):
    """(lower-case name, value) of a header line. Raises BadRequest."""
    check_clean(line)
    name, colon, value = line.partition(":")
    if not colon or not name or not TOKEN_CHARACTERS.issuperset(name):
        raise BadRequest(f"header: expected name: value, found {name!r:.100}")
    header = name.lower(), value.strip(" \t")
    if header[0] in STEADY_HEADERS and len(line) < STEADY_LINE and len(header_lines) < STEADY_LINES:
        header_lines[line] = header
    return header


class Wire:
    """Input of one connection. `buffer`: bytes that are not parsed yet; `unfinished`: a request whose body is incomplete."""

    def __init__(self, sock, peer):
        self.sock = sock
        self.peer = peer
        self.buffer = b""
        self.unfinished = None

    def receive(self):
        """Read available bytes without blocking. Raises OSError when the client has closed its side."""
        try:
            data = self.sock.recv(RECEIVE_BYTES, MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionAbortedError("the client left")
        self.buffer = self.buffer + data if self.buffer else data

    def take_request(self, before_blocking):
        """The next request with its body; None while it is incomplete. Raises BadRequest, OSError.

        `before_blocking` is called before reading a body that is large, of unknown length, or announced with `Expect: 100-continue`.
        """
        request, self.unfinished = self.unfinished, None
        if request is None:
            request = self._take_head()
            if request is None:
                return None
        length = request.header_of("content-length")
        if request.header_of("transfer-encoding") is None:
            if length is None:
                return request
            if length == str(len(self.buffer)) and not request.has_repeats():  # the usual case: one complete request
                request.body, self.buffer = self.buffer, b""
                return request
        missing = self._missing_bytes(request, length)
        if 0 < missing <= SMALL_BODY_BYTES and request.header_of("expect") is None:
            self.unfinished = request
            return None
        if missing:
            before_blocking()
        self.read_body(request)
        return request

    def _take_head(self):
        buffer = self.buffer
        end = buffer.find(b"\r\n\r\n")
        if end < 1:
            buffer = self.buffer = buffer.lstrip(b"\r\n")
            end = buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(buffer) > HEAD_LIMIT_BYTES:
                raise BadRequest(f"request head: expected at most {HEAD_LIMIT_BYTES} bytes", 431)
            if b"\n\n" in buffer:
                raise BadRequest("request head: expected lines that end in CR LF")
            return None
        self.buffer = buffer[end + 4 :]
        request = parse_head(buffer[:end].lstrip(b"\r\n"))
        request.peer = self.peer
        return request

    def _missing_bytes(self, request, length):
        """Bytes of the body that have not arrived; more than any small body when unknown."""
        if length is None or not length.isdecimal() or request.header_of("transfer-encoding") is not None:
            return SMALL_BODY_BYTES + 1
        return max(0, int(length[:20]) - len(self.buffer))

    def read_body(self, request):
        """Read the body into the request. Raises BadRequest, or ConnectionError when the client leaves."""
        length = request.header("content-length")
        encoding = request.header("transfer-encoding")
        if encoding:
            if length:
                raise BadRequest("expected Content-Length or Transfer-Encoding, found both")
            if encoding.lower() != "chunked" or request.repeats("transfer-encoding"):
                raise BadRequest(f"Transfer-Encoding: expected chunked, found {encoding!r:.100}", 501)
            self._invite(request)
            request.body = self._read_chunked()
        elif length:
            request.body = self._read_length(request, length)
        elif request.repeats("content-length"):
            raise BadRequest("Content-Length: found twice")

    def _read_length(self, request, length):
        if not (length.isascii() and length.isdigit()) or request.repeats("content-length"):
            raise BadRequest(f"Content-Length: expected one whole number, found {length!r:.100}")
        count = int(length[:20])
        if count > BODY_LIMIT_BYTES:
            raise BadRequest(f"body: expected at most {BODY_LIMIT_BYTES} bytes, found {count}", 413)
        if count > len(self.buffer):
            self._invite(request)
        return self._read_exactly(count)

    def _invite(self, request):
        if request.header("expect").lower() == "100-continue" and request.minor_version:
            self.sock.sendall(CONTINUE)

    def _read_exactly(self, count):
        if len(self.buffer) >= count:
            data, self.buffer = self.buffer[:count], self.buffer[count:]
            return data
        data = bytearray(count)
        view = memoryview(data)
        filled = len(self.buffer)
        view[:filled], self.buffer = self.buffer, b""
        while filled < count:
            received = self.sock.recv_into(view[filled:])
            if not received:
                raise ConnectionAbortedError("the client left in the middle of a body")
            filled += received
        return bytes(data)

    def _read_line(self):
        while (end := self.buffer.find(b"\r\n")) < 0:
            if len(self.buffer) > HEAD_LIMIT_BYTES:
                raise BadRequest("chunked body: expected a chunk size")
            data = self.sock.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionAbortedError("the client left in the middle of a body")
            self.buffer += data
        line, self.buffer = self.buffer[:end], self.buffer[end + 2 :]
        return line

    def _read_chunked(self):
        chunks = []
        total = 0
        while True:
            digits = self._read_line().partition(b";")[0].strip(b" \t")
            if not digits or len(digits) > 8 or not HEX_DIGITS.issuperset(digits):
                raise BadRequest(f"chunked body: expected a chunk size, found {digits!r:.100}")
            size = int(digits, 16)
            total += size
            if total > BODY_LIMIT_BYTES:
                raise BadRequest(f"body: expected at most {BODY_LIMIT_BYTES} bytes", 413)
            if size == 0:
                break
            chunks.append(self._read_exactly(size))
            if self._read_exactly(2) != b"\r\n":
                raise BadRequest("chunked body: expected a line break after a chunk")
        while self._read_line():
            pass  # trailers are ignored
        return b"".join(chunks)
