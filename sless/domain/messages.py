"""AMQP messages as they pass from broker to reconcile to proxy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A received message, or one to publish. Header values are AMQP types: text, numbers, bytes, times, lists, tables."""

    body: bytes
    headers: Mapping[str, Any] = field(default_factory=dict)
    exchange: str = ""
    routing_key: str = ""
    redelivered: bool = False
    message_id: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    type: str | None = None
    app_id: str | None = None
    priority: int | None = None
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCall:
    """One attempt to process a message. `shown` is `context.message` as ASCII JSON; `last`: no other attempt follows."""

    workload_id: str
    request_id: str | None
    content_type: str
    body: bytes
    shown: str
    attempt: int
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOutcome:
    """`served` False: the function could not be called, so the message itself may be fine. `non_retryable`: the message would fail again
    for the same reason. `crashed`: the instance exited during the call, because of this message or another one it was processing. `error`
    is empty if `ok`."""

    ok: bool
    request_id: str = ""
    error: str = ""
    served: bool = True
    non_retryable: bool = False
    crashed: bool = False


class MessageInvoker(Protocol):
    async def deliver(self, call: MessageCall) -> MessageOutcome:
        """Calls an instance and records the call. Runs on the event loop of the data plane."""
