"""The URL that receives a tenant's notices of failures, and notices of reached limits."""

from typing import Any

from sless.domain.addresses import parse_allowed
from sless.domain.callback import parse_callback_url
from sless.domain.limits import LimitExceeded
from sless.domain.validate import mistakes_of
from sless.errors import Invalid
from sless.tokens import Caller
from sless.usecases.parts import UseCaseParts


class Notifications:
    def __init__(self, parts: UseCaseParts) -> None:
        self._parts = parts
        self._store = parts.store

    def find_url(self, namespace: str) -> str | None:
        return self._store.notices.find_url(namespace)

    def set_url(self, caller: Caller, namespace: str, body: Any) -> str | None:
        """Raises Invalid, also for an address that may not be reached."""
        if mistakes := mistakes_of("NotificationsReplace", body):
            raise Invalid(*mistakes)
        url = body["notify_url"] or None
        if url is not None:
            parse_callback_url(url, parse_allowed(self._parts.settings.outbound_allow), field="notify_url")
        self._parts.ensure_tenant(caller, namespace)
        self._store.notices.set_url(namespace, url)
        return url

    def limit_reached(self, namespace: str, error: LimitExceeded) -> None:
        """Stores a notice, once per hour and limit."""
        self._store.notices.limit_reached(namespace, error)
        self._parts.wake("notices")
