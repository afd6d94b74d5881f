"""Errors of the client; all are ClientError."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHOWN_TEXT = 300
"""Characters shown of an answer that is not from sless."""


@dataclass(kw_only=True, eq=False)
class ClientError(Exception):
    """An error answer of the server, or no answer.

    `status` is the HTTP status, 0 without an answer. `code` is the stable slug of contract §3, `details` its list of
    {"field", "message"}, `message` a sentence for users. `retry_after_sec` is None if the server did not say when to try again.
    """

    message: str
    status: int = 0
    code: str = ""
    details: tuple[dict[str, str], ...] = ()
    request_id: str = ""
    retry_after_sec: float | None = None

    def __str__(self) -> str:
        return self.message


class Unreachable(ClientError):
    """No answer: connection refused, unknown host, time-out, or a broken connection."""


class WaitTimeout(ClientError):
    """The server answers, but the expected state was not reached in time."""


def error_of(status: int, headers: Mapping[str, str], body: bytes, parsed: Any) -> ClientError:
    """`parsed` is the JSON body, None if it is not JSON."""
    request_id = headers.get("X-Request-Id", "")
    after = headers.get("Retry-After", "")
    retry_after_sec = float(after) if after.isascii() and after.isdigit() else None
    if isinstance(parsed, dict) and isinstance(parsed.get("error"), str):
        details = parsed.get("details")
        return ClientError(
            message=parsed["error"],
            status=status,
            code=str(parsed.get("code") or ""),
            details=tuple(item for item in details if isinstance(item, dict)) if isinstance(details, list) else (),
            request_id=str(parsed.get("request_id") or request_id),
            retry_after_sec=retry_after_sec,
        )
    text = " ".join(body[: SHOWN_TEXT * 4].decode(errors="replace").split())[:SHOWN_TEXT]
    target = f" to {headers['Location']}" if 300 <= status < 400 and "Location" in headers else ""
    message = f"expected an answer from sless, found HTTP {status}{target}" + (f": {text}" if text else " with an empty body")
    return ClientError(message=message, status=status, request_id=request_id, retry_after_sec=retry_after_sec)
