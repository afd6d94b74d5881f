"""AMQP URLs and queue names."""

import pytest

from sless.domain.amqp import BrokerUrl, parse_broker_url, queue_mistake, refusal_of, retry_queue_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amqp://h", (False, "h", 5672, "/", "guest", "guest")),
        ("amqp://h/", (False, "h", 5672, "/", "guest", "guest")),
        ("amqps://u:p%40w@h.example:1234/%2F", (True, "h.example", 1234, "/", "u", "p@w")),
        ("amqp://u@[::1]/my%2Fhost?heartbeat=5&connection_timeout=3", (False, "::1", 5672, "my/host", "u", "guest")),
        ("amqp://u:@h/v", (False, "h", 5672, "v", "u", "")),
    ],
)
def test_broker_url(text: str, expected: tuple[object, ...]) -> None:
    url = parse_broker_url(text)
    assert (url.tls, url.host, url.port, url.vhost, url.user, url.password) == expected


@pytest.mark.parametrize(
    "text",
    ["", "h", "http://secret@h", "amqp://", "amqp:///v", "amqp://secret@h:x/", "amqp://secret@h:99999/", "amqp://secret@[h/",
     "amqp://secret@h/v/w", "amqp://secret@h/?cafile=/etc/passwd", "amqp://secret@h/?no_verify_ssl=1", "amqp://secret@h/#x"],
)  # fmt: skip
def test_invalid_broker_urls(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|unknown parameter|unexpected text") as raised:
        parse_broker_url(text)
    assert "secret" not in str(raised.value)


def test_passwords_are_never_shown() -> None:
    url = BrokerUrl(tls=True, host="::1", port=1, vhost="/", user="u", password="secret")
    assert f"{url} {url!r}" == "amqps://[::1]:1 <broker amqps://[::1]:1>"


def test_queue_names() -> None:
    assert queue_mistake("ä" * 120) is None
    assert queue_mistake("ä" * 121) == "expected at most 240 bytes, found 242"
    assert len(retry_queue_of("ä" * 120, 256).encode()) <= 255


@pytest.mark.parametrize(
    ("queue", "allowed", "may"),
    [
        ("ns.a", (), True),
        ("ns.", (), True),
        ("ns", (), False),
        ("nsa.b", (), False),
        ("a", ("a",), True),
        ("a", ("ns/a",), True),
        ("a", ("other/a",), False),
        ("ns2.a", ("ns2.*",), False),
    ],
)
def test_allowed_queues(queue: str, allowed: tuple[str, ...], may: bool) -> None:
    assert (refusal_of("ns", queue, allowed) is None) is may
