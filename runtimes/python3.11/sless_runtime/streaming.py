"""Sends an answer piece by piece. The thread does not lead meanwhile: both the handler and the client may take their time."""

from .answers import BINARY_TYPE, STATUS_WITHOUT_BODY, TEXT_TYPE, chunk_bytes
from .execute import is_abandoned
from .failures import failure_answer, log_traceback


def send_stream(connection, exchange, answer, call):
    """The first chunk is awaited before the head: until then a failure can still be a 500."""
    chunks = iter(answer.stream)
    try:
        if answer.status in STATUS_WITHOUT_BODY:
            answer.body, answer.stream = b"", None
        else:
            first = first_chunk(chunks, answer, call)
        if answer.stream is None:
            connection.send_last(exchange, answer, call)
            return
        if call.is_overdue():
            exchange.keep_alive = False
        elif exchange.is_head:
            close_stream(chunks)
            connection.finish(call)
            exchange.start_stream(answer, first)
        elif send_chunks(exchange, answer, call, (first, chunks)):
            close_stream(chunks)
            connection.finish(call)
            exchange.end_stream()
        else:
            exchange.keep_alive = False
    finally:
        close_stream(chunks)


def send_chunks(exchange, answer, call, first_and_rest):
    """Whether all chunks were sent; False when the stream is to be broken off."""
    chunk, rest = first_and_rest
    exchange.start_stream(answer, chunk)
    try:
        while True:
            call.restart_clock()
            chunk = next(rest)
            if call.is_overdue():
                return False
            call.pause_clock()
            exchange.send_chunk(chunk_bytes(chunk))
    except StopIteration:
        return True
    except BaseException as error:  # the head is sent: all that is left is to break off
        if is_abandoned(error):
            raise
        if not exchange.broken:  # else it is only the client that has gone
            log_traceback(error)
        return False


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
