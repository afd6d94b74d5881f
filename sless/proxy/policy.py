"""The rules of an http trigger: what a call must satisfy to reach the function."""

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from math import ceil
from time import monotonic
from typing import Any

from sless.domain.ports import HttpPolicy
from sless.errors import Code, SlessError
from sless.proxy.request import Headers, Request

TokenCheck = Callable[[str | None], Awaitable[None]]
"""Checks the Authorization header and removes it from the request. Raises SlessError if it does not grant access to this namespace."""


class MethodNotAllowed(SlessError):
    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        super().__init__(Code.METHOD_NOT_ALLOWED, f"method {method} is not allowed here, only {', '.join(allowed)}")
        self.allowed = allowed


class Policy:
    """One per trigger; holds its token bucket."""

    def __init__(self, http: HttpPolicy) -> None:
        self.http = http
        self.cors = Cors(http.cors) if http.cors else None
        self._bucket = Bucket(http.rate_limit) if http.rate_limit else None
        self.open = not (http.methods or http.auth != "none" or http.cors or http.rate_limit) and http.enabled
        """Whether it admits every call."""

    async def check(self, request: Request, token_check: TokenCheck) -> None:
        """Raises SlessError for a call that is not admitted. Preflights have been answered before."""
        http = self.http
        if http.methods and request.method not in http.methods and not (request.method == "HEAD" and "GET" in http.methods):
            raise MethodNotAllowed(request.method, http.methods)
        if http.auth == "token":
            authorization = request.header(b"authorization")
            await token_check(authorization.decode("latin-1") if authorization is not None else None)
        elif http.auth == "key":
            self._check_key(request)
        if self._bucket is not None:
            self._bucket.take(monotonic())

    def _check_key(self, request: Request) -> None:
        key = request.header(b"x-sless-key")
        if key is None:
            raise SlessError(Code.UNAUTHORIZED, "this function requires an API key in the header X-Sless-Key; none was sent")
        digest = hashlib.sha256(key).hexdigest()
        # Compare with all keys, so that timing does not reveal a close match.
        matches = [hmac.compare_digest(digest, known) for known in self.http.key_hashes]
        if not any(matches):
            raise SlessError(Code.UNAUTHORIZED, "this function does not accept the API key in the header X-Sless-Key")


class Bucket:
    """A token bucket with `per_minute` new tokens per minute. It holds up to `burst` tokens, by default those of a minute."""

    def __init__(self, per_minute: int, burst: int | None = None) -> None:
        self._per_minute = per_minute
        self._burst = float(per_minute if burst is None else burst)
        self._left = self._burst
        self._at = 0.0

    def spend(self, now: float) -> bool:
        """Takes a token; False if there is none."""
        left = self._filled(now)
        self._left = left - 1 if left >= 1 else left
        return left >= 1

    def charge(self, tokens: int, now: float) -> None:
        """Takes tokens that were spent elsewhere, at most those of the next minute in advance."""
        self._left = max(self._filled(now) - tokens, -float(self._per_minute))

    def _filled(self, now: float) -> float:
        left = self._left
        if self._at:
            left = min(self._burst, left + (now - self._at) * self._per_minute / 60)
        self._at = now
        return left

    @property
    def wait_sec(self) -> int:
        """Time until there is a token, after `spend` found none."""
        return max(1, ceil((1 - self._left) * 60 / self._per_minute - 1e-6))

    def take(self, now: float) -> None:
        """Takes a token. Raises TOO_MANY_REQUESTS if there is none."""
        if not self.spend(now):
            raise SlessError(
                Code.TOO_MANY_REQUESTS, f"over the limit of {self._per_minute} calls per minute; try again in {self.wait_sec} s",
                retry_after_sec=self.wait_sec,
            )  # fmt: skip


class Cors:
    """`spec` as the trigger's `cors` field: allow_origins, allow_methods, allow_headers, expose_headers, allow_credentials, max_age_sec."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._origins = tuple(spec.get("allow_origins") or ("*",))
        self._methods = ", ".join(spec.get("allow_methods") or ())
        self._headers = ", ".join(spec.get("allow_headers") or ())
        self._exposed = ", ".join(spec.get("expose_headers") or ())
        self._credentials = bool(spec.get("allow_credentials"))
        self._max_age_sec = spec.get("max_age_sec")

    def is_preflight(self, request: Request) -> bool:
        return request.method == "OPTIONS" and request.header(b"access-control-request-method") is not None

    def preflight(self, request: Request, methods: tuple[str, ...]) -> Headers:
        """Headers of the 204. Requested methods and headers are granted unless the trigger restricts them."""
        headers = self.answer_headers(request)
        if headers:
            asked = request.text(b"access-control-request-method")
            headers.append((b"access-control-allow-methods", (self._methods or ", ".join(methods) or asked).encode("latin-1")))
            allowed = self._headers or request.text(b"access-control-request-headers")
            if allowed:
                headers.append((b"access-control-allow-headers", allowed.encode("latin-1")))
            if self._max_age_sec is not None:
                headers.append((b"access-control-max-age", str(self._max_age_sec).encode()))
        return headers or [(b"vary", b"Origin")]

    def answer_headers(self, request: Request) -> Headers:
        """Headers to add to an answer; none if the request's origin is missing or not allowed."""
        origin = request.header(b"origin")
        if origin is None:
            return []
        if "*" not in self._origins and origin.decode("latin-1") not in self._origins:
            return []
        # A wildcard is invalid with credentials, so name the origin instead.
        anyone = "*" in self._origins and not self._credentials
        headers = [(b"access-control-allow-origin", b"*" if anyone else origin)]
        if not anyone:
            headers.append((b"vary", b"Origin"))
        if self._credentials:
            headers.append((b"access-control-allow-credentials", b"true"))
        if self._exposed:
            headers.append((b"access-control-expose-headers", self._exposed.encode("latin-1")))
        return headers
