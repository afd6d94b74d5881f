"""Delivers callbacks (the end of an asynchronous call) and notices from an `outbox`: signed POST requests to a URL of the tenant, at least
once, up to MAX_ATTEMPTS.

Each attempt resolves and checks the address once (`sless.outbound`); `delivery` connects to exactly that one.
"""

import logging
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from ssl import SSLContext
from typing import Any

from sless import clock
from sless._version import __version__
from sless.domain.asynchronous import delay_sec_of
from sless.domain.callback import (
    MAX_ATTEMPTS,
    parse_callback_url,
    signature_of,
    signing_keys_of,
)
from sless.domain.ports import Waker
from sless.errors import SlessError
from sless.outbound import AddressRefused, Outbound, OutboundError
from sless.reconcile.failures import note_failure
from sless.reconcile.outbox import CallbackOutbox, DeliveryResult, Outbox, OutboxMessage
from sless.store import Store

_log = logging.getLogger(__name__)

AT_ONCE = 32
AT_ONCE_PER_NAMESPACE = 4
_BUSY = frozenset({429, 503})


@dataclass(slots=True, kw_only=True)
class CallbacksLoop:
    """Trusts the machine's certificates if `tls` is None. `whole_sec` limits the time from the first byte sent to the head of the
    response."""

    store: Store
    outbound: Outbound
    waker: Waker
    outbox: Outbox | None = None
    """Callbacks if None."""
    tls: SSLContext | None = None
    whole_sec: float = 15.0
    connect_sec: float = 5.0
    rng: random.Random = field(default_factory=random.Random)
    _outbox: Outbox = field(init=False)
    _pool: ThreadPoolExecutor = field(init=False)
    _in_flight: dict[str, str] = field(default_factory=dict)
    """Key → namespace of items in flight."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._outbox = self.outbox or CallbackOutbox(self.store)
        self._pool = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="callback")

    def tick(self) -> None:
        for due in self._outbox.list_due(clock.now(), 2 * AT_ONCE_PER_NAMESPACE):
            if self._take(due):
                self._pool.submit(self._send, due)

    def stop(self) -> None:
        """Leaves unsent items to the next leader."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _take(self, due: Any) -> bool:
        with self._lock:
            in_flight = list(self._in_flight.values())
            if due.key in self._in_flight or len(in_flight) >= AT_ONCE or in_flight.count(due.namespace) >= AT_ONCE_PER_NAMESPACE:
                return False
            self._in_flight[due.key] = due.namespace
            return True

    def _send(self, due: Any) -> None:
        freed = False
        try:
            message = self._outbox.find_message(due)
            if message is not None:
                self._note(due, self._tell(due, message))
            freed = True
        except Exception as error:
            # Do not wake the loop, whose interval is the pause after an internal error.
            note_failure(self.store, self._outbox.topic, error)
            _log.exception("%s: %s could not be sent or recorded; it is retried", self._outbox.topic, due.key)
        finally:
            with self._lock:
                self._in_flight.pop(due.key, None)
        if freed:
            self.waker.wake(self._outbox.topic)

    def _tell(self, due: Any, message: OutboxMessage) -> DeliveryResult:
        try:
            url = parse_callback_url(due.url, self.outbound.allowed)
            address = self.outbound.address_of(url.host, url.port)
        except (SlessError, OutboundError) as error:
            return DeliveryResult(error=str(error), final=not isinstance(error, OutboundError) or isinstance(error, AddressRefused))
        now_sec = int(time.time())
        keys = signing_keys_of(self.store.callbacks.keys(due.namespace), clock.now())
        headers = {
            "Host": url.authority, "Content-Type": "application/json", "User-Agent": f"sless/{__version__}",
            "X-Sless-Timestamp": str(now_sec), "X-Sless-Signature": signature_of(keys, now_sec, due.url, message.body),
            "Connection": "close", **message.headers,
        }  # fmt: skip
        # Imported here: the HTTP client would make each start of a server slower.
        from sless.reconcile.delivery import HttpPost, deliver

        delivery = HttpPost(url=url, address=address, headers=headers, body=message.body)
        return deliver(delivery, tls=self.tls, connect_sec=self.connect_sec, whole_sec=self.whole_sec)

    def _note(self, sent: Any, result: DeliveryResult) -> None:
        if result.http_status is not None and 200 <= result.http_status < 300:
            self._outbox.delivered(sent, result.http_status)
            return
        error = result.error or f"expected a status of 200 to 299, found {result.http_status}"
        if result.final or sent.attempts + 1 >= MAX_ATTEMPTS:
            self._outbox.failed(sent, result.http_status, error)
            return
        now = clock.now()
        headers = {"retry-after": result.retry_after} if result.http_status in _BUSY else {}
        delay = timedelta(seconds=delay_sec_of(sent.attempts + 1, self.rng.uniform(-1, 1), headers, now))
        self._outbox.postponed(sent, now + delay, result.http_status, error)
