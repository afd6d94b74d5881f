"""AMQP URLs and queue names, and who may listen to what. Pure; `sless.broker` connects."""

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from sless.domain.backoff import backoff_sec

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671}
MAX_QUEUE_BYTES = 240
"""AMQP's names have 255 bytes; `.retry.256s` has to fit behind."""
MAX_RETRY_DELAY_SEC = 256
_IGNORED_PARAMETERS = frozenset({"heartbeat", "connection_timeout", "channel_max", "frame_max"})
"""Of RabbitMQ's URI specification: settings of the client, which are ours to choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUrl:
    """`vhost` is decoded. Its text and its `repr` show no password."""

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
    """Raises ValueError with a sentence that shows nothing of the text: it may hold a password."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("expected amqp[s]://user:password@host[:port]/vhost, found something else") from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError("expected amqp[s]://user:password@host[:port]/vhost, found no such scheme or no host")
    unknown = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if name not in _IGNORED_PARAMETERS]
    if unknown or parts.fragment or "/" in parts.path[1:]:
        what = f'the parameter "{unknown[0]}"' if unknown else "more"
        raise ValueError(f"expected nothing behind the vhost (a / in its name is written %2F), found {what}")
    return BrokerUrl(
        tls=parts.scheme == "amqps",
        host=parts.hostname,
        port=port or DEFAULT_PORTS[parts.scheme],
        vhost=unquote(parts.path[1:]) or "/",
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password if parts.password is not None else "guest"),
    )


def queue_mistake(queue: str) -> str | None:
    """What is wrong with a queue's name; None: nothing."""
    size = len(queue.encode(errors="replace"))
    return f"expected at most {MAX_QUEUE_BYTES} bytes, found {size}" if size > MAX_QUEUE_BYTES else None


def refusal_of(namespace: str, queue: str, allowed: Collection[str]) -> str | None:
    """Why a tenant may not listen to a queue of the operator's broker; None: it may. `allowed` is SLESS_EVENT_QUEUES_ALLOWED."""
    if queue.startswith(f"{namespace}.") or queue in allowed or f"{namespace}/{queue}" in allowed:
        return None
    return f'expected a name that starts with "{namespace}." on the shared broker (any name with an amqp_url of your own), found "{queue}"'


def dead_queue_of(queue: str) -> str:
    return f"{queue}.dead"


def retry_queue_of(queue: str, delay_sec: int) -> str:
    """All messages of one such queue wait equally long, so the first one is always the next that is due."""
    return f"{queue}.retry.{delay_sec}s"


def retry_delay_sec_of(attempt: int) -> int:
    """How long a message waits after its attempt of that number (1 is the first) failed: 1, 2, 4 … 256 s."""
    return int(backoff_sec(attempt, first_sec=1.0, max_sec=MAX_RETRY_DELAY_SEC))
