"""Calls of services and of the REST interface, and the ledger of written rows."""

import http.client
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_SEC = 40
READY_SEC = 90


class Failed(Exception):
    """A failed check."""


def check(holds: bool, text: str) -> None:
    if not holds:
        raise Failed(text)


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) * percent // 100, len(values) - 1)] if values else 0.0


@dataclass(frozen=True)
class Answer:
    status: int
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Client:
    """Keeps one open connection per thread."""

    def __init__(self, endpoint: str, token: str) -> None:
        self._url = urlsplit(endpoint)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._own = threading.local()
        self.durations_ms: list[float] = []
        self.namespace = self._send("GET", "/v1/whoami", None).json["namespace"]

    def call(self, service: str, event: object) -> Answer:
        began = time.monotonic()
        answer = self._send("POST", f"/fn/{self.namespace}/{service}", event)
        self.durations_ms.append((time.monotonic() - began) * 1000)
        return answer

    def rest(self, method: str, path: str, body: object = None) -> Any:
        answer = self._send(method, f"/v1/namespaces/{self.namespace}/{path}", body)
        check(answer.status < 300, f"{method} {path}: {answer.status} {answer.text[:300]}")
        return answer.json if answer.text else None

    def await_version(self, name: str, version: int) -> None:
        self._await(lambda: self._serves(name, version), f"version {version} of {name} is not ready")

    def await_gone(self, name: str) -> None:
        path = f"/v1/namespaces/{self.namespace}/services/{name}"
        self._await(lambda: self._send("GET", path, None).status == 404, f"{name} is still there")

    def _serves(self, name: str, version: int) -> bool:
        found = self.rest("GET", f"services/{name}")
        check(found["phase"] != "Failed" and found["latest_state"] != "failed", f"{name}: {found['message']}")
        return found["phase"] == "Ready" and found["active_version"] == version

    def _await(self, is_met: Callable[[], bool], text: str) -> None:
        deadline = time.monotonic() + READY_SEC
        while not is_met():
            check(time.monotonic() < deadline, f"{text} after {READY_SEC} s")
            time.sleep(0.2)

    def _send(self, method: str, path: str, body: object) -> Answer:
        raw = None if method == "GET" else json.dumps(body).encode()
        connection = self._connection()
        try:
            connection.request(method, path, raw, self._headers)
            response = connection.getresponse()
            return Answer(response.status, response.read().decode())
        except (OSError, http.client.HTTPException) as error:
            self._own.connection = None
            connection.close()
            raise Failed(f"{method} {path}: no answer: {type(error).__name__}: {error}") from error

    def _connection(self) -> http.client.HTTPConnection:
        if getattr(self._own, "connection", None) is None:
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            self._own.connection = kind(self._url.hostname or "", self._url.port, timeout=TIMEOUT_SEC)
        return self._own.connection


class Ledger:
    """Rows whose write was acknowledged. Every title starts with a prefix unique to the run."""

    def __init__(self) -> None:
        self.run = f"m-{uuid.uuid4().hex[:10]}-"
        self._lock = threading.Lock()
        self._rows = 0
        self._open_writes = 0

    def prefix(self) -> str:
        return self.run + uuid.uuid4().hex[:12]

    def add(self, rows: int) -> None:
        with self._lock:
            self._rows += rows

    @contextmanager
    def writing(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that records the rows. Without a record, the write may or may not have happened."""
        recorded: list[int] = []
        try:
            yield recorded.append
        finally:
            with self._lock:
                self._rows += sum(recorded)
                self._open_writes += not recorded

    def fits(self, total: int) -> bool:
        """Fails if rows are fewer than acknowledged, or more although every write got an answer."""
        return total == self._rows if not self._open_writes else total >= self._rows

    def __str__(self) -> str:
        return f"{self._rows} rows" + (f" or more ({self._open_writes} writes without an answer)" if self._open_writes else "")
