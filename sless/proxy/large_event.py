"""Makes the event of a run from a request body, in a child process if the body is large: parsing 30 MB of JSON holds the interpreter
lock for most of a second, which would block the event loop.

The child's `main` reads a line of JSON (content type, query) and then the body. It writes `=` and the event, or `!` and the reason why
the body is not valid JSON.
"""

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from sless.children import run_child, was_too_much
from sless.domain.event import event_of
from sless.errors import Code, SlessError
from sless.proxy.turns import Turns

LARGE_BYTES = 1 * 2**20
_AT_ONCE = 2
"""Parsing a body takes thirty times its size in memory."""
_CHILD_SEC = 60


class EventReader:
    """Used on the event loop only."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="large-event")
        self._turns = Turns("large events", at_once=_AT_ONCE)

    async def event_of(self, owner: str, content_type: str, query: str, body: bytes) -> str:
        """As `domain.event.event_of`. Raises SlessError, also when parsing exceeds the limits of memory and time. Namespaces (`owner`) take
        turns."""
        if len(body) <= LARGE_BYTES:
            return event_of(content_type, query, body)
        async with self._turns.turn(owner):
            return await asyncio.get_running_loop().run_in_executor(self._threads, event_in_child, content_type, query, body)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)


def event_in_child(content_type: str, query: str, body: bytes) -> str:
    """Blocks."""
    order = json.dumps([content_type, query]).encode() + b"\n"
    try:
        done = run_child("sless.proxy.large_event", order + body, _CHILD_SEC)
    except subprocess.TimeoutExpired:
        raise SlessError(Code.INVALID_JSON, f"the request body could not be parsed within {_CHILD_SEC} s") from None
    answer = done.stdout
    if done.returncode == 0 and answer[:1] == b"=":
        return answer[1:].decode()
    if done.returncode == 0 and answer[:1] == b"!":
        raise SlessError(Code.INVALID_JSON, answer[1:].decode())
    if was_too_much(done):
        raise SlessError(Code.INVALID_JSON, "the request body cannot be parsed within the memory limit")
    raise RuntimeError(f"the child process that parses a body ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")


def main() -> None:
    content_type, query = json.loads(sys.stdin.buffer.readline())
    try:
        answer = "=" + event_of(content_type, query, sys.stdin.buffer.read())
    except SlessError as error:
        answer = "!" + error.message
    sys.stdout.buffer.write(answer.encode())
