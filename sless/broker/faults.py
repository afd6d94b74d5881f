"""Translates the library's exceptions into one, with a sentence for the owner of the trigger."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aiormq import exceptions

from sless.domain.amqp import BrokerUrl
from sless.outbound import OutboundError


class BrokerError(Exception):
    """The broker cannot be used. Its text is shown to users and contains no password."""


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turns exceptions of the library and the network into BrokerError; its text starts with `what`."""
    try:
        yield
    except BrokerError:
        raise
    except TimeoutError as error:
        raise BrokerError(f"{what}: no answer in time") from error
    except OutboundError as error:
        raise BrokerError(f"{what}: {error}") from error
    # The library raises RuntimeError and ValueError for channels that have been closed.
    except (exceptions.AMQPError, OSError, EOFError, RuntimeError, ValueError) as error:
        raise BrokerError(f"{what}: {reason_of(error)}") from error


def reason_of(error: BaseException | None) -> str:
    """The reason, in the broker's words if it gave any."""
    match error:
        case exceptions.ProbableAuthenticationError() | exceptions.AuthenticationError():
            return "user name or password refused"
        case exceptions.ConnectionNotAllowed():
            return f"refused: {_text_of(error)}"
        case exceptions.ChannelNotFoundEntity():
            return "not found"
        case exceptions.ChannelAccessRefused():
            return f"no permission: {_text_of(error)}"
        case exceptions.ChannelLockedResource():
            return "in exclusive use by another connection"
        case exceptions.AMQPConnectionError() if isinstance(cause := error.__cause__, OSError):
            return _os_reason(cause)
        case OSError():
            return _os_reason(error)
        case None | asyncio.CancelledError():
            return "closed"
    return _text_of(error) or type(error).__name__


def unreachable(url: BrokerUrl) -> str:
    return f"cannot connect to {url}"


def _os_reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _text_of(error: BaseException | None) -> str:
    """The broker's own text is the last argument of the library's exceptions."""
    texts = [str(item) for item in getattr(error, "args", ()) if item not in (None, "")]
    return texts[-1] if texts else ""
