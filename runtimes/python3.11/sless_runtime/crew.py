"""Threads that take turns: one leads, that is, waits for all connections and runs quick calls itself; the others run what takes longer.

While calls are quick, one thread does everything and the interpreter's lock never changes hands, which is most of what a thread for each
connection costs. Nobody waits for a call that is not quick:

- before a call that is likely to take time, and before anything that may block, the leader hands the lead to the next thread;
- when a call takes time all the same, the main thread (`tick`) hands the lead over from outside;
- two calls close together that were not quick make the next calls likely to take time, see `pace`.

The leader holds small answers back until it has run the calls that were ready, a few at a time: a client that is woken by each answer
takes the processor away between two calls, and its caches with it. That saved a quarter of the processor time at 32 connections.

What is being served is the worker's `lease`, a list with the connection: whoever takes it out decides, the worker when it is done (and goes
on leading) or the one who hands over. A connection whose worker does not lead is not waited for.
"""

import os
import threading
from _socket import IPPROTO_TCP, SOCK_STREAM, TCP_NODELAY
from _socket import socket as raw_socket
from _thread import allocate_lock
from collections import deque
from select import EPOLLIN, epoll

from .calls import current_call
from .connection import Connection
from .pace import Pace

TICK_MS = 3
QUIET_TICKS = 10
PARKED_SEC = 10.0
"""A thread that was not needed for so long ends."""
EVENTS_AT_ONCE = 256
MOST_HELD = 16


class Worker:
    """One thread. `gate` opens when it is to lead; `poller` watches the pipes of stdout and stderr, see `capture`."""

    __slots__ = ("gate", "lease", "poller")

    def __init__(self, poller):
        self.gate = allocate_lock()
        self.gate.acquire()
        self.lease = []
        self.poller = poller


class Crew:
    """`wake_main` is called when the main thread has to call `tick` again."""

    def __init__(self, server, listener, wake_main):
        self.connections = {}
        self.lost = False
        self.pace = Pace()
        self._server = server
        self._listener = listener
        self._wake_main = wake_main
        self._epoll = epoll()
        self._kick = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ready = deque()
        self._held = deque()
        self._lock = allocate_lock()
        self._parked = []
        self._leader = None
        self._turns = self._seen_turns = self._quiet_ticks = 0
        self._asleep = True

    def start(self):
        self._epoll.register(self._listener.fileno(), EPOLLIN)
        self._epoll.register(self._kick, EPOLLIN)
        self._next_leader()

    # in the main thread

    def tick(self):
        """Hands the lead over when one call has had it for a whole tick. False: nothing happens, call again after being woken."""
        leader = self._leader
        if self._turns != self._seen_turns:
            self._seen_turns = self._turns
            self._quiet_ticks = 0
        elif leader.lease:
            self.note_slow(leader)
            self.hand_over(leader)
        else:
            self._quiet_ticks += 1
        if self._quiet_ticks < QUIET_TICKS:
            return True
        self._asleep = True
        if self._turns == self._seen_turns and not leader.lease:
            return False
        self._asleep = False
        return True

    def close_listener(self):
        """Takes whoever has come so far, and nobody any more."""
        self._accept()
        self._epoll.unregister(self._listener.fileno())
        self._listener.close()
        self.look_at_all()

    def look_at_all(self):
        """Lets the leader look at every connection, as if something had come: those that are idle go when the server leaves."""
        os.eventfd_write(self._kick, 1)

    def leave_to_parent(self):
        """A forked child (multiprocessing) is no server; a socket that it kept open would look open to the client."""
        self.lost = True
        self._lock = allocate_lock()
        self._ready.clear()
        self._held.clear()
        self._listener.close()
        self._epoll.close()
        for connection in self.connections.values():
            connection.sock.close()

    # in the thread of a worker

    def hold(self, connection, data):
        """Keeps an answer back until `_send_held`."""
        connection.held = True
        self._held.append((connection, data))

    def make_way(self, worker):
        """Before a call that is likely to take time."""
        if worker.lease:
            self.pace.spread -= 1
            self.hand_over(worker)

    def note_slow(self, worker):
        """What takes place beside others tells nothing: it waits for the interpreter's lock."""
        if worker.lease:
            self.pace.note_slow()

    def hand_over(self, worker):
        """Lets another thread lead, because this one may block from now on. No effect when it does not lead."""
        with self._lock:
            try:
                connection = worker.lease.pop()
            except IndexError:
                return
            self._unwatch(connection)
            try:
                self._next_leader()
            except RuntimeError:  # no more threads: then others have to wait
                self._watch(connection)
                worker.lease.append(connection)

    def _next_leader(self):
        if self._parked:
            self._leader = self._parked.pop()
            self._leader.gate.release()
            return
        before, self._leader = self._leader, Worker(self._server.capture.poller())
        try:
            threading.Thread(target=self._work, args=(self._leader,), daemon=True).start()
        except RuntimeError:
            self._leader = before
            raise

    def _work(self, worker):
        current_call.set(None)  # whoever started this thread is none of its business
        try:
            self._lead(worker)
            while not self.lost and self._park(worker):
                self._lead(worker)
        except (OSError, ValueError):  # the function closed what we wait with
            if not self.lost:
                self.lost = True
                self._wake_main()

    def _park(self, worker):
        """Waits until this thread is to lead; False when it is not needed any more."""
        with self._lock:
            self._parked.append(worker)
        if worker.gate.acquire(timeout=PARKED_SEC):
            return True
        with self._lock:
            if worker in self._parked:
                self._parked.remove(worker)
                return False
        return worker.gate.acquire()

    def _lead(self, worker):
        """Serves what is ready until another thread leads."""
        ready, held = self._ready, self._held
        leads = self._send_held(worker)
        while leads and not self.lost:
            if not ready:
                leads = self._send_held(worker)
                if leads:
                    self._wait()
                continue
            connection = ready.popleft()
            if not connection.watched:
                continue
            if connection.held or len(held) >= MOST_HELD:
                leads = self._send_held(worker)
            if leads:
                leads = self._has(worker, connection, connection.serve)
            else:
                ready.appendleft(connection)
                self.look_at_all()
        if held and not self.lost:
            self.look_at_all()  # what was held back just when the lead was lost

    def _has(self, worker, connection, serve, *arguments):
        """Serves a connection; whether the worker still leads after it."""
        worker.lease.append(connection)
        self._turns += 1
        if self._asleep:
            self._asleep = False
            self._wake_main()
        keep = serve(worker, *arguments)
        leads = self._takes_back(worker.lease)
        if not keep:
            self._close(connection)
        elif not leads:
            self._watch_again(connection)
        return leads

    def _send_held(self, worker):
        """Sends the answers that were held back; whether the worker still leads."""
        held, leads = self._held, True
        for _ in range(len(held)):
            connection, data = held.popleft()
            if not connection.watched:  # the thread that made it has lost the lead in this moment, and will tell when it is done
                held.append((connection, data))
                continue
            connection.held = False
            leads = self._has(worker, connection, connection.send, data)
            if not leads:
                break
        return leads

    def _takes_back(self, lease):
        """Whether the worker still leads."""
        try:
            lease.pop()
        except IndexError:
            with self._lock:  # whoever took it has finished handing over, or has failed to
                return bool(lease) and lease.pop() is not None
        return True

    def _wait(self):
        known = self.connections.get
        for descriptor, _ in self._epoll.poll(-1, EVENTS_AT_ONCE):
            connection = known(descriptor)
            if connection is not None:
                self._ready.append(connection)
            elif descriptor == self._kick:
                os.eventfd_read(descriptor)
                self._ready.extend(self.connections.copy().values())
            else:
                self._accept()

    def _accept(self):
        while True:
            try:
                descriptor, address = self._listener._accept()
            except OSError:  # nobody waits (any more); a listener that is gone is seen by the main thread
                return
            sock = raw_socket(self._listener.family, SOCK_STREAM, 0, descriptor)
            sock.settimeout(None)  # a user's setdefaulttimeout() is not meant for us
            peer = address[0] if isinstance(address, tuple) else ""
            if peer:
                sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            connection = Connection(sock, peer, self._server)
            self.connections[descriptor] = connection
            self._watch(connection)
            self._ready.append(connection)

    def _watch(self, connection):
        connection.watched = True
        try:
            self._epoll.register(connection.descriptor, EPOLLIN)
        except OSError:  # closed by the function, or there may be no more: then the client is told by the closed connection
            self._close(connection)

    def _unwatch(self, connection):
        if connection.watched:
            connection.watched = False
            try:
                self._epoll.unregister(connection.descriptor)
            except (OSError, ValueError):
                pass

    def _watch_again(self, connection):
        self._watch(connection)
        if self._server.draining:
            self.look_at_all()

    def _close(self, connection):
        """The descriptor is free for a next connection as soon as it is closed, so it is forgotten before."""
        self._unwatch(connection)
        self.connections.pop(connection.descriptor, None)
        connection.close()
