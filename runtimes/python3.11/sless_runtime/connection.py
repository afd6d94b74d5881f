"""One connection: reads requests, has them executed, sends the answers in order."""

from _contextvars import copy_context
from functools import partial
from time import monotonic

from . import control
from .answers import json_answer
from .calls import Call, current_call
from .exchange import Exchange
from .execute import is_abandoned
from .failures import log_traceback
from .streaming import send_stream
from .wire import BadRequest, Wire

QUICK_SEC = 0.0005
"""How long a call may delay others. Handing over the lead costs more than a shorter delay."""
HELD_BYTES = 16384
"""Larger answers may have to wait for the client, so they are sent at once."""


class Connection:
    """`watched`: the leader waits for it; `held`: one of its answers is held back. See `crew`."""

    def __init__(self, sock, peer, server):
        self.sock = sock
        self.descriptor = sock.fileno()
        self.watched = False
        self.held = False
        self._wire = Wire(sock, peer)
        self._exchange = Exchange(sock, self.step_aside)
        self._server = server
        self._worker = None

    def serve(self, worker):
        """Answer the requests that have arrived. False when the connection should be closed; never raises."""
        self._worker = worker
        wire = self._wire
        try:
            wire.receive()
            while wire.buffer or wire.unfinished is not None:
                request = wire.take_request(self.step_aside)
                if request is None:
                    return True
                if not self._answer(request):
                    return False
            return not self._server.draining
        except BadRequest as wrong:
            return self._refuse(wrong)
        except OSError:
            return False  # the client has left
        except BaseException as error:  # top of a thread: log a fault of the runtime
            log_traceback(error)
            return False

    def send(self, worker, data):
        """Send an answer that was held back. False when the client has left."""
        self._worker = worker
        try:
            self._exchange.send(data)
        except OSError:
            return False
        return True

    def close(self):
        self.sock.close()
        self._exchange = None  # breaks a reference cycle: a function may turn the garbage collector off

    def step_aside(self):
        """Called before anything that may block."""
        if self._worker.lease:
            self._server.crew.hand_over(self._worker)

    def finish(self, call):
        if not call.finished:
            call.finished = True
            server = self._server
            server.capture.finish(call, self._worker.poller)
            server.slots.leave(call)

    def note_end(self, answer):
        """Take the answer of a call whose handler has ended; for a stream, after its last chunk or its failure."""
        exhaustion = self._server.exhaustion
        if answer.raised:
            exhaustion.note(answer)
        elif exhaustion.failed and answer.fault is None:
            exhaustion.failed = 0

    def send_last(self, exchange, answer, call):
        """Send a complete answer after the call has ended."""
        self.finish(call)
        if self._server.draining:
            exchange.keep_alive = False
        plain = exchange.plain_bytes_of(answer)
        if plain is None:
            exchange.send_whole(answer)
        elif self._worker.lease and not self._wire.buffer and len(plain) <= HELD_BYTES:
            self._server.crew.hold(self, plain)
        else:
            exchange.send(plain)

    def _answer(self, request):
        exchange = self._exchange
        exchange.begin(request)
        if request.header_of("x-sless-control") == "1":
            self.step_aside()  # a blocked event loop delays the answer
            if self._server.draining:
                exchange.keep_alive = False
            exchange.send_whole(control.answer(request, self._server))
        else:
            # Each call has its own context, so context variables do not leak into the next call.
            copy_context().run(self._call, exchange, request)
        return exchange.keep_alive

    def _refuse(self, wrong):
        self._exchange.begin(None)
        try:
            self._exchange.send_whole(json_answer(wrong.status, {"error": str(wrong), "code": "bad_request", "request_id": ""}))
        except OSError:
            pass
        return False

    def _call(self, exchange, request):
        call = call_of(request)
        if not self._server.slots.enter(call, self.step_aside):
            exchange.keep_alive = False
        elif self._server.main_thread is None:
            self._serve_call(exchange, request, call)
        else:
            self.step_aside()
            self._server.main_thread.run(call, copy_context().run, self._serve_call, exchange, request, call)

    def _serve_call(self, exchange, request, call):
        current_call.set(call)
        try:
            answer = self._execute(request, call)
            if answer.stream is not None:
                self.step_aside()
                if self._server.draining:
                    exchange.keep_alive = False
                send_stream(self, exchange, answer, call)
            elif call.is_overdue():
                exchange.keep_alive = False
            else:
                self.send_last(exchange, answer, call)
        except BaseException as error:  # only an abandoned call ends here; everything else is raised again
            if not is_abandoned(error):
                raise
            exchange.keep_alive = False
            error.run.when_done(partial(self._server.finish, call))
            call = None
        finally:
            if call is not None and not call.finished:
                self.finish(call)

    def _execute(self, request, call):
        crew = self._server.crew
        if crew.pace.spread:
            crew.make_way(self._worker)
        began = monotonic()
        answer = self._server.executor.execute_request(request, call, self.descriptor)
        if monotonic() - began > QUICK_SEC:
            crew.note_slow(self._worker)
        elif self._worker.lease:
            crew.pace.quick_calls += 1
        if answer.stream is None:
            self.note_end(answer)
        return answer


def call_of(request):
    header_of = request.header_of
    timeout_ms = header_of("x-sless-timeout-ms") or ""
    timeout_sec = int(timeout_ms) / 1000 if timeout_ms.isdecimal() else None
    return Call(header_of("x-sless-invocation-id"), header_of("x-request-id"), header_of("x-sless-trigger") or "http", timeout_sec)
