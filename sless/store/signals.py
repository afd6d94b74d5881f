"""Wakes the loops of other replicas through PostgreSQL's NOTIFY. An optimisation only: loops also poll, which is all they do on SQLite or
behind a connection pooler that does not forward notifications."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, text

from sless.store.engine import Database

_log = logging.getLogger(__name__)

CHANNEL = "sless"
ROUTES = "routes"
DEMAND = "demand"
_POLL_SEC = 1.0
_REST_SEC = 5.0


def send(conn: Connection, topic: str) -> None:
    """Delivered when the transaction commits."""
    if conn.dialect.name == "postgresql":
        conn.execute(text("SELECT pg_notify(:channel, :topic)"), {"channel": CHANNEL, "topic": topic})


class Signals:
    """Calls `received` with the topic, in its own thread."""

    def __init__(self, database: Database, received: Callable[[str], None]) -> None:
        self._database = database
        self._received = received
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if not self._database.is_sqlite:
            self._thread = threading.Thread(target=self._run, name="signals", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=_REST_SEC)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except Exception as error:
                _log.warning("cannot listen for signals of other replicas, polling instead: %s", type(error).__name__)
                self._stopping.wait(_REST_SEC)

    def _listen(self) -> None:
        pooled = self._database.engine.raw_connection()
        driver: Any = pooled.driver_connection
        pooled.detach()  # it only listens from now on, and never serves queries
        try:
            driver.autocommit = True
            driver.execute(f"LISTEN {CHANNEL}")
            while not self._stopping.is_set():
                for signal in driver.notifies(timeout=_POLL_SEC):
                    self._received(signal.payload)
        finally:
            driver.close()
