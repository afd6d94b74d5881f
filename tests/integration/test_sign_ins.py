"""Failed sign-ins are counted by address and slowed down; the client's address behind trusted proxies."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from sless import metrics
from sless.asgi import sign_ins
from sless.asgi.sign_ins import FIRST_PAUSE_SEC, FREE_FAILURES, LONGEST_PAUSE_SEC, SignIns
from sless.proxy.heads import Trust
from tests.proxykit.fakes import NAMESPACE
from tests.proxykit.server import SETTINGS, Front, Reply

BEHIND_PROXY = replace(SETTINGS, trusted_proxies=("127.0.0.1",))


def flask(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Refuses a token that is not `good`, as the real one does; answers with the client's address."""
    given = environ.get("HTTP_AUTHORIZATION")
    if given == "Bearer good":
        start_response("200 OK", [])
        return [environ["REMOTE_ADDR"].encode()]
    start_response("401 Unauthorized", [("WWW-Authenticate", "Bearer" + (', error="invalid_token"' if given else ""))])
    return [b""]


def ask(front: Front, path: str = "/v1/whoami", token: str | None = "bad", address: str = "192.0.2.1") -> tuple[Reply, float]:
    """The reply, and the seconds until it arrived."""
    sent = f"authorization: Bearer {token}\r\n" if token else ""
    begun = time.monotonic()
    with front.connect() as client:
        client.send(f"GET {path} HTTP/1.1\r\nhost: x\r\nx-forwarded-for: {address}\r\n{sent}\r\n".encode())
        return client.reply(), time.monotonic() - begun


def counted() -> float:
    return metrics.REGISTRY.get_sample_value("sless_sign_in_failures_total") or 0.0


PAUSED = 3
"""Failures beyond the free ones: with their pauses, the next one would be long enough to tell from a busy machine's answer."""
NEXT_PAUSE_SEC = FIRST_PAUSE_SEC * 2**PAUSED


@pytest.mark.parametrize("path", ["/v1/whoami", f"/v1/namespaces/{NAMESPACE}/functions/hello/invoke"])
def test_an_address_that_keeps_failing_waits_and_others_do_not(path: str) -> None:
    before = counted()
    with Front(settings=BEHIND_PROXY, flask=flask) as front:
        for _ in range(FREE_FAILURES):
            assert ask(front, path)[0].status == 401
        for number in range(PAUSED):
            reply, seconds = ask(front, path)
            assert reply.status == 401 and seconds >= FIRST_PAUSE_SEC * 2**number
        assert counted() - before == FREE_FAILURES + PAUSED
        assert ask(front, path, address="192.0.2.2")[1] < NEXT_PAUSE_SEC
        reply, seconds = ask(front, token="good")
        assert (reply.status, reply.body) == (200, b"192.0.2.1") and seconds < NEXT_PAUSE_SEC


def test_a_request_without_a_token_is_not_a_failed_sign_in() -> None:
    before = counted()
    with Front(flask=flask) as front:
        assert ask(front, token=None)[0].status == 401
    assert counted() == before


def test_an_untrusted_peer_cannot_name_another_address() -> None:
    with Front(flask=flask) as front:
        assert ask(front, token="good")[0].body == b"127.0.0.1"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_pauses_double_up_to_a_bound_and_are_forgotten() -> None:
    clock = Clock()
    counter = SignIns(Trust(()), clock)
    pauses = [counter.count("192.0.2.1") for _ in range(FREE_FAILURES + 8)]
    assert pauses[:FREE_FAILURES] == [0.0] * FREE_FAILURES
    assert pauses[FREE_FAILURES:] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, LONGEST_PAUSE_SEC, LONGEST_PAUSE_SEC]
    assert counter.count("192.0.2.2") == 0.0
    clock.now += sign_ins.FORGET_SEC
    assert counter.count("192.0.2.1") == 0.0


def test_one_ipv6_network_is_one_address() -> None:
    counter = SignIns(Trust(()), Clock())
    pauses = [counter.count(f"2001:db8::{number:x}") for number in range(1, FREE_FAILURES + 2)]
    assert pauses[-1] == FIRST_PAUSE_SEC
    assert counter.count("2001:db8:0:1::1") == 0.0


def test_the_number_of_addresses_is_bounded() -> None:
    counter = SignIns(Trust(()), Clock())
    for _ in range(FREE_FAILURES + 1):
        counter.count("192.0.2.1")
    for number in range(sign_ins.ADDRESSES):
        counter.count(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert counter.count("192.0.2.1") == 0.0
