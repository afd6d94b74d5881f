"""Converts a handler's exception into an HTTP answer and logs its traceback."""

import os
import sys

from .answers import BadResult, json_answer
from .encode import NotSerializable
from .exhaustion import is_exhaustion
from .own import standard

HERE = os.path.dirname(__file__)
MESSAGE_LIMIT_BYTES = 1024
own_folders = []
"""Folders of the code and its packages, with a trailing slash, set once: the log shows only paths relative to them."""
SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def failure_answer(error, request_id):
    """The answer for an exception of the handler or its result. Writes the traceback to stderr, so the call must still be current."""
    if isinstance(error, BadResult):
        print(f"bad result: {error}", file=sys.stderr)
        return refusal(502, "bad_result", str(error), request_id)
    if isinstance(error, NotSerializable):
        print(error, file=sys.stderr)
        answer = raised(str(error), error.type_name, request_id)
        answer.fault = "result_not_serializable"
        return answer
    log_traceback(error)
    answer = raised(message_of(error), type(error).__name__, request_id)
    answer.exhausted = is_exhaustion(error)
    return answer


def mark_failed(answer, error):
    """Mark an answer that has begun as the one of a call that raised."""
    answer.error, answer.raised, answer.exhausted = message_of(error), True, is_exhaustion(error)


def raised(message, type_name, request_id):
    answer = json_answer(500, {"error": message, "type": type_name, "request_id": request_id})
    answer.error, answer.raised = message, True
    return answer


def refusal(status, code, message, request_id):
    """The answer when the platform refuses a call."""
    answer = json_answer(status, {"error": message, "code": code, "details": [], "request_id": request_id})
    answer.error, answer.fault = message, code
    return answer


def message_of(error):
    if isinstance(error, SystemExit):
        return f"function exited with code {exit_code_of(error)}"
    try:
        return str(error) or type(error).__name__
    except Exception:  # a user's __str__ may raise anything
        return type(error).__name__


def exit_code_of(error):
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1


def log_traceback(error):
    """Print the traceback without the runtime's frames. For `sys.exit("text")` print only the text, as Python does."""
    if isinstance(error, SystemExit):
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        return
    try:
        traceback = standard("traceback")
    except OSError:  # no descriptor is left to import it
        print(f"{type(error).__name__}: {message_of(error)}", file=sys.stderr)
        return
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(HERE):
        frames = frames.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, frames))
    except Exception as unprintable:  # a user's exception class may raise anything
        text = f"{type(error).__name__} (printing its traceback raised {type(unprintable).__name__})\n"
    for folder in own_folders:
        text = text.replace(folder, "")
    sys.stderr.write(text)


def percent_encoded(message):
    """A message as a header value: percent-encoded UTF-8 of at most 1 KB, cut between characters."""
    encoded = []
    size = 0
    for character in message:
        piece = "".join(chr(byte) if byte in SAFE else f"%{byte:02X}" for byte in character.encode("utf-8", "replace"))
        size += len(piece)
        if size > MESSAGE_LIMIT_BYTES:
            break
        encoded.append(piece)
    return "".join(encoded)
