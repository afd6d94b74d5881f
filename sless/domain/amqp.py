"""AMQP URLs and queue names, and which queues a tenant may consume. Pure; `sless.broker` connects."""

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from sless.domain.durations import backoff_sec

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671}
MAX_QUEUE_BYTES = 240
"""AMQP names are limited to 255 bytes; this leaves room for `.retry.256s`."""
MAX_RETRY_DELAY_SEC = 256
_IGNORED_PARAMETERS = frozenset({"heartbeat", "connection_timeout", "channel_max", "frame_max"})
"""Client settings in RabbitMQ's URI specification; sless chooses these itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUrl:
    """`vhost` is decoded. `str` and `repr` leave out the password."""

    tls: bool
    host: str
    port: int
    vhost: str
    user: str
    password: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqps' if self.tls else 'amqp'}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"<broker {self}>"


def parse_broker_url(text: str) -> BrokerUrl:
    """Raises ValueError. The message never quotes the text, which may contain a password."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("malformed URL: expected amqp[s]://user:password@host[:port]/vhost") from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError("expected amqp[s]://user:password@host[:port]/vhost; the scheme or the host is missing")
    unknown = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if name not in _IGNORED_PARAMETERS]
    if unknown or parts.fragment or "/" in parts.path[1:]:
        what = f'unknown parameter "{unknown[0]}"' if unknown else "unexpected text"
        raise ValueError(f"{what} after the vhost (write a / in its name as %2F)")
    return BrokerUrl(
        tls=parts.scheme == "amqps",
        host=parts.hostname,
        port=port or DEFAULT_PORTS[parts.scheme],
        vhost=unquote(parts.path[1:]) or "/",
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password if parts.password is not None else "guest"),
    )


def queue_mistake(queue: str) -> str | None:
    """Why a queue name is invalid; None if it is valid."""
    size = len(queue.encode(errors="replace"))
    return f"expected at most {MAX_QUEUE_BYTES} bytes, found {size}" if size > MAX_QUEUE_BYTES else None


def refusal_of(namespace: str, queue: str, allowed: Collection[str]) -> str | None:
    """Why a tenant may not consume a queue of the shared broker; None if it may. `allowed` is SLESS_EVENT_QUEUES_ALLOWED."""
    if queue.startswith(f"{namespace}.") or queue in allowed or f"{namespace}/{queue}" in allowed:
        return None
    return f'queue names on the shared broker must start with "{namespace}." (any name works with your own amqp_url), found "{queue}"'


def dead_queue_of(queue: str) -> str:
    return f"{queue}.dead"


def retry_queue_of(queue: str, delay_sec: int) -> str:
    """One queue per delay: since all of its messages wait equally long, they expire in order."""
    return f"{queue}.retry.{delay_sec}s"


def retry_delay_sec_of(attempt: int) -> int:
    """The delay after failed attempt number `attempt` (counted from 1): 1, 2, 4 … 256 s."""
    return int(backoff_sec(attempt, first_sec=1.0, max_sec=MAX_RETRY_DELAY_SEC))
