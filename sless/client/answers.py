"""The answers of calls, and how an error answer is read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sless.client.errors import ClientError

SHOWN_TEXT = 300
"""Characters of an answer that is not ours which are worth showing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """What a function or service answered, untouched. `headers` is case-insensitive, repeated ones are joined with `, `."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def platform_error(self) -> str:
        """The code when sless itself answered because the function could not (`X-Sless-Error`), else ""."""
        return self.headers.get("X-Sless-Error", "")

    @property
    def invocation_path(self) -> str:
        """Where an asynchronous call can be looked up (`Location`), else ""."""
        return self.headers.get("Location", "")

    @property
    def refusal(self) -> ClientError:
        """Of an answer that sless gave instead of what it was asked for."""
        try:
            parsed = json.loads(self.body)
        except ValueError:
            parsed = None
        return error_of(self.status, self.headers, self.body, parsed)


def error_of(status: int, headers: Mapping[str, str], body: bytes, parsed: Any) -> ClientError:
    """`parsed` is the body as JSON, None when it is not JSON."""
    request_id = headers.get("X-Request-Id", "")
    if isinstance(parsed, dict) and isinstance(parsed.get("error"), str):
        details = parsed.get("details")
        return ClientError(
            message=parsed["error"],
            status=status,
            code=str(parsed.get("code") or ""),
            details=tuple(item for item in details if isinstance(item, dict)) if isinstance(details, list) else (),
            request_id=str(parsed.get("request_id") or request_id),
        )
    text = " ".join(body[: SHOWN_TEXT * 4].decode(errors="replace").split())[:SHOWN_TEXT]
    target = f" to {headers['Location']}" if 300 <= status < 400 and "Location" in headers else ""
    message = f"expected an answer of sless, found HTTP {status}{target}" + (f": {text}" if text else " without a text")
    return ClientError(message=message, status=status, request_id=request_id)
