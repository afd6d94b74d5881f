"""Callbacks of asynchronous calls: URL, body, signature; what they share with notices. Pure."""

import hashlib
import hmac
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from urllib.parse import urlsplit

from sless.clock import rfc3339_of
from sless.domain.addresses import Allowed, find_literal, may_reach
from sless.domain.model import Run
from sless.errors import Detail, Invalid

MAX_URL_CHARS = 2048
MAX_ATTEMPTS = 10
"""With back-off these span about twenty minutes."""
KEY_OVERLAP = timedelta(hours=24)
"""How long after a rotation callbacks are also signed with the previous key."""

_PORTS = {"http": 80, "https": 443}
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_HOST = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9_.])?")


class CallbackStatus(StrEnum):
    """pending → delivered | failed."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(ABC):
    """One POST to a URL of a tenant, with its attempts."""

    namespace: str
    url: str
    status: CallbackStatus
    attempts: int
    not_before: datetime
    http_status: int | None
    error: str | None
    created_at: datetime
    ended_at: datetime | None

    @property
    @abstractmethod
    def key(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback(Delivery):
    run_id: str

    @property
    def key(self) -> str:
        return self.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackKey:
    """The UTF-8 bytes of `secret` are the HMAC key."""

    secret: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackUrl:
    """`host` has no brackets, `target` is path and query, `authority` the value of the Host header."""

    secure: bool
    host: str
    port: int
    target: str
    authority: str


def parse_callback_url(url: str, allowed: Iterable[Allowed], *, field: str = "callback_url") -> CallbackUrl:
    """Raises Invalid, also for literal addresses that may not be reached. Host names are checked when the callback is sent."""
    try:
        return _parse(url, allowed)
    except ValueError as error:
        shown = url if len(url) <= 80 else url[:80] + "…"
        raise Invalid(Detail(field=field, message=f"{error}, found {shown!r}")) from None


def _parse(url: str, allowed: Iterable[Allowed]) -> CallbackUrl:
    if len(url) > MAX_URL_CHARS or not _PRINTABLE.fullmatch(url):
        raise ValueError(f"expected an http or https URL of up to {MAX_URL_CHARS} printable ASCII characters")
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in _PORTS or not host or "\\" in url:
        raise ValueError("expected an http or https URL with a host, such as https://example.com/done")
    if "@" in parts.netloc:
        raise ValueError("expected a URL without user and password (verify the signature instead)")
    if parts.fragment:
        raise ValueError("expected a URL without #fragment")
    if parts.port == 0:  # `.port` itself raises ValueError for anything but a port
        raise ValueError("expected a port from 1 to 65535")
    port = parts.port or _PORTS[parts.scheme]
    literal = find_literal(host)
    if literal is None and not _HOST.fullmatch(host):
        raise ValueError("expected a host of letters, digits, - and .")
    if literal is not None and not may_reach(literal, port, allowed):
        raise ValueError("expected a public address (or one allowed by SLESS_OUTBOUND_ALLOW)")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return CallbackUrl(secure=parts.scheme == "https", host=host, port=port, target=target, authority=parts.netloc)


def body_of(run: Run) -> bytes:
    """The body of the POST: the finished run, with the field names of `GET …/invocations/{id}`."""
    values = {
        "id": run.id,
        "request_id": run.request_id,
        "namespace": run.namespace,
        "kind": str(run.kind),
        "name": run.name,
        "version": run.version,
        "trigger": str(run.trigger),
        "status": str(run.status),
        "http_status": run.http_status,
        "result": run.result,
        "error": run.message or None,
        "attempts": run.attempts,
        "created_at": rfc3339_of(run.created_at),
        "started_at": rfc3339_of(run.started_at) if run.started_at else None,
        "finished_at": rfc3339_of(run.ended_at) if run.ended_at else None,
    }
    return json.dumps(values, ensure_ascii=False).encode(errors="replace")


def signing_keys_of(keys: Iterable[CallbackKey], now: datetime) -> list[CallbackKey]:
    """The keys to sign with, from `keys` (newest first): the newest, and for KEY_OVERLAP after a rotation the previous one."""
    found = list(keys)
    return found[:1] + [key for key in found[1:2] if now < found[0].created_at + KEY_OVERLAP]


def signature_of(keys: Iterable[CallbackKey], timestamp_sec: int, url: str, body: bytes) -> str:
    """`v1=` and the hex HMAC-SHA256 of `{timestamp}.{url}.{body}`, once per key, comma-separated."""
    message = b"%d.%b.%b" % (timestamp_sec, url.encode(), body)
    return ",".join("v1=" + hmac.new(key.secret.encode(), message, hashlib.sha256).hexdigest() for key in keys)
