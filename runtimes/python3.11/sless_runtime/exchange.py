"""Writes answers to a connection: framing, and the headers that the runtime sets itself."""

from _socket import MSG_DONTWAIT

from .answers import STATUS_WITHOUT_BODY
from .failures import percent_encoded

SINGLE_SEND_BYTES = 65536
REASONS = {
    200: "OK",
    201: "Created",
    202: "Accepted",
    204: "No Content",
    301: "Moved Permanently",
    302: "Found",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}
"""Reason phrases, for people who read the wire."""

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: %b\r\n\r\n%b"


class Exchange:
    """Writes the answers of one connection in order. `broken`: a write to the client has failed."""

    def __init__(self, sock, before_blocking):
        self.is_head = False
        self.keep_alive = False
        self.broken = False
        self._sock = sock
        self._before_blocking = before_blocking
        self._minor_version = 1
        self._chunked = True

    def begin(self, request):
        """Start the answer to `request`; None when the request could not be read, which ends the connection."""
        if request is None:
            self.is_head, self.keep_alive, self._minor_version = False, False, 1
            return
        self.is_head = request.method == "HEAD"
        self.keep_alive = request.keeps_alive()
        self._minor_version = request.minor_version

    def plain_bytes_of(self, answer):
        """Head and body of an answer whose head differs from a cached one only in type and length, as most do; None for others."""
        if (
            answer.status != 200
            or answer.headers
            or not self.keep_alive
            or self._minor_version != 1
            or self.is_head
            or answer.fault is not None
            or answer.content_type is None
            or len(answer.body) > SINGLE_SEND_BYTES
        ):
            return None
        return PLAIN % (len(answer.body), answer.content_type.encode("latin-1"), answer.body)

    def send_whole(self, answer):
        status, body = answer.status, answer.body
        if status in STATUS_WITHOUT_BODY:
            self.send(self._head(answer, "", False))
            return
        head = self._head(answer, f"Content-Length: {len(body)}\r\n", True)
        if self.is_head:
            self.send(head)
        elif len(body) <= SINGLE_SEND_BYTES:
            self.send(head + body)
        else:
            self.send(head)
            self.send(body)

    def start_stream(self, answer, first):
        self._chunked = self._minor_version == 1
        if not self._chunked:
            self.keep_alive = False
        head = self._head(answer, "Transfer-Encoding: chunked\r\n" if self._chunked else "", True)
        self.send(head if self.is_head else head + self._framed(first))

    def send_chunk(self, data):
        if data:
            self.send(self._framed(data))

    def end_stream(self):
        if self._chunked:
            self.send(b"0\r\n\r\n")

    def _framed(self, data):
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data

    def _head(self, answer, framing, with_type):
        status = answer.status
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}\r\n", framing]
        typed = not with_type or answer.content_type is None
        for name, value in answer.headers:
            lines.append(f"{name}: {value}\r\n")
            typed = typed or name.lower() == "content-type"
        if not typed:
            lines.append(f"Content-Type: {answer.content_type}\r\n")
        if answer.raised:
            lines.append("X-Sless-Function-Error: 1\r\n")
        if answer.fault is not None:
            lines.append(f"X-Sless-Fault: {answer.fault}\r\n")
        if answer.error is not None:
            lines.append(f"X-Sless-Error-Message: {percent_encoded(answer.error)}\r\n")
        if not self.keep_alive:
            lines.append("Connection: close\r\n")
        elif self._minor_version == 0:
            lines.append("Connection: keep-alive\r\n")
        lines.append("\r\n")
        return "".join(lines).encode("latin-1")

    def send(self, data):
        try:
            try:
                sent = self._sock.send(data, MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
            if sent != len(data):
                self._before_blocking()
                self._sock.sendall(memoryview(data)[sent:])
        except OSError:
            self.broken = True
            raise
