"""Rules for the attempts of one message: reads the attempt from a message, and decides what follows it. Pure.

Between two attempts a message waits in `{queue}.retry.{n}s`: a copy is published there and confirmed before the original is acknowledged,
so a crash in between can duplicate the message but never lose it. A header of the copy holds its origin and its number of attempts.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sless.domain.amqp import dead_queue_of, retry_delay_sec_of, retry_queue_of
from sless.domain.messages import Message, MessageOutcome
from sless.ids import valid_request_id

RETRY_HEADER = "x-sless-retry"
MAX_SHOWN_BYTES = 16 * 1024
"""Limit of `context.message`, which is sent to the instance in a header. If it is exceeded, the message's own headers are left out."""
MAX_REASON_CHARS = 1000
_NOT_COPIED = frozenset({RETRY_HEADER, "cc", "bcc"})
"""CC and BCC would send the copy to further queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAttempt:
    """The next attempt, counted from 1. `message` is as published by its sender; `due_ms` is since the epoch. `chain` is an id shared by
    all copies, "" before the first attempt has ended. `request_id` is the same for all attempts. `quarantined`: an instance crashed while
    it was processing this message, which may be the cause."""

    message: Message
    number: int = 1
    chain: str = ""
    due_ms: int = 0
    request_id: str | None = None
    quarantined: bool = False

    @property
    def name(self) -> str:
        """The same for all copies of this attempt, since a copy whose confirmation was lost is published again. "" for a first attempt."""
        return f"{self.chain}.{self.number}" if self.chain else ""


def attempt_of(message: Message) -> MessageAttempt:
    """The attempt of a message of the queue or one of its retry queues. Any client may publish the header, so invalid values are
    ignored."""
    note = message.headers.get(RETRY_HEADER)
    if not isinstance(note, Mapping):
        return MessageAttempt(message=message, request_id=valid_request_id(message.message_id or ""))
    number, due_ms = note.get("attempt"), note.get("due_ms")
    original = replace(
        message,
        headers={name: value for name, value in message.headers.items() if name != RETRY_HEADER},
        exchange=_text(note.get("exchange")),
        routing_key=_text(note.get("routing_key")),
        message_id=message.message_id if note.get("has_id") else None,
    )
    return MessageAttempt(
        message=original,
        number=number if isinstance(number, int) and 1 <= number <= 1000 else 1,
        chain=_text(note.get("id")),
        due_ms=due_ms if isinstance(due_ms, int) else 0,
        request_id=valid_request_id(_text(note.get("request_id"))),
        quarantined=note.get("quarantined") is True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """`queue` is created if missing; messages wait `delay_sec` in it."""

    queue: str
    delay_sec: int
    copy: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Bury:
    queue: str
    copy: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Keeps the message unacknowledged, because the function cannot be called."""

    reason: str


Verdict = Acknowledge | Retry | Bury | Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSource:
    """Source of messages, which is written into the headers of copies."""

    queue: str
    trigger: str
    function: str
    max_attempts: int


def message_verdict_of(attempt: MessageAttempt, outcome: MessageOutcome, source: MessageSource, *, now: datetime, chain: str) -> Verdict:
    """The action after an attempt. `chain` is that of the attempt, or a new one after a first attempt."""
    if not outcome.served:
        return Hold(reason=outcome.error)
    if outcome.ok:
        return Acknowledge()
    if outcome.non_retryable or attempt.number >= source.max_attempts:
        return Bury(queue=dead_queue_of(source.queue), copy=_dead_copy_of(attempt, outcome, source, chain, now))
    delay_sec = retry_delay_sec_of(attempt.number)
    due_ms = int(now.timestamp() * 1000) + delay_sec * 1000
    return Retry(queue=retry_queue_of(source.queue, delay_sec), delay_sec=delay_sec, copy=_retry_copy_of(attempt, outcome, chain, due_ms))


def _retry_copy_of(attempt: MessageAttempt, outcome: MessageOutcome, chain: str, due_ms: int) -> Message:
    original = attempt.message
    note = {
        "attempt": attempt.number + 1, "id": chain, "due_ms": due_ms, "request_id": outcome.request_id, "exchange": original.exchange,
        "routing_key": original.routing_key, "has_id": original.message_id is not None, "error": outcome.error[:MAX_REASON_CHARS],
        "quarantined": attempt.quarantined or outcome.crashed,
    }  # fmt: skip
    return replace(original, headers=_copied(original.headers) | {RETRY_HEADER: note})


def _dead_copy_of(attempt: MessageAttempt, outcome: MessageOutcome, source: MessageSource, chain: str, now: datetime) -> Message:
    """A message without an id gets the request id, under which history lists its attempts. Two dead letters with the same `x-sless-id` are
    duplicates: the confirmation of the first was lost."""
    original = attempt.message
    added = {
        "x-sless-id": chain,
        "x-sless-reason": outcome.error[:MAX_REASON_CHARS], "x-sless-attempts": attempt.number, "x-sless-queue": source.queue,
        "x-sless-trigger": source.trigger, "x-sless-function": source.function, "x-sless-request-id": outcome.request_id,
        "x-sless-exchange": original.exchange, "x-sless-routing-key": original.routing_key,
        "x-sless-dead-at": now.astimezone(UTC).replace(microsecond=0),
    }  # fmt: skip
    return replace(original, headers=_copied(original.headers) | added, message_id=original.message_id or outcome.request_id)


def _copied(headers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_COPIED}


def wait_sec_of(attempt: MessageAttempt, delay_sec: int, now: datetime) -> float:
    """How much longer a message of a retry queue has to wait; at most the delay of its queue, even if clocks differ."""
    return min(float(delay_sec), max(0.0, attempt.due_ms / 1000 - now.timestamp()))


# --- context.message ---


def shown_of(attempt: MessageAttempt, source: MessageSource) -> str:
    """`context.message` as JSON in ASCII without control characters: fit for a header."""
    message = attempt.message
    shown: dict[str, Any] = {
        "trigger": source.trigger, "queue": source.queue, "exchange": message.exchange, "routing_key": message.routing_key,
        "redelivered": message.redelivered, "attempt": attempt.number, "max_attempts": source.max_attempts,
        "message_id": message.message_id, "correlation_id": message.correlation_id, "reply_to": message.reply_to,
        "content_type": message.content_type, "content_encoding": message.content_encoding, "type": message.type, "app_id": message.app_id,
        "priority": message.priority, "timestamp": _json_of(message.timestamp), "headers": _json_of(message.headers),
    }  # fmt: skip
    text = _ascii(shown)
    return text if len(text) <= MAX_SHOWN_BYTES else _ascii(shown | {"headers": {}, "headers_dropped": True})


def _ascii(value: object) -> str:
    return json.dumps(value).replace("\x7f", "\\u007f")


def _json_of(value: Any) -> Any:
    """AMQP values as JSON: times as ISO 8601, bytes as text or else base64, decimals as numbers."""
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case bytes() | bytearray():
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:
                return base64.b64encode(value).decode()
        case Decimal():
            return float(value)
        case Mapping():
            return {str(name): _json_of(item) for name, item in value.items()}
        case list() | tuple():
            return [_json_of(item) for item in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if abs(value) < float("inf") else str(value)
    return str(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
