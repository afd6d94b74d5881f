"""A hand-written instance: a handler function answers on a real unix socket, byte by byte."""

import contextlib
import os
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Peer:
    """One connection from the proxy."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = b""

    def head(self) -> tuple[str, list[tuple[str, str]]]:
        """The next request's first line and headers. Raises EOFError when the proxy has closed."""
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        return first, [(name, value) for name, _, value in (line.partition(": ") for line in lines)]

    def body(self, headers: list[tuple[str, str]]) -> bytes:
        names = dict(headers)
        if names.get("transfer-encoding") == "chunked":
            return self._chunks()
        return self.exactly(int(names.get("content-length", "0")))

    def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def drain(self, size: int) -> None:
        """Reads and drops `size` bytes."""
        size -= len(self._buffer)
        self._buffer = b""
        while size > 0:
            data = self.sock.recv(min(size, 1 << 18))
            if not data:
                raise EOFError
            size -= len(data)

    def request(self) -> tuple[str, list[tuple[str, str]], bytes]:
        first, headers = self.head()
        return first, headers, self.body(headers)

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def wait_for_close(self, timeout_sec: float = 30) -> bool:
        """Whether the proxy closes the connection within that time."""
        self.sock.settimeout(timeout_sec)
        try:
            while self.sock.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def _chunks(self) -> bytes:
        whole = b""
        while True:
            while b"\r\n" not in self._buffer:
                self._more()
            size_line, _, self._buffer = self._buffer.partition(b"\r\n")
            size = int(size_line, 16)
            whole += self.exactly(size)
            assert self.exactly(2) == b"\r\n"
            if size == 0:
                return whole

    def _more(self) -> None:
        data = self.sock.recv(1 << 18)
        if not data:
            raise EOFError
        self._buffer += data


class Upstream:
    """Each connection gets its own thread and `handler`; `close` raises the first failure of a handler."""

    def __init__(self, handler: Callable[[Peer], None]) -> None:
        self._folder = tempfile.mkdtemp(prefix="sl-", dir="/tmp")
        self.path = os.path.join(self._folder, "s")
        self.address = f"unix:{self.path}"
        self.connections = 0
        self._handler = handler
        self._failure: BaseException | None = None
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(512)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._failure is not None:
            raise self._failure

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            try:
                self._handler(Peer(sock))
            except (EOFError, ConnectionError):
                pass
            except BaseException as error:
                self._failure = self._failure or error


def logs_or(handler: Callable[[Peer, str, list[tuple[str, str]]], None]) -> Callable[[Peer], None]:
    """Keep-alive loop: control requests get an empty page of log lines, every other head goes to `handler`."""

    def serve(peer: Peer) -> None:
        while True:
            first, headers = peer.head()
            if ("x-sless-control", "1") in headers:
                page = b'{"lines": [], "last": 0, "dropped": 0}'
                peer.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(page), page))
                return
            handler(peer, first, headers)

    return serve


def answering(answer: bytes = OK) -> Callable[[Peer], None]:
    """Reads each request whole and sends the same answer."""

    def handle(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        peer.body(headers)
        peer.send(answer)

    return logs_or(handle)


def path_of(first: str) -> str:
    match = re.fullmatch(r"\S+ (\S+) HTTP/1\.1", first)
    assert match, first
    return match[1]
