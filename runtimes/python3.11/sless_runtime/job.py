"""Job mode: runs one event and writes one outcome."""

import os
import sys

from .answers import BINARY_TYPE, TEXT_TYPE, chunk_bytes
from .calls import Call, current_call
from .encode import InvalidJson, base64_of, decode_json_text, encode_json
from .failures import failure_answer, message_of
from .settings import WrongEnvironment


def job_event(settings):
    """Parse the event; text that is not JSON becomes `{"body": text}`."""
    text = settings.event_text
    if text is None and settings.event_file:
        text = file_text(settings.event_file)
    if text is None or not text.strip():
        return {}
    try:
        return decode_json_text(text)
    except InvalidJson:
        return {"body": text}


def file_text(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8-sig", "replace")
    except OSError as wrong:
        raise WrongEnvironment(f"SLESS_EVENT_FILE: cannot read {path}: {wrong.strerror}") from None


def job_call(settings):
    return Call(settings.invocation_id, settings.request_id, settings.trigger, settings.timeout_sec or None)


def run_job(settings, executor, slots, capture):
    """Call the handler once and return the outcome."""
    call = job_call(settings)
    slots.enter(call)
    current_call.set(call)
    answer = executor.execute(job_event(settings), call)
    if answer.stream is not None:
        answer = collected(answer, call)
    outcome = outcome_of(answer)
    capture.finish(call, capture.poller())
    slots.leave(call)
    current_call.set(None)
    return outcome


def collected(answer, call):
    """Read the answer's stream into its body."""
    pieces = []
    try:
        for chunk in answer.stream:
            if not pieces:
                answer.content_type = TEXT_TYPE if isinstance(chunk, str) else BINARY_TYPE
            pieces.append(chunk_bytes(chunk))
    except BaseException as error:  # a generator may raise anything
        return failure_answer(error, call.request_id)
    answer.body, answer.stream = b"".join(pieces), None
    return answer


def outcome_of(answer):
    """The outcome that `runtimes/README.md` specifies, as a dict."""
    headers = [[name.lower(), value] for name, value in answer.headers]
    if answer.content_type and not any(name == "content-type" for name, _ in headers):
        headers.append(["content-type", answer.content_type])
    outcome = {
        "ok": answer.error is None,
        "error": answer.error,
        "error_type": error_type_of(answer),
        "status": answer.status,
        "headers": headers,
    }
    try:
        outcome["body"] = answer.body.decode("utf-8")
    except UnicodeDecodeError:
        outcome["body_base64"] = base64_of(answer.body)
    return outcome


def error_type_of(answer):
    if answer.error is None:
        return None
    return answer.fault or decode_json_text(answer.body.decode())["type"]


def failed_outcome(error):
    """The outcome when the handler could not be imported."""
    return {"ok": False, "error": message_of(error), "error_type": "CannotLoad", "status": 500, "headers": [], "body": ""}


def deliver(outcome, settings, capture):
    """Write the outcome where sless reads it, after all log lines."""
    capture.finish_idle()
    if not settings.result_file:
        capture.ring.write_out(b'{"sless_outcome": %b}\n' % encode_json(outcome).encode())
        return
    beside = f"{settings.result_file}.part"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(encode_json(outcome))
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, settings.result_file)


def run(settings, load, slots, capture):
    """Run job mode and return the exit code. `load` returns the executor; CannotLoad also gives an outcome."""
    from .loading import CannotLoad

    try:
        executor = load()
    except CannotLoad as wrong:
        deliver(failed_outcome(wrong), settings, capture)
        return 1
    outcome = run_job(settings, executor, slots, capture)
    deliver(outcome, settings, capture)
    sys.stdout.flush()
    return 0 if outcome["ok"] else 1
