"""The process that writes history, with an interpreter and a database connection of its own. `main` reads batches from a socket as its
stdin until it ends.

The first message holds settings (JSON), the others are batches of `domain.history_batch`. Each answer acknowledges all batches up to its
number and returns what they counted. The number is stored in the same transaction, so a batch that is sent again (because the process died
before it answered, or a commit reported an error but succeeded) does not count twice.

After the server has exited, the process still writes what it was sent; if the database does not respond, for at most ALONE_SEC.
"""

import itertools
import json
import logging
import marshal
import os
import select
import signal
import socket
import time
from collections.abc import Callable

from sless import log
from sless.children import hide_from_children
from sless.domain.call_sums import CallSums, SumsKey, outcomes_of
from sless.domain.durations import backoff_sec
from sless.domain.history_batch import NUMBER_BYTES, HistoryBatch, choose_rows, decode, merged, message_of
from sless.errors import Code, SlessError
from sless.store import open_store
from sless.store.history import HistoryStore, Receipt

_log = logging.getLogger(__name__)
ALONE_SEC = 5.0
ROWS_AT_ONCE = 2_000
"""Rows per transaction, during which other writers wait on SQLite."""
_GROUP_BYTES = 8 * 2**20
_REST_SEC = 0.2
_MOST_REST_SEC = 2.0

Numbered = tuple[int, HistoryBatch]


def main() -> None:
    hide_from_children()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the end of stdin ends this process
    batches = Batches(0)
    first = batches.read()
    if not first:
        return
    order = json.loads(first[0][1])
    log.configure(order["log_level"])
    store = open_store(order["database_url"], holder=order["holder"])
    writer = HistoryWriter(store.history, order["session"], answer)
    group = first[1:]
    while group or (group := batches.read()):
        writer.write([(number, decode(data)) for number, data in group])
        group = []
    writer.close()
    store.close()


class Batches:
    """Reads batches from a socket: each packet has a number and the descriptor of a file with the batch."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    def read(self) -> list[tuple[int, bytes]]:
        """All batches that have arrived: waits for at least one, returns none when the server has closed the socket."""
        found: list[tuple[int, bytes]] = []
        size_bytes = 0
        while not found or (size_bytes < _GROUP_BYTES and select.select([self._socket], [], [], 0)[0]):
            number, files, _, _ = socket.recv_fds(self._socket, NUMBER_BYTES, 1)
            if not number:
                break
            with open(files[0], "rb") as file:
                file.seek(0)
                found.append((int.from_bytes(number), file.read()))
            size_bytes += len(found[-1][1])
        return found


def answer(data: bytes) -> None:
    """Sends an answer. A closed pipe is not an error: the server has ended, and the rest still has to be written."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(1, left) :]
    except BrokenPipeError:
        pass


class HistoryWriter:
    """Writes batches and acknowledges them. `answer` sends a message to the server."""

    def __init__(self, history: HistoryStore, session: str, answer: Callable[[bytes], None]) -> None:
        self._history = history
        self._session = session
        self._answer = answer
        self._parent = os.getppid()
        self._alone_since: float | None = None
        history.forget_sessions()

    def close(self) -> None:
        """Call this once everything is written and acknowledged."""
        self._history.forget_session(self._session)

    def write(self, group: list[Numbered]) -> None:
        choose_rows([batch for _, batch in group])
        part: list[Numbered] = []
        for numbered in group:
            if part and sum(len(batch) for _, batch in part) + len(numbered[1]) > ROWS_AT_ONCE:
                self._write_part(part)
                part = []
            part.append(numbered)
        self._write_part(part)

    def _write_part(self, part: list[Numbered]) -> None:
        number, batch = part[-1][0], merged([batch for _, batch in part])
        sums = batch.all_sums()
        try:
            self._store(number, batch, sums)
            dropped = (len(batch.calls) - len(batch.rows), 0)
        except Exception:
            _log.exception("the database refuses %d calls and %d log lines; dropping them", len(batch.rows), len(batch.lines))
            dropped = (len(batch.calls), len(batch.lines))
        calls, histogram, duration_ms = outcomes_of(sums.values())
        self._answer(message_of(number, marshal.dumps((calls, histogram, duration_ms, *dropped))))

    def _store(self, number: int, batch: HistoryBatch, sums: dict[SumsKey, CallSums]) -> None:
        """Retries until the database accepts it. Raises non-retryable errors, and the last one once the server has been gone too long."""
        rows = [call.invocation() for call in batch.rows]
        stats = [item.row(key) for key, item in sums.items()]
        for failures in itertools.count(1):
            try:
                self._history.add_once(Receipt(self._session, number), rows, stats, batch.lines)
                return
            except SlessError as error:
                if error.code is Code.INTERNAL or self._is_over():
                    raise
                _log.warning("cannot write history yet: %s", error.message)
            time.sleep(backoff_sec(failures, first_sec=_REST_SEC, max_sec=_MOST_REST_SEC))

    def _is_over(self) -> bool:
        if os.getppid() == self._parent:
            return False
        self._alone_since = self._alone_since or time.monotonic()
        return time.monotonic() - self._alone_since > ALONE_SEC
