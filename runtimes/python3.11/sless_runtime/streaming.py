"""Sends a streamed answer. The thread does not lead during it, because handler and client may both be slow."""

from .answers import BINARY_TYPE, STATUS_WITHOUT_BODY, TEXT_TYPE, chunk_bytes
from .execute import is_abandoned
from .failures import failure_answer, log_traceback, mark_failed


def send_stream(connection, exchange, answer, call):
    """Send head and chunks. The head waits for the first chunk, because until then a failure can still be a 500."""
    chunks = iter(answer.stream)
    call.stream_to = connection.descriptor
    try:
        if answer.status in STATUS_WITHOUT_BODY:
            answer.body, answer.stream = b"", None
        else:
            first = first_chunk(chunks, answer, call)
        if answer.stream is None:
            connection.note_end(answer)
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
        connection.note_end(answer)
    finally:
        call.stream_to = None
        close_stream(chunks)


def send_chunks(exchange, answer, call, first_and_rest):
    """Send the chunks. False when the connection must be aborted."""
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
    except BaseException as error:  # the head has been sent, so the connection must be aborted
        if is_abandoned(error):
            raise
        if not exchange.broken:  # otherwise the client has just left
            log_traceback(error)
            mark_failed(answer, error)
        return False


def first_chunk(chunks, answer, call):
    """The first chunk that is not empty, as bytes. Without one, or after a failure, the answer becomes a complete one."""
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
        except Exception as error:  # a generator's finally may raise anything
            log_traceback(error)
