"""Threads that take turns: the leader waits for all connections and runs quick calls itself; the others run slow calls.

While calls are quick, one thread does everything and the GIL stays with it; moving the GIL is most of the cost of one thread per
connection. A slow call delays no other call:

- before a call that is likely to be slow, and before anything that may block, the leader hands the lead to the next thread;
- when a call turns out to be slow, the main thread (`tick`) hands the lead over for it;
- two slow calls close together make the next calls likely to be slow, see `pace`.

The leader holds small answers back until it has run a few of the calls that were ready: a client woken by each answer would take the
processor and its caches between two calls. This saved a quarter of the processor time at 32 connections.

A worker's `lease` is a list that holds the connection being served. Whoever pops it decides who leads: the worker when the call is done
(it keeps the lead), or the thread that hands the lead over. While its worker does not lead, a connection is not watched.
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
"""A thread that has been parked for this long ends."""
EVENTS_AT_ONCE = 256
MOST_HELD = 16


class Worker:
    """One thread. `gate` opens when it should lead; `poller` watches the pipes of stdout and stderr, see `capture`."""

    __slots__ = ("gate", "lease", "poller")

    def __init__(self, poller):
        self.gate = allocate_lock()
        self.gate.acquire()
        self.lease = []
        self.poller = poller


class Crew:
    """`wake_main` is called when the main thread must call `tick` again."""

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

    # called in the main thread

    def tick(self):
        """Hand the lead over when one call has held it for a whole tick. False when idle: call again after `wake_main`."""
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
        """Accept the connections that are waiting, then stop listening."""
        self._accept()
        self._epoll.unregister(self._listener.fileno())
        self._listener.close()
        self.serve_all()

    def serve_all(self):
        """Make the leader serve every connection as if data had arrived; while draining, this closes the idle ones."""
        os.eventfd_write(self._kick, 1)

    def leave_to_parent(self):
        """Close everything in a forked child, which must not serve; a socket left open there would look open to the client."""
        self.lost = True
        self._lock = allocate_lock()
        self._ready.clear()
        self._held.clear()
        self._listener.close()
        self._epoll.close()
        for connection in self.connections.values():
            connection.sock.close()

    # called in a worker's thread

    def hold(self, connection, data):
        """Hold an answer back until `_send_held`."""
        connection.held = True
        self._held.append((connection, data))

    def make_way(self, worker):
        """Called before a call that is likely to be slow."""
        if worker.lease:
            self.pace.spread -= 1
            self.hand_over(worker)

    def note_slow(self, worker):
        """Count a slow call. Calls that run at the same time as others do not count, because they wait for the GIL."""
        if worker.lease:
            self.pace.note_slow()

    def hand_over(self, worker):
        """Let another thread lead before this one may block. No effect when this thread does not lead."""
        with self._lock:
            try:
                connection = worker.lease.pop()
            except IndexError:
                return
            self._unwatch(connection)
            try:
                self._next_leader()
            except RuntimeError:  # no more threads are available, so other calls must wait
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
        current_call.set(None)  # do not inherit the call that started this thread
        try:
            self._lead(worker)
            while not self.lost and self._park(worker):
                self._lead(worker)
        except (OSError, ValueError):  # the function closed our descriptors
            if not self.lost:
                self.lost = True
                self._wake_main()

    def _park(self, worker):
        """Wait until this thread should lead; False when it is no longer needed."""
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
        """Serve ready connections until another thread leads."""
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
                leads = self._serve(worker, connection, connection.serve)
            else:
                ready.appendleft(connection)
                self.serve_all()
        if held and not self.lost:
            self.serve_all()  # answers held back at the moment the lead was lost

    def _serve(self, worker, connection, serve, *arguments):
        """Serve a connection. Returns whether the worker still leads."""
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
        """Send the answers that were held back. Returns whether the worker still leads."""
        held, leads = self._held, True
        for _ in range(len(held)):
            connection, data = held.popleft()
            if not connection.watched:  # its thread has just lost the lead, and watches the connection again when done
                held.append((connection, data))
                continue
            connection.held = False
            leads = self._serve(worker, connection, connection.send, data)
            if not leads:
                break
        return leads

    def _takes_back(self, lease):
        """Whether the worker still leads."""
        try:
            lease.pop()
        except IndexError:
            with self._lock:  # the lock waits until the hand-over has finished or failed
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
            except OSError:  # no client is waiting; the main thread notices a closed listener
                return
            sock = raw_socket(self._listener.family, SOCK_STREAM, 0, descriptor)
            sock.settimeout(None)  # a user's setdefaulttimeout() must not apply here
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
        except OSError:  # closed by the function, or epoll's limit is reached: closing tells the client
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
            self.serve_all()

    def _close(self, connection):
        """Forget the descriptor before closing it: the next connection may reuse it at once."""
        self._unwatch(connection)
        self.connections.pop(connection.descriptor, None)
        connection.close()
