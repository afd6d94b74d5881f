"""Listens, gives each connection a thread, and leaves in order."""

import _signal
import os
import threading
from _socket import AF_INET, AF_UNIX, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET
from _socket import socket as raw_socket
from errno import EBADF, EINVAL, ENOTSOCK
from select import POLLIN, poll
from stat import S_ISSOCK
from time import monotonic

from .connection import ConnectionThread
from .settings import WrongEnvironment

BACKLOG = 2048
NO_LISTENER = (EBADF, EINVAL, ENOTSOCK)
DRAIN_SEC = 10.0


class Server:
    """`executor`, `slots` and `capture` are what connections work with."""

    def __init__(self, settings, executor, slots, capture):
        self.executor = executor
        self.slots = slots
        self.capture = capture
        self.draining = False
        self._settings = settings
        self._connections = set()
        self._gone = threading.Condition()
        self._finish_poller = capture.poller()

    def serve(self):
        """Serves until SIGTERM or SIGINT, then finishes what runs."""
        listener = listen(self._settings)
        wake = wake_descriptor()
        os.register_at_fork(after_in_child=lambda: self._leave_to_parent(listener))
        waiting = poll()
        waiting.register(listener.fileno(), POLLIN)
        waiting.register(wake, POLLIN)
        while not any(descriptor == wake for descriptor, _ in waiting.poll()):
            if not self._accept(listener):
                # Staying would mean to be alive and out of reach; another instance takes over.
                raise WrongEnvironment("the listening socket is gone: the function closed it")
        self._drain(listener)

    def forget(self, connection):
        with self._gone:
            self._connections.discard(connection)
            if self.draining:
                self._gone.notify()

    def finish(self, call):
        """Ends a call whose connection has gone before it; in the event loop's thread."""
        if not call.finished:
            call.finished = True
            self.capture.finish(call, self._finish_poller)
            self.slots.leave(call)

    def _accept(self, listener):
        """Takes every connection that waits. False: this is no listening socket any more."""
        while True:
            try:
                descriptor, address = listener._accept()
            except OSError as wrong:
                return wrong.errno not in NO_LISTENER
            sock = raw_socket(listener.family, SOCK_STREAM, 0, descriptor)
            sock.settimeout(None)  # a user's setdefaulttimeout() is not meant for us
            connection = ConnectionThread(sock, address[0] if isinstance(address, tuple) else "", self)
            with self._gone:
                self._connections.add(connection)
            try:
                threading.Thread(target=connection.run, daemon=True).start()
            except RuntimeError:  # no more threads: the client is told by the closed connection
                sock.close()
                self.forget(connection)

    def _leave_to_parent(self, listener):
        """A forked child (multiprocessing) is no server; a socket that it kept open would look open to the client."""
        listener.close()
        for connection in self._connections:
            connection.sock.close()

    def _drain(self, listener):
        self.draining = True
        self._accept(listener)
        listener.close()
        remove_socket(self._settings.socket_path)
        deadline = monotonic() + DRAIN_SEC
        with self._gone:
            for connection in self._connections:
                if connection.wire.idle:
                    connection.wire.interrupt()
            while self._has_work() and monotonic() < deadline:
                self._gone.wait(min(0.2, max(0.0, deadline - monotonic())))

    def _has_work(self):
        return bool(self._connections) or bool(self.slots.running)


def listen(settings):
    if settings.socket_path:
        return listen_unix(settings.socket_path)
    listener = raw_socket(AF_INET, SOCK_STREAM)
    listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    return bound(listener, ("0.0.0.0", settings.port), f"SLESS_PORT: cannot listen on {settings.port}")


def listen_unix(path):
    """A socket file that nobody listens on is left over from a killed process and is replaced."""
    if is_abandoned_socket(path):
        os.unlink(path)
    return bound(raw_socket(AF_UNIX, SOCK_STREAM), path, f"SLESS_SOCKET: cannot listen on {path}")


def bound(listener, address, complaint):
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as wrong:
        raise WrongEnvironment(f"{complaint}: {wrong}") from None
    listener.setblocking(False)
    return listener


def is_abandoned_socket(path):
    try:
        if not S_ISSOCK(os.stat(path).st_mode):
            return False
        raw_socket(AF_UNIX, SOCK_STREAM).connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def remove_socket(path):
    try:
        if path:
            os.unlink(path)
    except OSError:
        pass


def wake_descriptor():
    """A descriptor that becomes readable with SIGTERM or SIGINT. Handlers that do anything could come in the middle of anything."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _signal.set_wakeup_fd(writing)
    for number in (_signal.SIGTERM, _signal.SIGINT):
        _signal.signal(number, lambda _number, _frame: None)
    return reading
