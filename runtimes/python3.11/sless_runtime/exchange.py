"""One answer on its way: framing, and which headers are the runtime's own."""

from .answers import BINARY_TYPE, JSON_TYPE, STATUS_WITHOUT_BODY, TEXT_TYPE
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
"""For people who read the wire; programs read the number."""

PLAIN_HEADS = {
    kind: f"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: {kind}\r\n\r\n".encode() for kind in (JSON_TYPE, TEXT_TYPE, BINARY_TYPE)
}


class Exchange:
    """One request and its answer on the wire. `broken` tells that the client could not be written to."""

    def __init__(self, sock, request, keep_alive):
        self._sock = sock
        self._minor_version = 1 if request is None else request.minor_version
        self.is_head = request is not None and request.method == "HEAD"
        self.keep_alive = keep_alive
        self.broken = False
        self._chunked = True

    def send_whole(self, answer):
        status, body = answer.status, answer.body
        if self._is_plain(answer):
            self._send(PLAIN_HEADS[answer.content_type] % len(body) + body)
            return
        if status in STATUS_WITHOUT_BODY:
            self._send(self._head(answer, "", False))
            return
        head = self._head(answer, f"Content-Length: {len(body)}\r\n", True)
        if self.is_head:
            self._send(head)
        elif len(body) <= SINGLE_SEND_BYTES:
            self._send(head + body)
        else:
            self._send(head)
            self._send(body)

    def _is_plain(self, answer):
        """Whether the head is one that is known but for the length; most are."""
        return (
            answer.status == 200
            and not answer.headers
            and answer.content_type in PLAIN_HEADS
            and self.keep_alive
            and self._minor_version == 1
            and not self.is_head
            and answer.fault is None
            and len(answer.body) <= SINGLE_SEND_BYTES
        )

    def start_stream(self, answer, first):
        self._chunked = self._minor_version == 1
        if not self._chunked:
            self.keep_alive = False
        head = self._head(answer, "Transfer-Encoding: chunked\r\n" if self._chunked else "", True)
        self._send(head + self._framed(first))

    def send_chunk(self, data):
        if data:
            self._send(self._framed(data))

    def end_stream(self):
        if self._chunked:
            self._send(b"0\r\n\r\n")

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

    def _send(self, data):
        try:
            self._sock.sendall(data)
        except OSError:
            self.broken = True
            raise
