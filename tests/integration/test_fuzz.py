"""Generated input for parsers of untrusted bytes: requests, archives, values. FUZZ_SECONDS each (3; `make soak`: 600), FUZZ_SEED repeats
one run."""

import io
import os
import random
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sless.code.intake_child import intake
from sless.domain.amqp import parse_broker_url
from sless.domain.callback import parse_callback_url
from sless.domain.event import event_of
from sless.domain.model import Kind
from sless.domain.schemas import REQUESTS as SCHEMAS
from sless.domain.spec import parse_function
from sless.domain.trigger_spec import parse_trigger
from sless.domain.validate import mistakes_of
from sless.errors import SlessError
from tests.proxykit.fakes import NAMESPACE, route_of
from tests.proxykit.server import Front
from tests.proxykit.upstream import Peer, Upstream, logs_or
from tests.services.product import zip_of

SECONDS = float(os.environ.get("FUZZ_SECONDS", "3"))
SLOW_SEC = 5.0
# Long runs start first, so that the whole run does not end with one of them.
pytestmark = [pytest.mark.timeout(SECONDS + 120), *([pytest.mark.slow] if SECONDS > 10 else [])]


class Dice:
    """Random changes of valid input; the seed is in every failure."""

    def __init__(self) -> None:
        self.seed = int(os.environ.get("FUZZ_SEED") or int.from_bytes(os.urandom(4), "big"))
        self.random = random.Random(self.seed)

    def rounds(self) -> Iterator[int]:
        end, number = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            yield number
            number += 1

    def changed(self, data: bytes, pieces: tuple[bytes, ...]) -> bytes:
        """Up to six changes: bytes, cuts, repetitions, or a piece that parsers treat specially."""
        result = bytearray(data)
        for _ in range(self.random.randint(1, 6)):
            at = self.random.randint(0, len(result))
            length = self.random.choice((1, 1, 2, 4, 16, 64))
            match self.random.randint(0, 4):
                case 0 if result:
                    result[min(at, len(result) - 1)] = self.random.randrange(256)
                case 1:
                    del result[at : at + length]
                case 2:
                    result[at:at] = result[at : at + length] * self.random.choice((1, 2, 50))
                case 3:
                    result[at:at] = self.random.choice(pieces)
                case 4:
                    result[at : at + length] = self.random.randbytes(length)
        return bytes(result)

    def value(self, depth: int = 0) -> Any:
        kind = self.random.randint(0, 9 if depth < 4 else 6)
        plain: list[Any] = [None, True, -1, 1e308, 2**70, "", "handler.handle\0", "\ud800", "a" * 300, "../x", "amqp://[", "* * * * *", 0.5]
        if kind <= 6:
            return self.random.choice(plain)
        if kind <= 8:
            return {str(self.value(5)): self.value(depth + 1) for _ in range(self.random.randint(0, 5))}
        return [self.value(depth + 1) for _ in range(self.random.randint(0, 5))]

    def mutated(self, value: Any) -> Any:
        """A valid body with some fields replaced, removed or added."""
        result = dict(value)
        for _ in range(self.random.randint(1, 4)):
            name = self.random.choice([*result, "unknown", "env_vars", "name"])
            if self.random.random() < 0.2:
                result.pop(name, None)
            else:
                result[name] = self.value()
        return result


@pytest.fixture
def dice() -> Dice:
    return Dice()


# ---- requests ----

HOST = "host: sless.test\r\n"
REQUESTS = (
    f'POST /fn/{NAMESPACE}/f/a%2Fb?x=1 HTTP/1.1\r\n{HOST}content-type: application/json\r\ncontent-length: 7\r\n\r\n{{"a":1}}',
    f"GET /fn/{NAMESPACE}/f HTTP/1.1\r\n{HOST}cookie: a=b\r\nx-request-id: r1\r\n\r\n",
    f"POST /fn/{NAMESPACE}/f HTTP/1.1\r\n{HOST}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    f"POST /v1/namespaces/{NAMESPACE}/functions/f/invoke HTTP/1.1\r\n{HOST}authorization: Bearer x\r\ncontent-length: 2\r\n\r\n{{}}",
    f"GET /v1/whoami HTTP/1.1\r\n{HOST}\r\n",
    "GET /healthz HTTP/1.0\r\n\r\n",
)
PIECES = (
    b"\r\n", b"\n", b"\0", b"\r\n\r\n", b"transfer-encoding: chunked\r\n", b"content-length: 1\r\n", b"upgrade: h2c\r\n",
    b"content-length: 99999999999999999999\r\n", b"expect: 100-continue\r\n", b"HTTP/1.1", b"%2e%2e/", b"//", b"\xff", b" ", b"\t",
    b"GET / HTTP/1.1\r\n", b": ", b"prefer: respond-async\r\n", b"host: x\r\n", b"connection: close, host\r\n",
)  # fmt: skip


def ok(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
    peer.body(headers)
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


def test_changed_requests_never_cause_a_500(dice: Dice) -> None:
    """Each is answered, refused or waited for; never with a 500, and the next caller is served."""
    upstream = Upstream(logs_or(ok))
    sent = 0
    with Front(route_of(addresses=[upstream.address])) as front:
        for number in dice.rounds():
            data = dice.changed(dice.random.choice(REQUESTS).encode(), PIECES) + dice.random.choice((b"", REQUESTS[1].encode()))
            with front.connect(0.05) as client:
                client.send(data)
                try:
                    answer = client.rest()
                except TimeoutError:
                    answer = client._buffer
            where = f"FUZZ_SEED={dice.seed} round {number}: {data!r}\n{answer[:500]!r}"
            assert b" 500 " not in answer.partition(b"\r\n")[0], where
            assert not answer or answer.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")), where
            if number % 20 == 0:
                assert front.call().status == 200, where
            sent += 1
        assert front.call().status == 200
    upstream.close()
    assert sent > 5 * SECONDS


# ---- archives ----

ARCHIVE_PIECES = (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"../", b"/etc/passwd", b"\0" * 8, b"\xff" * 8)


def archives() -> list[bytes]:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("handler.py", "def handle(event):\n    return event\n")
        archive.writestr(link, "handler.py")
    files: dict[str, str | bytes] = {
        "handler.py": "x = 1\n",
        "pkg/mod.py": "def f(): pass\n",
        "ä/b.txt": b"\x00" * 5000,
        "run.sh": "#!/bin/sh\n",
    }
    return [buffer.getvalue(), zip_of(files), zip_of({"top/handler.py": "def handle(event): pass\n"})]


def test_changed_archives_are_accepted_or_refused_with_a_message(dice: Dice, tmp_path: Path) -> None:
    """An upload is accepted or refused with a message, and what is written is a zip with nothing outside its root."""
    known = archives()
    source, target = tmp_path / "source.zip", tmp_path / "target.zip"
    limits = {"files": 50, "unpacked_bytes": 1 << 20}
    request = {"source": str(source), "target": str(target), "form": "zip", "runtime": "python3.11", "entrypoint": "handler.handle"}
    for number in dice.rounds():
        data = dice.changed(dice.random.choice(known), ARCHIVE_PIECES) if number else known[0]
        source.write_bytes(data)
        target.unlink(missing_ok=True)
        began = time.monotonic()
        where = f"FUZZ_SEED={dice.seed} round {number}: {data.hex()}"
        try:
            intake(request | {"limits": limits})
            names = zipfile.ZipFile(target).namelist()
            assert not [name for name in names if name.startswith("/") or ".." in name.split("/")], where
        except SlessError:
            assert number, "the unchanged archive is valid"
        except Exception as error:
            raise AssertionError(where) from error
        assert time.monotonic() - began < SLOW_SEC, where


# ---- values ----

FUNCTION = {
    "name": "f",
    "runtime": "python3.11",
    "entrypoint": "handler.handle",
    "env_vars": {"A": "b"},
    "memory_mb": 128,
    "timeout_sec": 5,
}
TRIGGERS: tuple[dict[str, Any], ...] = (
    {"name": "t", "type": "cron", "function_ref": "f", "schedule": "*/5 * * * *", "timezone": "UTC", "event_json": "{}"},
    {"name": "t", "type": "http", "function_ref": "f", "methods": ["GET"], "auth": "key", "cors": {"origins": ["*"]}},
    {"name": "t", "type": "event", "function_ref": "f", "queue": "q", "amqp_url": "amqp://u:p@mq.example.org/v"},
)
TYPES = (
    "application/json", "application/x-www-form-urlencoded; charset=utf-16", "multipart/form-data; boundary=b", "text/x; charset=nope", "",
)  # fmt: skip
PART = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n1\r\n--b--\r\n'
BODIES = (b'{"a": [1, 2, {"b": null}]}', b"a=1&b=%zz&a=2", PART, b"\xff\xfe")
JSON_PIECES = (b"1e400", b"NaN", b"[" * 200, b'"\\ud800"', b"{", b"}", b"%00", b"&", b"=", b"--b", b"\r\n\r\n", b"0" * 100)


def test_changed_values_raise_only_errors_for_users(dice: Dice) -> None:
    """Parsers of bodies, URLs and events raise only errors for users, and quickly."""
    names = sorted(SCHEMAS)

    def texts() -> str:
        return dice.changed(b"amqp://user:p%40ss@mq.example.org:5671/vhost?heartbeat=5", JSON_PIECES).decode("latin-1")

    def event() -> str:
        query, body = dice.changed(b"a=1&b=2", JSON_PIECES).decode("latin-1"), dice.changed(dice.random.choice(BODIES), JSON_PIECES)
        return event_of(dice.random.choice(TYPES), query, body)

    def value_error(call: Callable[[], object]) -> None:
        try:
            call()
        except ValueError:
            pass

    tries: tuple[Callable[[], object], ...] = (
        lambda: parse_function(dice.mutated(FUNCTION), kind=dice.random.choice((Kind.FUNCTION, Kind.SERVICE, Kind.JOB))),
        lambda: parse_trigger(dice.mutated(dice.random.choice(TRIGGERS))),
        lambda: mistakes_of(dice.random.choice(names), dice.value()),
        event,
        lambda: value_error(lambda: parse_broker_url(texts())),
        lambda: value_error(lambda: parse_callback_url(texts().replace("amqp", "https"), ())),
    )
    for number in dice.rounds():
        state, began = dice.random.getstate(), time.monotonic()
        try:
            tries[number % len(tries)]()
        except SlessError:
            pass
        except Exception as error:
            raise AssertionError(f"FUZZ_SEED={dice.seed} round {number}, kind {number % len(tries)}") from error
        assert time.monotonic() - began < SLOW_SEC, (dice.seed, number, state[0])
