"""Listens and drains. Runs in the main thread, or in a separate one when the main thread executes the calls; see `mainthread`."""

import os
from _socket import AF_INET, AF_INET6, AF_UNIX, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET
from _socket import socket as raw_socket
from _thread import start_new_thread
from select import POLLIN, POLLNVAL, poll
from stat import S_ISSOCK
from time import monotonic

from .crew import TICK_MS, Crew
from .exhaustion import Exhaustion
from .mainthread import MainThread
from .settings import WrongEnvironment
from .signals import ENDING, WAKE, signal_pipe

BACKLOG = 2048
LOST = "the function closed the listening socket"


class Server:
    """Owns the `executor`, `slots`, `capture` and `exhaustion` that connections use."""

    def __init__(self, settings, executor, slots, capture):
        self.executor = executor
        self.slots = slots
        self.capture = capture
        self.crew = None
        self.draining = False
        self.exhaustion = Exhaustion()
        self.main_thread = MainThread() if settings.concurrency == 1 else None
        self._settings = settings
        self._finish_poller = capture.poller()
        self._waiting = poll()
        self._signals = self._listener = -1

    def serve(self):
        """Serve until SIGTERM or SIGINT, then finish running calls."""
        self._signals, writing = signal_pipe()  # before listening: a server that accepts calls must drain on SIGTERM
        listener = listen(self._settings)
        self.crew = Crew(self, listener, lambda: os.write(writing, WAKE))
        os.register_at_fork(after_in_child=self.crew.leave_to_parent)
        self._listener = listener.fileno()
        self._waiting.register(self._listener, 0)
        self._waiting.register(self._signals, POLLIN)
        self.crew.start()
        if self.main_thread is None:
            self._watch()
        else:
            start_new_thread(self._watch_beside, ())
            self.main_thread.serve()
            if self.crew.lost:
                raise WrongEnvironment(LOST)

    def _watch_beside(self):
        try:
            self._watch()
        except WrongEnvironment:
            pass  # the main thread raises it
        if self.slots.running:  # the main thread is still in a call after the grace time
            self.capture.finish_idle()
            os._exit(0)
        self.main_thread.stop()

    def _watch(self):
        """Watch the workers until a signal, then drain."""
        timeout_ms = None
        while not self._must_end(timeout_ms):
            timeout_ms = TICK_MS if self.crew.tick() else None
        self._waiting.unregister(self._listener)
        self._drain()

    def finish(self, call):
        """End a call whose connection closed first. Called in the event loop's thread."""
        if not call.finished:
            call.finished = True
            self.capture.finish(call, self._finish_poller)
            self.slots.leave(call)

    def _must_end(self, timeout_ms):
        """Wait for a signal, a wake-up or the time-out."""
        ending = False
        for descriptor, event in self._waiting.poll(timeout_ms):
            if event & POLLNVAL:
                self.crew.lost = True
            elif descriptor == self._signals:
                ending = any(number in ENDING for number in os.read(descriptor, 512))
        if self.crew.lost:
            # Exit rather than stay alive but unreachable; another instance takes over.
            raise WrongEnvironment(LOST)
        return ending

    def _drain(self):
        self.draining = True
        self.crew.close_listener()
        remove_socket(self._settings.socket_path)
        deadline = monotonic() + self._settings.grace_sec
        while (self.crew.connections or self.slots.running) and monotonic() < deadline:
            self._must_end(TICK_MS)
            self.crew.tick()


def listen(settings):
    if settings.socket_path:
        return listen_unix(settings.socket_path)
    listener = raw_socket(AF_INET6 if ":" in settings.address else AF_INET, SOCK_STREAM)
    listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    return bound(listener, (settings.address, settings.port), f"SLESS_PORT: cannot listen on {settings.port} of {settings.address}")


def listen_unix(path):
    """Bind a Unix socket, replacing a socket file that a killed process left behind."""
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
