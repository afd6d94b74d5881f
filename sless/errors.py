"""Errors for users: one class, one table of stable codes.

`Code` is the slug in the answer's `code` field and in `X-Sless-Error`. Its HTTP status is defined here and nowhere else.
"""

import errno
from collections.abc import Iterable
from dataclasses import dataclass

from sless.enums import StrEnum


class Code(StrEnum):
    """Stable slugs. Never rename one, because clients match on them."""

    INVALID = "invalid"
    INVALID_JSON = "invalid_json"
    INVALID_CODE = "invalid_code"
    UNAUTHORIZED = "unauthorized"
    TOKEN_MISSING = "token_missing"
    TOKEN_MALFORMED = "token_malformed"
    TOKEN_EXPIRED = "token_expired"
    TOKEN_BAD_SIGNATURE = "token_bad_signature"
    TOKEN_REVOKED = "token_revoked"
    FORBIDDEN = "forbidden"
    READ_ONLY = "read_only"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict"
    EXISTS = "already_exists"
    PRECONDITION_FAILED = "precondition_failed"
    TOO_LARGE = "too_large"
    URI_TOO_LONG = "uri_too_long"
    HEAD_TOO_LARGE = "head_too_large"
    UNSUPPORTED_MEDIA = "unsupported_media_type"
    REQUEST_TIMEOUT = "request_timeout"
    TOO_MANY_REQUESTS = "too_many_requests"
    OVERLOADED = "overloaded"
    LIMIT_REACHED = "limit_reached"
    INTERNAL = "internal"
    NOT_IMPLEMENTED = "not_implemented"
    BAD_RESULT = "bad_result"
    FUNCTION_BROKE_OFF = "function_broke_off"
    FUNCTION_EXITED = "function_exited"
    OUT_OF_MEMORY = "out_of_memory"
    UNAVAILABLE = "unavailable"
    DISABLED = "disabled"
    SUSPENDED = "suspended"
    NOT_READY = "not_ready"
    BUILD_FAILED = "build_failed"
    NO_INSTANCES = "no_instances"
    SHUTTING_DOWN = "shutting_down"
    STORAGE_FULL = "storage_full"
    TIMEOUT = "timeout"


STATUS: dict[Code, int] = {
    Code.INVALID: 400,
    Code.INVALID_JSON: 400,
    Code.INVALID_CODE: 400,
    Code.UNAUTHORIZED: 401,
    Code.TOKEN_MISSING: 401,
    Code.TOKEN_MALFORMED: 401,
    Code.TOKEN_EXPIRED: 401,
    Code.TOKEN_BAD_SIGNATURE: 401,
    Code.TOKEN_REVOKED: 401,
    Code.FORBIDDEN: 403,
    Code.READ_ONLY: 403,
    Code.NOT_FOUND: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.CONFLICT: 409,
    Code.EXISTS: 409,
    Code.PRECONDITION_FAILED: 412,
    Code.TOO_LARGE: 413,
    Code.URI_TOO_LONG: 414,
    Code.HEAD_TOO_LARGE: 431,
    Code.UNSUPPORTED_MEDIA: 415,
    Code.REQUEST_TIMEOUT: 408,
    Code.TOO_MANY_REQUESTS: 429,
    Code.OVERLOADED: 429,
    Code.LIMIT_REACHED: 403,
    Code.INTERNAL: 500,
    Code.NOT_IMPLEMENTED: 501,
    Code.BAD_RESULT: 502,
    Code.FUNCTION_BROKE_OFF: 502,
    Code.FUNCTION_EXITED: 502,
    Code.OUT_OF_MEMORY: 502,
    Code.UNAVAILABLE: 503,
    Code.DISABLED: 503,
    Code.SUSPENDED: 503,
    Code.NOT_READY: 503,
    Code.BUILD_FAILED: 503,
    Code.NO_INSTANCES: 503,
    Code.SHUTTING_DOWN: 503,
    Code.STORAGE_FULL: 507,
    Code.TIMEOUT: 504,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One error: `field` is a dotted path into the request (`env_vars.PATH`), `message` one sentence."""

    field: str
    message: str


MAX_DETAILS = 20
"""Errors reported per request."""
NUL_MISTAKE = "expected text without NUL characters"
"""PostgreSQL cannot store NUL."""


class SlessError(Exception):
    """An error with a message for users. The code determines the HTTP status."""

    def __init__(self, code: Code, message: str, *, details: Iterable[Detail] = (), retry_after_sec: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = tuple(details)
        self.retry_after_sec = retry_after_sec

    @property
    def status(self) -> int:
        return STATUS[self.code]

    def body(self, request_id: str) -> dict[str, object]:
        """The JSON object of contract §3."""
        return {
            "error": self.message,
            "code": str(self.code),
            "details": [{"field": detail.field, "message": detail.message} for detail in self.details],
            "request_id": request_id,
        }


class NotFound(SlessError):
    def __init__(self, kind: str, name: object) -> None:
        super().__init__(Code.NOT_FOUND, f'{kind} "{name}" not found')


class Invalid(SlessError):
    """A 400 that lists the first MAX_DETAILS errors; its message is the first one."""

    def __init__(self, *details: Detail, code: Code = Code.INVALID) -> None:
        first = details[0]
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        text = f"{first.field}: {first.message}" if first.field else first.message
        super().__init__(code, text + more, details=details[:MAX_DETAILS])


FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers for a full disk, quota or file."""


def storage_full(consequence: str = "nothing was stored") -> SlessError:
    return SlessError(Code.STORAGE_FULL, f"the server's disk is full; {consequence}")


class ConfigError(Exception):
    """Invalid settings: the server does not start. The text lists all errors."""
