"""Verdicts on attempts, and the copies of messages they publish."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from sless.domain.amqp import retry_delay_sec_of
from sless.domain.messages import Message, MessageOutcome
from sless.reconcile.attempts import (
    RETRY_HEADER,
    Acknowledge,
    Bury,
    Hold,
    MessageAttempt,
    MessageSource,
    Retry,
    attempt_of,
    message_verdict_of,
    shown_of,
    wait_sec_of,
)
from tests.builders import AT

SOURCE = MessageSource(queue="q", trigger="t", function="f", max_attempts=3)
MESSAGE = Message(body=b"x", headers={"a": 1}, exchange="e", routing_key="k", message_id="m")
FAILED = MessageOutcome(ok=False, request_id="r", error="boom")


def verdict(attempt: MessageAttempt, outcome: MessageOutcome, source: MessageSource = SOURCE) -> Any:
    return message_verdict_of(attempt, outcome, source, now=AT, chain=attempt.chain or "c1")


@pytest.mark.parametrize(
    ("number", "outcome", "kind", "queue"),
    [
        (1, MessageOutcome(ok=True), Acknowledge, None),
        (9, MessageOutcome(ok=True), Acknowledge, None),
        (1, FAILED, Retry, "q.retry.1s"),
        (2, FAILED, Retry, "q.retry.2s"),
        (3, FAILED, Bury, "q.dead"),
        (7, FAILED, Bury, "q.dead"),
        (1, replace(FAILED, non_retryable=True), Bury, "q.dead"),
        (1, replace(FAILED, served=False), Hold, None),
        (3, replace(FAILED, served=False), Hold, None),
    ],
)
def test_verdict(number: int, outcome: MessageOutcome, kind: type, queue: str | None) -> None:
    found = verdict(MessageAttempt(message=MESSAGE, number=number), outcome)
    assert type(found) is kind
    assert getattr(found, "queue", None) == queue


def test_messages_of_a_crashed_instance_are_quarantined() -> None:
    crashed = verdict(MessageAttempt(message=MESSAGE), replace(FAILED, crashed=True)).copy
    again = attempt_of(crashed)
    assert (again.number, again.quarantined) == (2, True)
    assert attempt_of(verdict(again, FAILED).copy).quarantined, "it stays quarantined"
    assert not attempt_of(verdict(MessageAttempt(message=MESSAGE), FAILED).copy).quarantined


def test_delays_double_up_to_a_limit() -> None:
    assert [retry_delay_sec_of(number) for number in (1, 2, 3, 8, 9, 10, 99)] == [1, 2, 4, 128, 256, 256, 256]


def test_a_copy_keeps_everything_for_the_next_attempt() -> None:
    message = replace(MESSAGE, headers={"a": 1, "CC": ["x"], "bcc": ["y"]}, correlation_id="c", priority=3, timestamp=AT)
    retry = verdict(MessageAttempt(message=message), FAILED)
    came_back = replace(retry.copy, exchange="", routing_key=retry.queue, redelivered=True)
    again = attempt_of(came_back)
    assert again.message == replace(message, headers={"a": 1}, redelivered=True)
    assert (again.number, again.chain, again.name, again.request_id) == (2, "c1", "c1.2", "r")
    assert wait_sec_of(again, 1, AT) == 1.0
    assert wait_sec_of(again, 1, AT + timedelta(seconds=0.4)) == pytest.approx(0.6)
    assert wait_sec_of(again, 1, AT + timedelta(hours=1)) == 0.0
    assert wait_sec_of(again, 1, AT - timedelta(hours=1)) == 1.0
    dead = verdict(replace(again, number=3), FAILED).copy
    assert dead.headers == {
        "a": 1, "x-sless-id": "c1",
        "x-sless-reason": "boom", "x-sless-attempts": 3, "x-sless-queue": "q", "x-sless-trigger": "t", "x-sless-function": "f",
        "x-sless-request-id": "r", "x-sless-exchange": "e", "x-sless-routing-key": "k", "x-sless-dead-at": AT.replace(microsecond=0),
    }  # fmt: skip
    assert (dead.body, dead.message_id, dead.correlation_id, dead.priority) == (b"x", "m", "c", 3)


def test_a_message_without_an_id_gets_the_request_id_only_when_dead() -> None:
    nameless = replace(MESSAGE, message_id=None)
    copy = replace(verdict(MessageAttempt(message=nameless), FAILED).copy, message_id="made by the client library")
    assert attempt_of(copy).message.message_id is None
    assert verdict(MessageAttempt(message=nameless, number=3), FAILED).copy.message_id == "r"


def test_a_message_returned_from_the_dead_letter_queue_starts_over() -> None:
    dead = verdict(MessageAttempt(message=MESSAGE, number=3), FAILED).copy
    assert (attempt_of(dead).number, attempt_of(dead).name) == (1, "")


@pytest.mark.parametrize(
    "note",
    [
        "text", 7, [], {"attempt": "x"}, {"attempt": -1}, {"attempt": 10**9},
        {"attempt": 2.5, "due_ms": "soon", "id": 3, "request_id": "a b"},
    ],
    ids=str,
)  # fmt: skip
def test_an_invalid_retry_header_is_ignored(note: Any) -> None:
    found = attempt_of(replace(MESSAGE, headers={RETRY_HEADER: note}))
    assert (found.number, found.chain, found.due_ms) == (1, "", 0)
    assert wait_sec_of(replace(found, due_ms=2**62), 4, AT) == 4.0


@pytest.mark.parametrize(("message_id", "request_id"), [("order-7", "order-7"), ("a b", None), ("", None), (None, None), ("x" * 200, None)])
def test_a_valid_message_id_is_the_request_id(message_id: str | None, request_id: str | None) -> None:
    assert attempt_of(replace(MESSAGE, message_id=message_id)).request_id == request_id


def test_message_properties_for_the_function_fit_into_a_header() -> None:
    headers = {
        "text": "ü\n\x7f\0", "bytes": b"ab", "binary": b"\xff", "array": bytearray(b"z"), "at": datetime(2026, 1, 2, tzinfo=UTC),
        "decimal": Decimal("1.5"), "nan": float("nan"), "list": [1, {"deep": None}], "big": 2**60, "yes": True,
    }  # fmt: skip
    text = shown_of(MessageAttempt(message=replace(MESSAGE, headers=headers), number=2), SOURCE)
    assert text.isascii() and text.isprintable()
    shown = json.loads(text)
    assert shown["headers"] == {
        "text": "ü\n\x7f\0", "bytes": "ab", "binary": "/w==", "array": "z", "at": "2026-01-02T00:00:00Z", "decimal": 1.5, "nan": "nan",
        "list": [1, {"deep": None}], "big": 2**60, "yes": True,
    }  # fmt: skip
    assert (shown["attempt"], shown["max_attempts"], shown["exchange"], shown["routing_key"]) == (2, 3, "e", "k")


def test_headers_over_the_size_limit_are_left_out_with_a_note() -> None:
    shown = json.loads(shown_of(MessageAttempt(message=replace(MESSAGE, headers={"big": "x" * 20_000})), SOURCE))
    assert (shown["headers"], shown["headers_dropped"], shown["message_id"]) == ({}, True, "m")
