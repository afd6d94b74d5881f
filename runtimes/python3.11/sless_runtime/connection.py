"""One connection: reads requests, has them executed, sends the answers in order."""

from _socket import IPPROTO_TCP, TCP_NODELAY
from functools import partial

from . import control
from .answers import BINARY_TYPE, TEXT_TYPE, chunk_bytes, json_answer
from .calls import Call, current_call
from .exchange import Exchange
from .execute import is_abandoned
from .failures import failure_answer, log_traceback
from .wire import BadRequest, Wire


class ConnectionThread:
    """The loop of one connection; `run` is the body of its thread."""

    def __init__(self, sock, peer, server):
        self.wire = Wire(sock, peer)
        self.sock = sock
        self._server = server
        self._poller = server.capture.poller()
        self._is_tcp = peer != ""

    def run(self):
        try:
            if self._is_tcp:
                self.sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            while self._serve_next():
                pass
        except OSError:
            pass  # the client has gone
        except BaseException as error:  # top of a thread: a mistake of ours must be seen
            log_traceback(error)
        finally:
            self.sock.close()
            self._server.forget(self)

    def _serve_next(self):
        """Handles one request; False when the connection is to be closed."""
        wire = self.wire
        wire.idle = not wire.has_buffered()
        if self._server.draining and wire.idle:
            return False
        try:
            request = wire.read_request()
            wire.idle = False
            if request is None:
                return False
            wire.read_body(request)
        except BadRequest as wrong:
            self._refuse(wrong)
            return False
        exchange = Exchange(self.sock, request, request.keeps_alive())
        if request.header("x-sless-control") == "1":
            exchange.keep_alive = exchange.keep_alive and not self._server.draining
            exchange.send_whole(control.answer(request, self._server))
        else:
            self._call(exchange, request)
        return exchange.keep_alive

    def _refuse(self, wrong):
        exchange = Exchange(self.sock, None, False)
        exchange.send_whole(json_answer(wrong.status, {"error": str(wrong), "code": "bad_request", "request_id": ""}))

    def _call(self, exchange, request):
        call = call_of(request)
        if not self._server.slots.enter(call):
            exchange.keep_alive = False
            return
        token = current_call.set(call)
        try:
            answer = self._server.executor.execute_request(request, call, self.sock.fileno())
            if answer.stream is not None:
                self._stream(exchange, answer, call)
            elif call.is_overdue():
                exchange.keep_alive = False
            else:
                self._finish(call)
                exchange.keep_alive = exchange.keep_alive and not self._server.draining
                exchange.send_whole(answer)
        except BaseException as error:  # only a call left to itself ends here, all else is raised again
            if not is_abandoned(error):
                raise
            exchange.keep_alive = False
            error.run.when_done(partial(self._server.finish, call))
            call = None
        finally:
            if call is not None:
                self._finish(call)
            current_call.reset(token)

    def _finish(self, call):
        if not call.finished:
            call.finished = True
            self._server.capture.finish(call, self._poller)
            self._server.slots.leave(call)

    def _stream(self, exchange, answer, call):
        """Sends a stream. The first chunk is awaited before the head: until then a failure can still be a 500."""
        chunks = iter(answer.stream)
        try:
            if exchange.is_head:
                answer.body, answer.stream = b"", None
            else:
                first = first_chunk(chunks, answer, call)
            if answer.stream is None:
                self._finish(call)
                exchange.keep_alive = exchange.keep_alive and not self._server.draining
                exchange.send_whole(answer)
                return
            exchange.keep_alive = exchange.keep_alive and not self._server.draining
            if not call.is_overdue():
                self._send_chunks(exchange, answer, call, (first, chunks))
            else:
                exchange.keep_alive = False
        finally:
            close_stream(chunks)

    def _send_chunks(self, exchange, answer, call, first_and_rest):
        chunk, rest = first_and_rest
        exchange.start_stream(answer, chunk)
        try:
            while True:
                call.restart_clock()
                chunk = next(rest)
                if call.is_overdue():
                    exchange.keep_alive = False
                    return
                call.pause_clock()
                exchange.send_chunk(chunk_bytes(chunk))
        except StopIteration:
            pass
        except OSError as gone:
            if not exchange.broken:
                self._break_off(exchange, gone)
            exchange.keep_alive = False
            return
        except BaseException as error:  # the head is sent: all that is left is to break off
            if is_abandoned(error):
                raise
            self._break_off(exchange, error)
            return
        close_stream(rest)
        self._finish(call)
        exchange.end_stream()

    def _break_off(self, exchange, error):
        log_traceback(error)
        exchange.keep_alive = False


def first_chunk(chunks, answer, call):
    """The first chunk that is not empty, as bytes. Turns the answer into a whole one when there is none, or a failure."""
    try:
        for chunk in chunks:
            data = chunk_bytes(chunk)
            if data:
                answer.content_type = TEXT_TYPE if isinstance(chunk, str) else BINARY_TYPE
                return data
        answer.body = b""
    except BaseException as error:  # a generator may raise anything
        if is_abandoned(error):
            raise
        failed = failure_answer(error, call.request_id)
        for name in failed.__slots__:
            setattr(answer, name, getattr(failed, name))
    answer.stream = None
    return b""


def close_stream(chunks):
    if hasattr(chunks, "close"):
        try:
            chunks.close()
        except Exception as error:  # a generator's finally may do anything
            log_traceback(error)


def call_of(request):
    header = request.header
    timeout_ms = header("x-sless-timeout-ms")
    timeout_sec = int(timeout_ms) / 1000 if timeout_ms.isascii() and timeout_ms.isdigit() else None
    return Call(header("x-sless-invocation-id"), header("x-request-id"), header("x-sless-trigger") or "http", timeout_sec)
