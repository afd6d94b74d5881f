"""Callbacks and options of asynchronous calls: URLs, bodies, signatures, delays."""

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta

import pytest

from sless.domain.addresses import parse_allowed
from sless.domain.asynchronous import delay_sec_of, options_of
from sless.domain.callback import CallbackKey, body_of, parse_callback_url, signature_of, signing_keys_of
from sless.domain.model import CallStatus
from sless.domain.request import StoredRequest, stored_request_of
from sless.errors import Invalid
from tests.builders import AT, make_run

NOW = datetime(2026, 1, 31, 9, 26, 53, tzinfo=UTC)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com/done?x=1&y", (True, "example.com", 443, "/done?x=1&y", "example.com")),
        ("http://example.com", (False, "example.com", 80, "/", "example.com")),
        ("HTTPS://Example.COM:8443/a", (True, "example.com", 8443, "/a", "Example.COM:8443")),
        ("http://10.1.2.3:80/x", (False, "10.1.2.3", 80, "/x", "10.1.2.3:80")),
        ("https://[2606:4700::1111]:8443/x", (True, "2606:4700::1111", 8443, "/x", "[2606:4700::1111]:8443")),
        ("https://xn--bcher-kva.example/", (True, "xn--bcher-kva.example", 443, "/", "xn--bcher-kva.example")),
        ("https://a_b.example./", (True, "a_b.example.", 443, "/", "a_b.example.")),
        ("https://example.com//a/../b%2F", (True, "example.com", 443, "//a/../b%2F", "example.com")),
    ],
)
def test_urls(url, expected):
    found = parse_callback_url(url, parse_allowed(["10.1.0.0/16:80"]))
    assert (found.secure, found.host, found.port, found.target, found.authority) == expected


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "ftp://example.com/", "https://", "https:///x", "//example.com/", "https://example.com/#f", "https://u:p@example.com/",
        "https://u@example.com/", "https://example.com:0/", "https://example.com:99999/", "https://example.com:x/", "https://exa mple.com/",
        "https://example.com/ü", "https://example.com/\r\nX: y", "https://bücher.example/", "https://example.com\\@evil/", "https://-/",
        "http://127.0.0.1/", "http://[::1]/", "http://0x7f.1/", "http://2130706433/", "http://169.254.169.254/latest", "http://10.1.2.3:81/",
        "http://[::ffff:10.1.2.3]:80/", "http://[fe80::1%25eth0]/", "https://example.com/" + "x" * 2048,
    ],
)  # fmt: skip
def test_invalid_urls(url):
    with pytest.raises(Invalid) as error:
        parse_callback_url(url, parse_allowed(["10.1.0.0/16:80"]))
    (detail,) = error.value.details
    assert detail.field == "callback_url" and "found '" in detail.message


def test_options():
    assert options_of(None, None, ()).max_attempts == 3
    found = options_of(" 10 ", "https://example.com/", ())
    assert (found.max_attempts, found.callback_url) == (10, "https://example.com/")


@pytest.mark.parametrize("text", ["0", "11", "-1", "x", "", "3.0", "٣", "1" * 5000])
def test_invalid_attempts(text):
    with pytest.raises(Invalid, match="X-Sless-Max-Attempts: expected a whole number from 1 to 10"):
        options_of(text, None, ())


def test_the_error_for_an_invalid_callback_names_the_header():
    with pytest.raises(Invalid, match="X-Sless-Callback-Url: expected a public address"):
        options_of(None, "http://127.0.0.1/", ())


@pytest.mark.parametrize(("attempts", "jitter", "sec"), [(1, 0, 2), (2, 0, 4), (3, 1, 9.6), (3, -1, 6.4), (9, 0, 300), (500, 0, 300)])
def test_delays(attempts, jitter, sec):
    assert delay_sec_of(attempts, jitter, {}, NOW) == pytest.approx(sec)


@pytest.mark.parametrize(
    ("text", "sec"),
    [("60", 60), ("0", 2), ("9" * 400, 3600), ("Sat, 31 Jan 2026 09:27:53 GMT", 60), ("Sat, 31 Jan 2026 09:00:00 GMT", 2), ("x", 2),
     ("Sat, 31 Jan 2026 09:27:53", 2), ("-5", 2)],
)  # fmt: skip
def test_retry_after(text, sec):
    assert delay_sec_of(1, 0, {"retry-after": text}, NOW) == pytest.approx(sec)


def test_the_body_describes_the_finished_call():
    run = make_run(
        status=CallStatus.DEAD, message="bo\udfffom", attempts=3, http_status=500, version=2, started_at=AT, ended_at=AT, callback_url="https://x"
    )  # fmt: skip
    told = json.loads(body_of(run))
    assert told["id"] == run.id and told["status"] == "dead" and told["attempts"] == 3 and told["http_status"] == 500
    assert (
        told["error"] == "bo?om"
        and told["result"] is None
        and told["trigger"] == "invoke"
        and told["finished_at"] == "2026-01-31T09:26:53.589Z"
    )
    assert "callback_url" not in told


def test_signatures():
    keys = [CallbackKey(secret="one", created_at=NOW), CallbackKey(secret="two", created_at=NOW)]
    one, two = (hmac.new(secret, b'1700000000.https://a.example/x.{"a": 1}', hashlib.sha256).hexdigest() for secret in (b"one", b"two"))
    assert signature_of(keys, 1_700_000_000, "https://a.example/x", b'{"a": 1}') == f"v1={one},v1={two}"


def test_the_previous_key_signs_for_a_day():
    new, old, oldest = (CallbackKey(secret=str(n), created_at=NOW - timedelta(days=n)) for n in range(3))
    assert signing_keys_of([new, old, oldest], NOW + timedelta(hours=23)) == [new, old]
    assert signing_keys_of([new, old], NOW + timedelta(hours=24)) == [new]
    assert signing_keys_of([new], NOW) == [new]


def test_stored_requests_round_trip_as_text():
    stored = StoredRequest(
        method="POST", target=b"/a%2Fb?x=\xc3\xbc", full_path=b"/fn/n/f/a%2Fb", query=b"x=%C3%BC",
        headers=[(b"content-type", b"application/x-www-form-urlencoded"), (b"x", b"\xff")], client="::1", scheme="https", body=b"a=1&a=2",
    )  # fmt: skip
    assert stored_request_of(stored.text()) == stored
    assert json.loads(stored.event()) == {"a": "2"}
