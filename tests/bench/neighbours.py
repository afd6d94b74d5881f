"""Attacks by which one tenant might slow another, each while a probe calls a function of the other tenant.

Used by `make bench ARGS=neighbours` with real measurements, and, for a moment each, by tests/integration/test_neighbours.py.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from urllib.parse import urlsplit

from tests.services.product import Tenant, answers, wait_until

QUICK = "def handle(event):\n    return 1\n"
FLOOD = """
import os

def handle(event):
    for _ in range(int(event.get("megabytes", 0))):
        os.write(1, b"x" * 999_999 + b"\\n")
    return 1
"""


@dataclass(slots=True)
class Probe:
    """One caller on one kept connection; waits 2 ms between calls. `statuses` other than 200 count as failed."""

    port: int
    path: str
    times_ms: list[float] = field(default_factory=list)
    failed: int = 0

    def run(self, seconds: float) -> "Probe":
        request = f"GET {self.path} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
        deadline = time.monotonic() + seconds
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as sock:
            while time.monotonic() < deadline:
                began = time.monotonic()
                sock.sendall(request)
                answer = sock.recv(65536)
                self.times_ms.append((time.monotonic() - began) * 1000)
                self.failed += not answer.startswith(b"HTTP/1.1 200")
                time.sleep(0.002)
        return self

    def percentile_ms(self, part: float) -> float:
        ordered = sorted(self.times_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


@dataclass(frozen=True, slots=True)
class Attacker:
    """What the attacking process needs to know of its tenant. It is a separate process, so that it does not slow the probe."""

    port: int
    namespace: str
    token: str


Attack = Callable[[Attacker, threading.Event], None]
"""Attacks until the event is set; runs in several threads."""


def _connect(tenant: Attacker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", tenant.port), timeout=5)


def _ask(tenant: Attacker, head: bytes, body: bytes = b"") -> bytes:
    """Sends a request and returns the beginning of its answer; b"" if the server closed first."""
    try:
        with _connect(tenant) as sock:
            sock.sendall(head + body)
            return sock.recv(4096)
    except OSError:
        return b""


def call_flood(tenant: Attacker, stop: threading.Event) -> None:
    """Calls as fast as they are answered, 32 in a pipeline."""
    request = f"GET /fn/{tenant.namespace}/quick HTTP/1.1\r\nhost: x\r\n\r\n".encode() * 32
    while not stop.is_set():
        try:
            with _connect(tenant) as sock:
                while not stop.is_set():
                    sock.sendall(request)
                    sock.recv(65536)
        except OSError:
            continue


def log_flood(tenant: Attacker, stop: threading.Event) -> None:
    body = json.dumps({"megabytes": 20}).encode()
    head = f"POST /fn/{tenant.namespace}/quick HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    while not stop.is_set():
        _ask(tenant, head.encode(), body)


def uploads(tenant: Attacker, stop: threading.Event) -> None:
    """Code that is slow to check: thousands of small statements."""
    body = json.dumps({"files": {"handler.py": QUICK + "x = [" + "[0]," * 150_000 + "]\n"}}).encode()
    head = (
        f"POST /v1/namespaces/{tenant.namespace}/functions/uploads/upload HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {tenant.token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    while not stop.is_set():
        _ask(tenant, head.encode(), body)


def bodies_without_a_token(tenant: Attacker, stop: threading.Event) -> None:
    """The beginning of a large upload, which is never finished."""
    head = f"POST /v1/namespaces/{tenant.namespace}/functions/uploads/upload HTTP/1.1\r\nhost: x\r\ncontent-length: 30000000\r\n\r\n"
    while not stop.is_set():
        _ask(tenant, head.encode(), b"x" * 500_000)


def asynchronous(tenant: Attacker, stop: threading.Event) -> None:
    body = b'"' + b"x" * 100_000 + b'"'
    head = f"POST /fn/{tenant.namespace}/quick HTTP/1.1\r\nhost: x\r\nprefer: respond-async\r\ncontent-length: {len(body)}\r\n\r\n"
    while not stop.is_set():
        _ask(tenant, head.encode(), body)


def idle_connections(tenant: Attacker, stop: threading.Event) -> None:
    kept: list[socket.socket] = []
    try:
        while not stop.is_set():
            if len(kept) < 250:
                kept.append(_connect(tenant))
                kept[-1].sendall(b"GET / HT")
            else:
                stop.wait(0.05)
    finally:
        for sock in kept:
            sock.close()


def slow_readers(tenant: Attacker, stop: threading.Event) -> None:
    """Ask for the source of a function and do not read it."""
    head = (
        f"GET /v1/namespaces/{tenant.namespace}/functions/quick/source HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {tenant.token}\r\n\r\n"
    )
    kept: list[socket.socket] = []
    try:
        while not stop.is_set():
            kept.append(_connect(tenant))
            kept[-1].sendall(head.encode())
            stop.wait(0.05)
    finally:
        for sock in kept:
            sock.close()


def unknown_tokens(tenant: Attacker, stop: threading.Event) -> None:
    head = b"GET /v1/whoami HTTP/1.1\r\nhost: x\r\nauthorization: Bearer e30.e30.e30\r\n\r\n"
    while not stop.is_set():
        _ask(tenant, head)


ATTACKS: dict[str, tuple[Attack, int]] = {
    "a flood of calls": (call_flood, 4),
    "100 MB/s of output": (log_flood, 4),
    "uploads that are slow to check": (uploads, 12),
    "bodies without a token": (bodies_without_a_token, 8),
    "asynchronous calls": (asynchronous, 8),
    "1,000 idle connections": (idle_connections, 4),
    "slow readers of source": (slow_readers, 4),
    "bad tokens": (unknown_tokens, 8),
}
"""name → attack and the number of its threads."""


def prepare(attacker: Tenant, victim: Tenant) -> Probe:
    """Deploys what the attacks and the probe need."""
    attacker.create("uploads", "function")
    attacker.deploy("quick", {"handler.py": FLOOD, "data.txt": "x" * 9_000_000})
    path = victim.deploy("victim", {"handler.py": QUICK})
    wait_until(lambda: answers(victim.product.url + path), "the victim answers")
    return Probe(urlsplit(victim.product.url).port or 80, path)


@contextmanager
def attacked(attacker: Tenant, name: str) -> Iterator[None]:
    """Runs the attack during the block."""
    context = get_context("fork")  # importing this again would take longer than an attack
    begun = context.Event()
    known = Attacker(urlsplit(attacker.product.url).port or 80, attacker.namespace, attacker.token)
    process = context.Process(target=_attack, args=(known, name, begun), daemon=True)
    process.start()
    try:
        assert begun.wait(60), "the attack did not begin"
        yield
    finally:
        process.kill()
        process.join()


def _attack(attacker: Attacker, name: str, begun: Event) -> None:
    """Until this process is killed."""
    attack, count = ATTACKS[name]
    ending = threading.Event()
    threads = [threading.Thread(target=attack, args=(attacker, ending), daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    begun.set()
    for thread in threads:
        thread.join()


def measure(probe: Probe, attacker: Tenant, name: str, seconds: float) -> tuple[Probe, Probe]:
    """(quiet, attacked): the quiet half is measured right before, as absolute times on a shared machine are not comparable."""
    quiet = Probe(probe.port, probe.path).run(seconds)
    with attacked(attacker, name):
        busy = Probe(probe.port, probe.path).run(seconds)
    return quiet, busy
