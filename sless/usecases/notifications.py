"""The URL that receives a tenant's notices of failures, and notices of reached limits."""

from typing import Any

from sless import clock
from sless.domain.addresses import parse_allowed
from sless.domain.callback import parse_callback_url
from sless.domain.notice import NoticeEvent
from sless.domain.validate import mistakes_of
from sless.errors import Invalid, SlessError
from sless.store.notices import hour_of
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

    def limit_reached(self, namespace: str, error: SlessError) -> None:
        """Stores a notice, once per hour and limit."""
        facts = {"message": error.message}
        what = error.message.partition(":")[0]
        self._store.notices.add(namespace, NoticeEvent.LIMIT_REACHED, once=(what, hour_of(clock.now())), facts=facts)
        self._parts.wake("notices")
