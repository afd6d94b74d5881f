"""Rate limit buckets and CORS headers."""

import pytest

from sless.errors import Code, SlessError
from sless.proxy.policy import Bucket, Cors
from sless.proxy.request import Request


def taken(bucket: Bucket, now: float) -> int | None:
    """Return None if a call passes, else its Retry-After."""
    try:
        bucket.take(now)
    except SlessError as error:
        assert error.code is Code.TOO_MANY_REQUESTS
        return error.retry_after_sec
    return None


def test_a_bucket_refills_evenly() -> None:
    bucket = Bucket(60)
    assert [taken(bucket, 100.0) for _ in range(60)] == [None] * 60
    assert taken(bucket, 100.0) == 1
    assert taken(bucket, 101.0) is None
    assert taken(bucket, 101.5) == 1
    assert [taken(bucket, 10_000.0) for _ in range(61)] == [None] * 60 + [1]


def test_a_slow_bucket_returns_the_wait() -> None:
    bucket = Bucket(1)
    assert taken(bucket, 5.0) is None
    assert taken(bucket, 5.0) == 60
    assert taken(bucket, 35.0) == 30
    assert taken(bucket, 65.1) is None


def request_of(origin: str | None, method: str = "GET") -> Request:
    headers = [(b"origin", origin.encode())] if origin else []
    return Request(method, b"/fn/n/f", b"", headers)


@pytest.mark.parametrize(
    ("spec", "origin", "allowed"),
    [
        ({}, "https://a.test", b"*"),
        ({"allow_origins": ["*"]}, "https://a.test", b"*"),
        ({"allow_origins": ["*"], "allow_credentials": True}, "https://a.test", b"https://a.test"),
        ({"allow_origins": ["https://a.test"]}, "https://a.test", b"https://a.test"),
        ({"allow_origins": ["https://a.test"]}, "https://a.test.evil", None),
        ({"allow_origins": ["https://a.test"]}, None, None),
    ],
)
def test_origins(spec: dict[str, object], origin: str | None, allowed: bytes | None) -> None:
    headers = dict(Cors(spec).answer_headers(request_of(origin)))
    assert headers.get(b"access-control-allow-origin") == allowed
    assert (headers.get(b"vary") == b"Origin") is (allowed not in (None, b"*"))


def test_a_plain_options_request_is_not_a_preflight() -> None:
    assert not Cors({}).is_preflight(request_of("https://a.test", "OPTIONS"))


def test_a_bucket_with_a_burst_holds_no_more_than_that() -> None:
    bucket = Bucket(600, burst=20)
    assert [bucket.spend(5.0) for _ in range(21)] == [True] * 20 + [False]
    assert [bucket.spend(6.0) for _ in range(11)] == [True] * 10 + [False]
    assert [bucket.spend(900.0) for _ in range(21)] == [True] * 20 + [False]


def test_tokens_spent_on_other_replicas_are_deducted() -> None:
    bucket = Bucket(60, burst=10)
    assert bucket.spend(5.0)
    bucket.charge(12, 5.0)
    assert not bucket.spend(5.0) and bucket.wait_sec == 4
    assert not bucket.spend(8.0) and bucket.spend(9.0)
    bucket.charge(1_000_000, 9.0)
    assert not bucket.spend(9.0) and bucket.wait_sec == 61, "at most one minute is deducted in advance"
