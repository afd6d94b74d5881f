"""What a caller of the client has to handle: one class."""

from dataclasses import dataclass


@dataclass(kw_only=True, eq=False)
class ClientError(Exception):
    """An error answer of the server, or none at all.

    `status` is the HTTP status, 0 when there was no answer. `code` is the stable slug of contract §3, `details` its list of
    {"field", "message"}. `message` is one sentence for a person.
    """

    message: str
    status: int = 0
    code: str = ""
    details: tuple[dict[str, str], ...] = ()
    request_id: str = ""

    def __str__(self) -> str:
        return self.message


class Unreachable(ClientError):
    """No answer: connection refused, name unknown, time-out, or the server went away in the middle."""


class WaitTimeout(ClientError):
    """The server answers, but what was waited for has not happened in time."""
