"""Short requests that sless itself sends to an instance: control requests, and calls for the control loops. Reads answers into memory."""

from dataclasses import dataclass

from sless.proxy.connection import UpstreamConnection
from sless.proxy.exchange import BrokenOff, Exchange
from sless.proxy.known_answer import KnownAnswers
from sless.proxy.live_endpoint import connect
from sless.proxy.request import Headers
from sless.proxy.sweep import Sweep


class AnswerTooLarge(BrokenOff):
    """`status` is that of the answer."""

    def __init__(self, status: int, max_bytes: int) -> None:
        super().__init__(f"its answer is over {max_bytes} bytes")
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    status: int
    headers: Headers
    body: bytes


async def fetch(address: str, message: bytes, *, timeout_sec: float, max_bytes: int, sweep: Sweep) -> Fetched:
    """Sends `message` (a complete request) on a new connection. `timeout_sec` 0: no limit. Raises OSError, BrokenOff, OverTime."""
    connection = await connect(address, lambda: UpstreamConnection(lambda lost: None, KnownAnswers()))
    exchange = Exchange(connection, timeout_sec)
    sweep.add(exchange, None)
    try:
        connection.begin(exchange, head_only=message.startswith(b"HEAD "))
        connection.write(message)
        await exchange.head()
        pieces, size = [], 0
        while data := await exchange.read():
            size += len(data)
            if size > max_bytes:
                raise AnswerTooLarge(exchange.status, max_bytes)
            pieces.append(data)
        return Fetched(status=exchange.status, headers=exchange.headers, body=b"".join(pieces))
    finally:
        sweep.discard(exchange)
        connection.abort()


def control_request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: sless\r\nx-sless-control: 1\r\nconnection: close\r\n\r\n".encode()


async def control(address: str, path: str, *, sweep: Sweep, timeout_sec: float = 5.0, max_bytes: int = 64 * 2**20) -> bytes:
    """The body of the answer to a control request. Raises OSError, BrokenOff (also for a status other than 200), OverTime."""
    fetched = await fetch(address, control_request(path), timeout_sec=timeout_sec, max_bytes=max_bytes, sweep=sweep)
    if fetched.status != 200:
        raise BrokenOff(f"status {fetched.status} for {path}")
    return fetched.body
