"""The answer of a call."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sless.client.errors import ClientError, error_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """The answer of a function or service. `headers` is case-insensitive; repeated headers are joined with `, `."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def platform_error(self) -> str:
        """The code if sless answered instead of the function (`X-Sless-Error`), else ""."""
        return self.headers.get("X-Sless-Error", "")

    @property
    def invocation_path(self) -> str:
        """`Location` of an asynchronous call, else ""."""
        return self.headers.get("Location", "")

    @property
    def refusal(self) -> ClientError:
        """The error in an answer by sless itself."""
        try:
            parsed = json.loads(self.body)
        except ValueError:
            parsed = None
        return error_of(self.status, self.headers, self.body, parsed)
